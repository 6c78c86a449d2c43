// The inner loops of reductions; see sums.h and lanes.h.

#include "sums.h"

#include "lanes.h"

namespace samebits {
namespace {

// A sum that TwoSum adds block by block, and the sum of magnitudes.
struct Plain {
  double near = 0, rest = 0, magnitude = 0;
};

SAMEBITS_INLINE double lane_sum(Doubles value) {
  double sums[kLanes];
  store_as(value, sums);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
  return sums[0];
}

// Adds n terms, n <= kBlock, in four vectors of sums and four of magnitudes.
template <typename T>
SAMEBITS_INLINE void add_block(const T* x, int64_t n, Doubles* total, Doubles* magnitudes) {
  Doubles sum[4] = {}, size[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int k = 0; k < 4; ++k) {
      Doubles term = load(x + i + k * kLanes);
      sum[k] += term;
      size[k] += magnitude(term);
    }
  }
  for (; i < n; i += kLanes) {
    Doubles term = i + kLanes <= n ? load(x + i) : load_some(x + i, n - i);
    sum[0] += term;
    size[0] += magnitude(term);
  }
  *total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
  *magnitudes += (size[0] + size[1]) + (size[2] + size[3]);
}

template <typename T>
SAMEBITS_INLINE Plain plain_row(const T* x, int64_t n) {
  Plain sum;
  Doubles total, magnitudes{};
  if (n <= kBlock) {
    add_block(x, n, &total, &magnitudes);
    sum.near = lane_sum(total);
  } else {
    Doubles near{}, rest{};
    for (int64_t i = 0; i < n; i += kBlock) {
      add_block(x + i, n - i < kBlock ? n - i : kBlock, &total, &magnitudes);
      rest += two_sum(&near, total);
    }
    for (int lane = 0; lane < kLanes; ++lane) sum.rest += two_sum(&sum.near, near[lane]);
    sum.rest += lane_sum(rest);
  }
  sum.magnitude = lane_sum(magnitudes);
  return sum;
}

template <typename T>
void plain_rows(const void* terms, int64_t sums, int64_t n, int64_t stride, Tile* tile) {
  const T* x = static_cast<const T*>(terms);
  for (int64_t row = 0; row < sums; ++row) {
    Plain sum = plain_row(x + row * stride, n);
    tile->rest[row] += two_sum(&tile->near[row], sum.near) + sum.rest;
    tile->error[row] += sum.magnitude;
  }
}

// Adds a few rows to sums of columns, vector by vector. `some` is the width of the last vector.
template <int kRows, typename T>
SAMEBITS_INLINE void add_rows(const T* x, int64_t sums, int64_t stride, double* total,
                              double* magnitudes) {
  auto add = [&](int64_t i, auto load_one) {
    Doubles sum[kRows], size[kRows];
    for (int row = 0; row < kRows; ++row) {
      sum[row] = load_one(x + row * stride + i);
      size[row] = magnitude(sum[row]);
    }
    for (int width = kRows / 2; width > 0; width /= 2) {
      for (int row = 0; row < width; ++row) {
        sum[row] += sum[row + width];
        size[row] += size[row + width];
      }
    }
    store_as(load_as<Doubles>(total + i) + sum[0], total + i);
    store_as(load_as<Doubles>(magnitudes + i) + size[0], magnitudes + i);
  };
  int64_t i = 0;
  for (; i + kLanes <= sums; i += kLanes) add(i, [](const T* at) { return load(at); });
  if (i < sums) add(i, [&](const T* at) { return load_some(at, sums - i); });
}

// Adds rows to the sums of columns. Arrays of the tile are longer than `sums` by a vector at most,
// whose lanes then stay 0.
template <typename T>
SAMEBITS_INLINE void add_columns(const T* x, int64_t sums, int64_t rows, int64_t stride,
                                 Tile* tile) {
  // A lane adds 8 rows in 3 roundings, so a block of rows has kRows / 8 + 10 roundings.
  constexpr int64_t kRows = 8 * 128;
  alignas(64) double total[kTile];
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t last = rows - first < kRows ? rows : first + kRows;
    const int64_t padded = (sums + kLanes - 1) / kLanes * kLanes;
    for (int64_t i = 0; i < padded; ++i) total[i] = 0;
    int64_t row = first;
    for (; row + 8 <= last; row += 8)
      add_rows<8>(x + row * stride, sums, stride, total, tile->error);
    for (; row + 2 <= last; row += 2)
      add_rows<2>(x + row * stride, sums, stride, total, tile->error);
    if (row < last) add_rows<1>(x + row * stride, sums, stride, total, tile->error);
    for (int64_t i = 0; i < padded; i += kLanes) {
      Doubles near = load_as<Doubles>(tile->near + i);
      Doubles error = two_sum(&near, load_as<Doubles>(total + i));
      store_as(near, tile->near + i);
      store_as(load_as<Doubles>(tile->rest + i) + error, tile->rest + i);
    }
  }
}

template <typename T>
void plain_columns(const void* terms, int64_t sums, int64_t rows, int64_t stride, Tile* tile) {
  const T* x = static_cast<const T*>(terms);
  const int64_t together = sums < 1 ? 1 : kTile / sums;
  if (sums != stride || sums >= 128 || rows < 8 * together) {
    add_columns(x, sums, rows, stride, tile);
    return;
  }
  // Short rows that are neighbours: several are one row of a wider tile, which is folded then.
  Tile wide;
  wide.clear(kTile);
  const int64_t groups = rows / together;
  add_columns(x, together * sums, groups, together * sums, &wide);
  for (int64_t row = 0; row < together; ++row) {
    for (int64_t i = 0; i < sums; ++i) {
      const int64_t at = row * sums + i;
      tile->rest[i] += two_sum(&tile->near[i], wide.near[at]) + wide.rest[at];
      tile->error[i] += wide.error[at];
    }
  }
  add_columns(x + groups * together * sums, sums, rows - groups * together, stride, tile);
}

SAMEBITS_INLINE void add_exact(const Exact<double>& sum, int64_t at, Tile* tile) {
  Exact<double> all{tile->near[at], tile->rest[at], tile->error[at]};
  all.add(sum.near);
  all.add_to_rest(sum.rest);
  tile->near[at] = all.near;
  tile->rest[at] = all.rest;
  tile->error[at] = all.error + sum.error;
}

SAMEBITS_INLINE void store_exact(const Exact<Doubles>& sum, int64_t at, Tile* tile) {
  store_as(sum.near, tile->near + at);
  store_as(sum.rest, tile->rest + at);
  store_as(sum.error, tile->error + at);
}

// The sum of a long row: two vectors of sums, then their lanes.
template <typename T>
SAMEBITS_INLINE Exact<double> exact_row(const T* x, int64_t n) {
  Exact<Doubles> sum, other;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    sum.add(load(x + i));
    other.add(load(x + i + kLanes));
  }
  for (; i < n; i += kLanes) sum.add(i + kLanes <= n ? load(x + i) : load_some(x + i, n - i));
  sum.add(other.near);
  sum.add_to_rest(other.rest);
  sum.error += other.error;
  return folded(sum);
}

template <typename T>
void exact_rows(const void* terms, int64_t sums, int64_t n, int64_t stride, Tile* tile) {
  const T* x = static_cast<const T*>(terms);
  int64_t row = 0;
  if (n <= kShort) {  // A lane has a row.
    for (; row + kLanes <= sums; row += kLanes) {
      Exact<Doubles> sum = load_exact(tile->near + row, tile->rest + row, tile->error + row);
      for (int64_t i = 0; i < n; ++i) sum.add(load_apart(x + row * stride + i, stride));
      store_exact(sum, row, tile);
    }
  }
  for (; row < sums; ++row) {
    Exact<double> sum;
    if (n > kShort) {
      sum = exact_row(x + row * stride, n);
    } else {
      for (int64_t i = 0; i < n; ++i) sum.add(widen(x[row * stride + i]));
    }
    add_exact(sum, row, tile);
  }
}

template <typename T>
void exact_columns(const void* terms, int64_t sums, int64_t rows, int64_t stride, Tile* tile) {
  const T* x = static_cast<const T*>(terms);
  for (int64_t i = 0; i < sums; i += kLanes) {
    Exact<Doubles> sum = load_exact(tile->near + i, tile->rest + i, tile->error + i);
    if (i + kLanes <= sums) {
      for (int64_t row = 0; row < rows; ++row) sum.add(load(x + row * stride + i));
    } else {
      for (int64_t row = 0; row < rows; ++row)
        sum.add(load_some(x + row * stride + i, sums - i));
    }
    store_exact(sum, i, tile);
  }
}

template <typename R>
bool decide(const Tile& tile, int64_t first, int64_t last, double factor, void* out,
            uint8_t* in_doubt) {
  auto* words = static_cast<typename R::Word*>(out);
  int any = 0;
  for (int64_t i = first; i < last; ++i) {
    double near = tile.near[i];
    double rest = two_sum(&near, tile.rest[i]);
    // A sum that is not finite is `near` of the tile: TwoSum makes NaN of an infinity.
    double value = is_finite(tile.near[i]) ? to_odd(near, rest) : tile.near[i];
    bool is_sure = is_decided<R>(value, tile.error[i] * factor, &words[i]);
    in_doubt[i] = !is_sure;
    any |= !is_sure;
  }
  return any != 0;
}

}  // namespace

SAMEBITS_TABLE(SumKernels, sum_kernels) = {
    {plain_rows<float>, plain_rows<bfloat16>, plain_rows<float16>},
    {plain_columns<float>, plain_columns<bfloat16>, plain_columns<float16>},
    {exact_rows<float>, exact_rows<bfloat16>, exact_rows<float16>},
    {exact_columns<float>, exact_columns<bfloat16>, exact_columns<float16>},
    {decide<Float32>, decide<BFloat16>, decide<Float16>},
};

}  // namespace samebits

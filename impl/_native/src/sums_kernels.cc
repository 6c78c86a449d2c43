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
  using Half = double __attribute__((vector_size(32)));
  Half sum = load_as<Half>(&value);
#if defined(__AVX512F__)
  sum += load_as<Half>(reinterpret_cast<const char*>(&value) + sizeof(Half));
#endif
  return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

// Reads the cache lines of `count` terms ahead of their use. A processor does so itself, but stops
// at the end of each page of memory. An address outside of the array has no effect.
template <typename T>
SAMEBITS_INLINE void read_ahead(const T* from, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / sizeof(T)) __builtin_prefetch(from + i);
}

// Adds n terms, n <= kBlock, in four vectors of sums and four of magnitudes.
template <typename T>
SAMEBITS_INLINE void add_block(const T* x, int64_t n, Doubles* total, Doubles* magnitudes) {
  constexpr int64_t kAhead = 2048 / sizeof(T);
  Doubles sum[4] = {}, size[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    read_ahead(x + i + kAhead, 4 * kLanes);
    for (int k = 0; k < 4; ++k) {
      Doubles term = load(x + i + k * kLanes);
      sum[k] += term;
      size[k] += magnitude(term);
    }
  }
  auto add = [&](Doubles term) {
    sum[0] += term;
    size[0] += magnitude(term);
  };
  for (; i + kLanes <= n; i += kLanes) add(load(x + i));
  if (i < n) add(n > kLanes ? load_last(x + n, n - i) : load_some(x + i, n - i));
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

// Adds a few rows to sums of columns, vector by vector, and their magnitudes if `magnitudes` is
// not null.
template <int kRows, typename T>
SAMEBITS_INLINE void add_rows(const T* x, int64_t sums, int64_t stride, double* total,
                              double* magnitudes) {
  auto add = [&](int64_t i, auto load_one) {
    Doubles sum[kRows], size[kRows];
    for (int row = 0; row < kRows; ++row) {
      // Rows may be pages apart, so only this code knows the ones that are next.
      __builtin_prefetch(x + (row + kRows) * stride + i);
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
    if (magnitudes != nullptr)
      store_as(load_as<Doubles>(magnitudes + i) + size[0], magnitudes + i);
  };
  int64_t i = 0;
  for (; i + kLanes <= sums; i += kLanes) add(i, [](const T* at) { return load(at); });
  if (i == sums) return;
  if (sums < kLanes) return add(i, [&](const T* at) { return load_some(at, sums); });
  // The last vector ends with the row, and adds zeros to the sums that have this row already.
  add(sums - kLanes, [&](const T* at) { return load_last(at + kLanes, sums - i); });
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

// The sum of a row that float64 adds without an error.
template <typename T>
SAMEBITS_INLINE double sure_row(const T* x, int64_t n) {
  Doubles sum[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes)
    for (int k = 0; k < 4; ++k) sum[k] += load(x + i + k * kLanes);
  for (; i + kLanes <= n; i += kLanes) sum[0] += load(x + i);
  if (i < n) sum[1] += n > kLanes ? load_last(x + n, n - i) : load_some(x + i, n - i);
  return lane_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

// The sum of a row of any terms: two vectors of sums, then their lanes.
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

// Adds short rows, a row in each lane.
template <bool kSure, typename T>
void add_short_rows(const T* x, int64_t sums, int64_t n, int64_t stride, Tile* tile,
                    int64_t first) {
  int64_t row = 0;
  for (; row + kLanes <= sums; row += kLanes) {
    const int64_t to = first + row;
    Exact<Doubles> sum = load_exact(tile->near + to, tile->rest + to, tile->error + to);
    Doubles sure{};
    for (int64_t i = 0; i < n; ++i) {
      Doubles term = load_apart(x + row * stride + i, stride);
      if (kSure) {
        sure += term;
      } else {
        sum.add(term);
      }
    }
    if (kSure) sum.add(sure);
    store_exact(sum, to, tile);
  }
  for (; row < sums; ++row) {
    Exact<double> sum;
    for (int64_t i = 0; i < n; ++i) sum.add(widen(x[row * stride + i]));
    add_exact(sum, first + row, tile);
  }
}

template <typename T>
void exact_rows(const void* terms, int64_t sums, int64_t n, int64_t stride, Tile* tile) {
  // Rows together have about two blocks of terms, and a long row has several parts.
  const int64_t together = n >= kBlock ? 1 : 2 * kBlock / (n > 0 ? n : 1);
  const T* x = static_cast<const T*>(terms);
  for (int64_t row = 0; row < sums; row += together) {
    const int64_t rows = sums - row < together ? sums - row : together;
    for (int64_t first = 0; first < n; first += kBlock) {
      const int64_t count = n - first < kBlock ? n - first : kBlock;
      const T* at = x + row * stride + first;
      Range<T> range;
      if (stride == count) {
        range.add(at, rows * count);
      } else {
        for (int64_t i = 0; i < rows; ++i) range.add(at + i * stride, count);
      }
      const bool is_sure = range.is_exact(log2_above(count));
      if (n <= kShort) {
        const auto add = is_sure ? add_short_rows<true, T> : add_short_rows<false, T>;
        add(at, rows, n, stride, tile, row);
        continue;
      }
      for (int64_t i = 0; i < rows; ++i) {
        Exact<double> sum;
        if (is_sure) {
          sum.near = sure_row(at + i * stride, count);
        } else {
          sum = exact_row(at + i * stride, count);
        }
        add_exact(sum, row + i, tile);
      }
    }
  }
}

// Adds rows to sums of columns by pairs of float64.
template <typename T>
SAMEBITS_INLINE void add_pairs(const T* x, int64_t sums, int64_t rows, int64_t stride,
                               Tile* tile) {
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

// The same as `add_columns`, exactly: a block of rows is added plainly where that is exact.
template <typename T>
SAMEBITS_INLINE void add_columns_exactly(const T* x, int64_t sums, int64_t rows, int64_t stride,
                                         Tile* tile) {
  constexpr int64_t kRows = 128;
  alignas(64) double total[kTile + kLanes];
  const int64_t padded = (sums + kLanes - 1) / kLanes * kLanes;
  for (int64_t first = 0; first < rows; first += kRows) {
    const int64_t last = rows - first < kRows ? rows : first + kRows;
    Range<T> range;
    for (int64_t row = first; row < last; ++row) range.add(x + row * stride, sums);
    if (!range.is_exact(log2_above(last - first))) {
      add_pairs(x + first * stride, sums, last - first, stride, tile);
      continue;
    }
    for (int64_t i = 0; i < padded; ++i) total[i] = 0;
    int64_t row = first;
    for (; row + 8 <= last; row += 8)
      add_rows<8>(x + row * stride, sums, stride, total, nullptr);
    for (; row < last; ++row) add_rows<1>(x + row * stride, sums, stride, total, nullptr);
    for (int64_t i = 0; i < padded; i += kLanes) {
      Exact<Doubles> sum = load_exact(tile->near + i, tile->rest + i, tile->error + i);
      sum.add(load_as<Doubles>(total + i));
      store_exact(sum, i, tile);
    }
  }
}

// Adds the sums of the second half of some rows of a tile to those of the first, until one is left.
// A vector at the end of a half has sums of the next one too, which are read already.
SAMEBITS_INLINE void fold_rows(int64_t rows, int64_t sums, Tile* tile) {
  for (int64_t half = rows / 2 * sums; half >= sums; half /= 2)
    for (int64_t i = 0; i < half; i += kLanes) {
      const int64_t from = i + half;
      Exact<Doubles> sum = load_exact(tile->near + i, tile->rest + i, tile->error + i);
      const Exact<Doubles> other =
          load_exact(tile->near + from, tile->rest + from, tile->error + from);
      sum.add(other.near);
      sum.add_to_rest(other.rest);
      sum.error += other.error;
      store_exact(sum, i, tile);
    }
}

// Adds columns by `add`. Short rows that are neighbours become rows of a wider tile first, which is
// folded then.
template <bool kExactly, typename T, typename Add>
SAMEBITS_INLINE void add_wide_columns(const T* x, int64_t sums, int64_t rows, int64_t stride,
                                      Tile* tile, const Add& add) {
  int64_t together = sums < 1 ? 1 : kTile / sums;
  if (kExactly) {
    // Of a few columns, some lanes of a vector are empty.
    const int64_t least = sums < kLanes ? 4 : 8;
    together = rows / least < together ? rows / least : together;
    together = together < 2 ? 1 : int64_t{1} << (63 - __builtin_clzll(together));
  }
  if (sums != stride || sums >= 128 || together < 2 || rows < (kExactly ? 1 : 8) * together)
    return add(x, sums, rows, stride, tile);
  Tile wide;
  wide.clear(up(together * sums, kLanes));
  const int64_t groups = rows / together;
  add(x, together * sums, groups, together * sums, &wide);
  if (kExactly) {
    fold_rows(together, sums, &wide);
    for (int64_t i = 0; i < sums; ++i)
      add_exact({wide.near[i], wide.rest[i], wide.error[i]}, i, tile);
  } else {
    for (int64_t row = 0; row < together; ++row) {
      for (int64_t i = 0; i < sums; ++i) {
        const int64_t at = row * sums + i;
        tile->rest[i] += two_sum(&tile->near[i], wide.near[at]) + wide.rest[at];
        tile->error[i] += wide.error[at];
      }
    }
  }
  add(x + groups * together * sums, sums, rows - groups * together, stride, tile);
}

template <typename T>
void plain_columns(const void* terms, int64_t sums, int64_t rows, int64_t stride, Tile* tile) {
  const T* x = static_cast<const T*>(terms);
  add_wide_columns<false>(x, sums, rows, stride, tile, [](auto... of) { add_columns<T>(of...); });
}

template <typename T>
void exact_columns(const void* terms, int64_t sums, int64_t rows, int64_t stride, Tile* tile) {
  const T* x = static_cast<const T*>(terms);
  add_wide_columns<true>(x, sums, rows, stride, tile,
                         [](auto... of) { add_columns_exactly<T>(of...); });
}

// `is_decided` of numbers.h, in two steps: the ends of the intervals, and their rounding.
template <typename R>
bool decide(const Tile& tile, int64_t first, int64_t last, double factor, void* out,
            uint8_t* in_doubt) {
  using Word = typename R::Word;
  alignas(64) double low[kTile + kLanes], high[kTile + kLanes];
  Word* words = static_cast<Word*>(out) + first;
  const int64_t count = last - first;
  const double wide = factor * (1 + 0x1p-10);
  Longs any{};
  for (int64_t i = 0; i < count; i += kLanes) {
    const Exact<Doubles> sum = load_exact(&tile.near[first + i], &tile.rest[first + i],
                                          &tile.error[first + i]);
    const Interval of_sum = interval<R>(sum, wide);
    store_as(of_sum.low, low + i);
    store_as(of_sum.high, high + i);
    any |= of_sum.is_inexact;
  }
  narrow_all<R>(low, count, words);
  if (!any_of(any)) return false;
  alignas(64) Word others[kTile];
  narrow_all<R>(high, count, others);
  Word differ = 0;
  for (int64_t i = 0; i < count; ++i) differ |= words[i] ^ others[i];
  if (differ == 0) return false;
  for (int64_t i = 0; i < count; ++i) in_doubt[first + i] = words[i] != others[i];
  return true;
}

}  // namespace

SAMEBITS_TABLE(SumKernels, sum_kernels) = {
    {plain_rows<float>, plain_rows<bfloat16>, plain_rows<float16>, exact_rows<double>},
    {plain_columns<float>, plain_columns<bfloat16>, plain_columns<float16>,
     exact_columns<double>},
    {exact_rows<float>, exact_rows<bfloat16>, exact_rows<float16>, exact_rows<double>},
    {exact_columns<float>, exact_columns<bfloat16>, exact_columns<float16>,
     exact_columns<double>},
    {decide<Float32>, decide<BFloat16>, decide<Float16>, decide<Float64>},
};

}  // namespace samebits

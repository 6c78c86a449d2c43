// The loops of products with a factor or a result of float64, compiled for each vector unit.
#include "products_doubles.h"

#include <cstring>

#include "products_vectors.h"

namespace samebits {
namespace {

// Sums of products whose magnitudes add up to about `most` or less start with 1.5 * 2**e, which is
// more than four times that. Each sum is then a multiple of 2**(e - 52), as in `Coarse` of lanes.h.
SAMEBITS_INLINE Vector coarse_start(Vector most) {
  return (Vector)((((Longs)most & (0x7ffll << 52)) + (3ll << 52)) | (1ll << 51));
}
// Adds a product to such a sum, and returns what the sum leaves of it, rounded.
SAMEBITS_INLINE Vector add_coarse(Vector a, Vector b, Vector* sum) {
  const Vector before = *sum;
#if defined(__FMA__) || defined(__aarch64__)
  *sum = fused(a, b, before);
  return fused(a, b, before - *sum);
#else
  const Vector product = a * b;
  *sum += product;
  return (product - (*sum - before)) + product_error(a, b, product);
#endif
}
// The error of the rests, relative to `most`. What is left of a product is at most 2**(e - 52), of
// which each of two roundings and of `terms` additions loses 2**-53 at most; and 2**e is at most
// 2**3 times `most`.
SAMEBITS_INLINE double scale_of_rests(int64_t terms) {
  return static_cast<double>(terms) * static_cast<double>(terms + 2) * 0x1p-101;
}

// ---------------------------------------------------------------- Tiles

// The rows of a tile of two vectors whose sums and rests registers hold.
constexpr int kWideRows = kRows > 8 ? 6 : 3;

template <bool kInterleaved, int kCount, int kVectors>
struct WideTileOf {
  const WideTile& tile;
  const int64_t first;  // row

  SAMEBITS_INLINE const double* row() const {
    return tile.left + first * (kInterleaved ? 1 : kRow);
  }
  template <typename Use>
  SAMEBITS_INLINE void each_term(const Use& use) const {
    samebits::each_term<kInterleaved, kCount, kVectors>(tile.terms, row(), tile.right, use);
  }

  SAMEBITS_INLINE void add() const {
    Vector most[kCount][kVectors], sum[kCount][kVectors], rest[kCount][kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) {
        most[i][j] = rest[i][j] = Vector{};
        if (tile.row_norms != nullptr)
          most[i][j] = all(tile.row_norms[first + i]) * at(tile.column_norms + j * kLanes);
      }
    if (tile.row_norms == nullptr)
      each_term([&](int i, int j, Vector row, Vector column) __attribute__((always_inline)) {
        most[i][j] = fused(magnitude(row), magnitude(column), most[i][j]);
      });
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) sum[i][j] = coarse_start(most[i][j]);
    each_term([&](int i, int j, Vector row, Vector column) __attribute__((always_inline)) {
      rest[i][j] += add_coarse(row, column, &sum[i][j]);
    });
    const Vector scale = all(scale_of_rests(tile.terms));
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j)
        put_sum((first + i) * tile.stride + j * kLanes, sum[i][j] - coarse_start(most[i][j]),
                rest[i][j], scale * most[i][j]);
  }
  SAMEBITS_INLINE void put_sum(int64_t to, Vector high, Vector middle, Vector lost) const {
    if (tile.adds) {
      Vector sum = at(tile.high + to), rest = at(tile.middle + to);
      const Vector error = two_sum(&rest, two_sum(&sum, high));
      lost += at(tile.lost + to) + (magnitude(error) + magnitude(two_sum(&rest, middle)));
      high = sum;
      middle = rest;
    }
    put(tile.high + to, high);
    put(tile.middle + to, middle);
    put(tile.lost + to, lost);
  }
};

template <bool kInterleaved, int kVectors, int kCount = kWideRows * 2 / kVectors>
void add_rows(const WideTile& tile, int64_t first, int64_t count) {
  if constexpr (kCount > 1)
    if (count < kCount) return add_rows<kInterleaved, kVectors, kCount - 1>(tile, first, count);
  WideTileOf<kInterleaved, kCount, kVectors>{tile, first}.add();
}

void add_tile(const WideTile& tile) {
  const int64_t most = kWideRows * 2 / tile.vectors;
  const int64_t height = parts_of(tile.rows, parts_of(tile.rows, most));
  for (int64_t i = 0; i < tile.rows; i += height) {
    const int64_t count = tile.rows - i < height ? tile.rows - i : height;
    if (tile.interleaved) {
      tile.vectors == 1 ? add_rows<true, 1>(tile, i, count) : add_rows<true, 2>(tile, i, count);
    } else {
      tile.vectors == 1 ? add_rows<false, 1>(tile, i, count) : add_rows<false, 2>(tile, i, count);
    }
  }
}

// ---------------------------------------------------------------- Many small products

void multiply_lanes(int64_t terms, const double* left, const double* right,
                    const double* left_norms, const double* right_norms, double* high, double* low,
                    double* lost) {
  constexpr int kGroups = static_cast<int>(kTogether) / kLanes;
  if (terms == 1) {
    for (int64_t i = 0; i < kTogether; i += kLanes) {
      const Vector product = at(left + i) * at(right + i);
      put(high + i, product);
      put(low + i, product_error(at(left + i), at(right + i), product));
      put(lost + i, Vector{});
    }
    return;
  }
  auto each_term = [&](const auto& use) {
    for (int64_t k = 0; k < terms * kTogether; k += kTogether)
#pragma GCC unroll 8
      for (int g = 0; g < kGroups; ++g)
        use(g, at(left + k + g * kLanes), at(right + k + g * kLanes));
  };
  Vector most[kGroups] = {}, sum[kGroups], rest[kGroups] = {};
  if (left_norms == nullptr)
    each_term([&](int g, Vector a, Vector b) { most[g] += magnitude(a * b); });
  for (int g = 0; g < kGroups; ++g) {
    if (left_norms != nullptr)
      most[g] = at(left_norms + g * kLanes) * at(right_norms + g * kLanes);
    sum[g] = coarse_start(most[g]);
  }
  each_term([&](int g, Vector a, Vector b) { rest[g] += add_coarse(a, b, &sum[g]); });
  for (int g = 0; g < kGroups; ++g) {
    put(high + g * kLanes, sum[g] - coarse_start(most[g]));
    put(low + g * kLanes, rest[g]);
    put(lost + g * kLanes, scale_of_rests(terms) * most[g]);
  }
}

void measure_lanes(int64_t terms, const double* left, const double* right, double* high,
                   double* low, double* lost) {
  for (int64_t i = 0; i < kTogether; i += kLanes) {
    ExactSum sum;
    for (int64_t k = i; k < terms * kTogether; k += kTogether)
      sum.add_product(at(left + k), at(right + k));
    put(high + i, sum.near);
    put(low + i, sum.rest);
    put(lost + i, sum.error);
  }
}

// ---------------------------------------------------------------- Single sums

void add_pairs(const double* left, const double* right, int64_t count, PairSum* sum) {
  Pairs pairs(*sum);
  for (int64_t k = 0; k < count; k += 16)
    for (int p = 0; p < Pairs::kVectors && k + p * kLanes < count; ++p) {
      // Zeros follow up to a multiple of eight terms.
      const Vector a = at(left + k + p * kLanes), b = at(right + k + p * kLanes), product = a * b;
      pairs.low[p] += product_error(a, b, product) + two_sum(&pairs.high[p], product);
    }
  pairs.store(sum);
}

// ---------------------------------------------------------------- Rounding

// Rounds sums high + middle within `slack`, times a power of two, to float64.
struct PairRounding {
  int exponent;
  double* to;
  int32_t* doubts;
  int64_t number = 0;
  // A power of two beyond the range is applied as two.
  const Vector first = power(exponent / 2), second = power(exponent - exponent / 2);

  static SAMEBITS_INLINE Vector power(int of) {
    return all(double_of(static_cast<uint64_t>(1023 + of) << 52));
  }

  // The sums of indices from j on, of which `count` are left.
  SAMEBITS_INLINE void round(int64_t j, int64_t count, Vector near, Vector middle, Vector slack) {
    // The ends are rounded too.
    const Vector wider = slack * (1 + 0x1p-10) + magnitude(middle) * 0x1p-51;
    const Longs is_exact = (Longs)(slack == 0);
    const Vector wide = (Vector)((Longs)wider & ~is_exact);
    put_rounded(j, count, near + (middle - wide), near + (middle + wide));
  }
  SAMEBITS_INLINE void put_rounded(int64_t j, int64_t count, Vector low, Vector high) {
    const Vector result = low * first * second;
    const Vector size = magnitude(result);
    const Longs is_plain =
        (Longs)(low == high) & (Longs)(size >= 0x1p-1021) & (Longs)(size <= kGreatest);
    if (count >= kLanes) {
      put(to + j, result);
      if (!any_of(__builtin_convertvector(~is_plain, Ints))) return;
    }
    for (int64_t lane = 0; lane < kLanes && lane < count; ++lane) {
      if (is_plain[lane]) {
        if (count < kLanes) to[j + lane] = result[lane];
        continue;
      }
      uint64_t word;
      if (low[lane] == high[lane] && is_scaled(low[lane], exponent, &word)) {
        std::memcpy(to + j + lane, &word, sizeof word);
      } else {
        doubts[number++] = static_cast<int32_t>(j + lane);
      }
    }
  }
};

int64_t round_pairs(int64_t count, const PairsOfRow& pairs, double* to, int32_t* doubts) {
  PairRounding rounding{pairs.exponent, to, doubts};
  for (int64_t j = 0; j < count; j += kLanes)
    rounding.round(j, count - j, at(pairs.high + j), at(pairs.middle + j),
                   at(pairs.lost + j) + all(pairs.constant));
  return rounding.number;
}

template <int kNumber>
int64_t round_terms(const double* row, int64_t step, const ColumnsOfTerms& columns, double lost,
                    int exponent, double* to, int32_t* doubts) {
  PairRounding rounding{exponent, to, doubts};
  Vector left[kNumber];
  for (int k = 0; k < kNumber; ++k) left[k] = all(row[k * step]);
  const int64_t count = columns.count;
  for (int64_t j = 0; j < count; j += kLanes) {
    const double* column = columns.first + j / kColumns * columns.panel + j % kColumns;
    if constexpr (kNumber == 1) {
      const Vector product = left[0] * at(column);
      if (lost == 0) {
        rounding.put_rounded(j, count - j, product, product);
      } else {
        rounding.round(j, count - j, product, product_error(left[0], at(column), product), all(lost));
      }
      continue;
    }
    Vector most{};
#pragma GCC unroll 9
    for (int k = 0; k < kNumber; ++k)
      most = fused(magnitude(left[k]), magnitude(at(column + k * columns.step)), most);
    const Vector start = coarse_start(most);
    Vector sum = start, rest{};
    Longs any{};
#pragma GCC unroll 9
    for (int k = 0; k < kNumber; ++k) {
      const Vector part = add_coarse(left[k], at(column + k * columns.step), &sum);
      any |= (Longs)part;
      rest += part;
    }
    // A sum that leaves nothing is exact.
    const Vector slack = (Vector)((Longs)(scale_of_rests(kNumber) * most) & (Longs)(any != 0));
    rounding.round(j, count - j, sum - start, rest, slack + all(lost));
  }
  return rounding.number;
}

template <int kNumber = kFewTerms, typename... Rest>
int64_t round_few_terms(int64_t terms, Rest... rest) {
  if constexpr (kNumber > 1)
    if (terms < kNumber) return round_few_terms<kNumber - 1>(terms, rest...);
  return round_terms<kNumber>(rest...);
}

void find_magnitudes(const double* values, int64_t count, Magnitudes* magnitudes) {
  Vector least[2] = {all(HUGE_VAL), all(HUGE_VAL)}, greatest[2] = {};
  Longs special{};
  int64_t i = 0;
  for (; i + kColumns <= count; i += kColumns)
    for (int s = 0; s < 2; ++s) {
      const Vector value = load(values + i + s * kLanes), size = magnitude(value);
      const Longs is_finite = (Longs)(size <= kGreatest);
      const Vector finite = (Vector)((Longs)size & is_finite);
      const Vector counted = finite > 0 ? finite : all(HUGE_VAL);
      special |= ~is_finite;
      greatest[s] = finite > greatest[s] ? finite : greatest[s];
      least[s] = counted < least[s] ? counted : least[s];
    }
  auto add = [&](double size) {
    if (size > magnitudes->greatest) magnitudes->greatest = size;
    if (size > 0 && size < magnitudes->least) magnitudes->least = size;
  };
  for (int s = 0; s < 2; ++s)
    for (int lane = 0; lane < kLanes; ++lane) {
      add(greatest[s][lane]);
      if (least[s][lane] <= kGreatest) add(least[s][lane]);
      magnitudes->are_finite &= special[lane] == 0;
    }
  for (; i < count; ++i) {
    const double size = __builtin_fabs(widen(values[i]));
    magnitudes->are_finite &= is_finite(size);
    if (is_finite(size)) add(size);
  }
}

}  // namespace

#define SAMEBITS_JOINED(a, b) a##b
#define SAMEBITS_TABLE(name, unit) SAMEBITS_JOINED(name, unit)
extern const DoublesKernels SAMEBITS_TABLE(doubles_kernels_, SAMEBITS_UNIT) = {
    add_tile, multiply_lanes, measure_lanes, add_pairs, round_few_terms, round_pairs, find_magnitudes,
};

}  // namespace samebits

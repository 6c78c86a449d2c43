// Vectors of float64 for the kernels of products: their arithmetic, and conversions.
//
// Everything has internal linkage, since files are compiled for several vector units. The rows of a
// tile of products are chosen here too, because they depend on the number of registers.
#pragma once

#include <cstdint>
#include <cstring>

#include "numbers.h"
#include "products.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace samebits {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 8;
constexpr int kRows = 14;  // 28 of 32 registers have sums
#elif defined(__AVX2__)
constexpr int kLanes = 4;
constexpr int kRows = 6;  // 12 of 16
#elif defined(__aarch64__)
constexpr int kLanes = 2;
constexpr int kRows = 14;
#else
constexpr int kLanes = 2;
constexpr int kRows = 6;
#endif
constexpr int kColumns = 2 * kLanes;
constexpr int kStep = (kRows + 7) / 8 * 8;  // the distance of terms in a panel of interleaved rows

typedef double Vector __attribute__((vector_size(8 * kLanes)));
typedef double Loose __attribute__((vector_size(8 * kLanes), aligned(8), may_alias));
typedef int64_t Longs __attribute__((vector_size(8 * kLanes)));
typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));

SAMEBITS_INLINE Vector at(const double* from) { return *reinterpret_cast<const Loose*>(from); }
SAMEBITS_INLINE void put(double* to, Vector value) { *reinterpret_cast<Loose*>(to) = value; }
SAMEBITS_INLINE Vector all(double value) { return value - Vector{}; }

// The last `count` lanes of a vector, and zeros for the others.
SAMEBITS_INLINE Vector last_lanes(Vector value, int64_t count) {
  Longs lane{};
#pragma GCC unroll 8
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return (Vector)((Longs)value & (Longs)(lane >= kLanes - count));
}

// a * b + c.
SAMEBITS_INLINE Vector fused(Vector a, Vector b, Vector c) {
#if defined(__AVX512F__)
  return (Vector)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
  return (Vector)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__aarch64__)
  return (Vector)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
  return a * b + c;
#endif
}

// Conversions, which GCC makes of two halves where one instruction does it.
SAMEBITS_INLINE Vector as_doubles(Floats value) {
#if defined(__AVX512F__)
  return (Vector)_mm512_maskz_cvtps_pd(0xff, (__m256)value);
#elif defined(__AVX2__)
  return (Vector)_mm256_cvtps_pd((__m128)value);
#else
  return __builtin_convertvector(value, Vector);
#endif
}
SAMEBITS_INLINE Floats as_floats(Vector value) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_cvtpd_ps(0xff, (__m512d)value);
#elif defined(__AVX2__)
  return (Floats)_mm256_cvtpd_ps((__m256d)value);
#else
  return __builtin_convertvector(value, Floats);
#endif
}

// As two_sum of numbers.h, for each lane.
SAMEBITS_INLINE Vector two_sum(Vector* a, Vector b) {
  const Vector sum = *a + b, of_b = sum - *a;
  const Vector error = (*a - (sum - of_b)) + (b - of_b);
  *a = sum;
  return error;
}

SAMEBITS_INLINE double sum_of(Vector value) {
  typedef double Pair __attribute__((vector_size(16)));
  Pair pairs[kLanes / 2];
  std::memcpy(pairs, &value, sizeof pairs);
#pragma GCC unroll 4
  for (int width = kLanes / 4; width > 0; width /= 2)
#pragma GCC unroll 2
    for (int i = 0; i < width; ++i) pairs[i] += pairs[i + width];
  return pairs[0][0] + pairs[0][1];
}

// ---------------------------------------------------------------- Factors as float64

SAMEBITS_INLINE Vector widened(Words bits) {
  const Words is_normal = (Words)((bits & 0x7f800000u) != 0);
  bits &= is_normal;
  return as_doubles((Floats)bits);
}
SAMEBITS_INLINE Vector load(const float* from) {
  Words bits;
  std::memcpy(&bits, from, sizeof bits);
  return widened(bits);
}
SAMEBITS_INLINE Vector load(const bfloat16* from) {
  Halves bits;
  std::memcpy(&bits, from, sizeof bits);
  return widened(__builtin_convertvector(bits, Words) << 16);
}
SAMEBITS_INLINE Vector load(const float16* from) {
  Halves bits;
  std::memcpy(&bits, from, sizeof bits);
  const Words wide = __builtin_convertvector(bits, Words);
  const Words sign = (wide & 0x8000u) << 16, rest = (wide & 0x7fffu) << 13;
  const Floats least = (Floats)(Words{} + (113u << 23));
  const Words small = (Words)((Floats)(rest + (113u << 23)) - least);
  const Words is_small = (Words)(rest < (1u << 23)), is_special = (Words)(rest >= (31u << 23));
  const Words normal = (rest + (112u << 23)) | (is_special & 0x7f800000u);
  const Words magnitude = (is_small & small) | (~is_small & normal);
  return as_doubles((Floats)(sign | magnitude));
}

SAMEBITS_INLINE Vector load(const double* from) {
  const Vector value = at(from);
  const Longs is_normal = (Longs)value & (0x7ffll << 52);
  return (Vector)((Longs)value & (Longs)(is_normal != 0));
}

// A factor of a product that is added in pairs of float64 (products_doubles.cc): it is scaled by a
// power of two, and what is not finite is 0. No product of two such numbers underflows: what is
// not 0 is at least kLeastFactor.
template <typename T>
struct Wide {
  T value;
};

SAMEBITS_INLINE Vector magnitude(Vector value) {
  return (Vector)((Longs)value & 0x7fffffffffffffffll);
}

template <typename T>
SAMEBITS_INLINE Vector loaded(const T* from, double) {
  return load(from);
}
SAMEBITS_INLINE Vector as_factor(Vector value, double scale) {
  const Vector scaled = value * all(scale);
  const Longs counts = (Longs)(magnitude(value) <= kGreatest) & (Longs)(value != 0);
  const Longs is_small = (Longs)(magnitude(scaled) < kLeastFactor);
  const Longs sign = (Longs)value & INT64_MIN;
  const Longs least = sign | (Longs)all(kLeastFactor);
  return (Vector)(((is_small & least) | (~is_small & (Longs)scaled)) & counts);
}
template <typename T>
SAMEBITS_INLINE Vector loaded(const Wide<T>* from, double scale) {
  return as_factor(load(&from->value), scale);
}

// The elements at distances `at(lane)`.
template <typename T, typename At>
SAMEBITS_INLINE Vector gathered(const T* from, double scale, const At& at) {
  T values[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) values[lane] = from[at(lane)];
  return loaded(values, scale);
}
// Registers take float64 one by one: what is stored so cannot be loaded at once.
template <typename At>
SAMEBITS_INLINE Vector gathered(const double* from, double, const At& at) {
  Vector value;
#pragma GCC unroll 8
  for (int lane = 0; lane < kLanes; ++lane) value[lane] = from[at(lane)];
  const Longs is_normal = (Longs)value & (0x7ffll << 52);
  return (Vector)((Longs)value & (Longs)(is_normal != 0));
}
template <typename At>
SAMEBITS_INLINE Vector gathered(const Wide<double>* from, double scale, const At& at) {
  return as_factor(gathered(&from->value, scale, at), scale);
}
template <typename T>
SAMEBITS_INLINE double widened(T value, double) {
  return widen(value);
}
template <typename T>
SAMEBITS_INLINE double widened(Wide<T> value, double scale) {
  const double wide = widen(value.value), scaled = wide * scale;
  if (!is_finite(wide) || wide == 0) return 0;
  return __builtin_fabs(scaled) < kLeastFactor ? __builtin_copysign(kLeastFactor, wide) : scaled;
}

// The error of the rounded product of two numbers, exactly, where nothing underflows.
SAMEBITS_INLINE Vector product_error(Vector a, Vector b, Vector product) {
#if defined(__FMA__) || defined(__aarch64__)
  return fused(a, b, -product);
#else
  // Dekker 1971, doi:10.1007/BF01397083.
  auto high = [](Vector value) {
    const Vector large = value * 134217729.0;
    return large - (large - value);
  };
  const Vector a_high = high(a), b_high = high(b), a_low = a - a_high, b_low = b - b_high;
  return a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low);
#endif
}

// A sum of products near + rest, and the magnitudes that adding to the rest lost: none, unless
// the products have very different exponents.
struct ExactSum {
  Vector near{}, rest{}, error{};

  SAMEBITS_INLINE void add_product(Vector a, Vector b) {
    const Vector product = a * b, lost = two_sum(&near, product);
    const Vector first = two_sum(&rest, product_error(a, b, product));
    error += magnitude(first) + magnitude(two_sum(&rest, lost));
  }
};

// The lanes of a PairSum.
struct Pairs {
  static constexpr int kVectors = 16 / kLanes;
  Vector high[kVectors], low[kVectors];

  explicit Pairs(const PairSum& sum) {
    for (int p = 0; p < kVectors; ++p) {
      high[p] = at(sum.high + p * kLanes);
      low[p] = at(sum.low + p * kLanes);
    }
  }
  void store(PairSum* sum) const {
    for (int p = 0; p < kVectors; ++p) {
      put(sum->high + p * kLanes, high[p]);
      put(sum->low + p * kLanes, low[p]);
    }
  }
};

// ---------------------------------------------------------------- Rounding

typedef int32_t Ints __attribute__((vector_size(4 * kLanes)));

// `narrow` of numbers.h for the lanes of a vector without NaNs.
SAMEBITS_INLINE Words narrowed(Float32, Vector value) {
  const Ints is_normal =
      __builtin_convertvector((Longs)(magnitude(value) >= 0x1p-126 * (1 - 0x1p-25)), Ints);
  return (Words)((Ints)as_floats(value) & is_normal);
}
SAMEBITS_INLINE Words narrowed(BFloat16, Vector value) {
  const Longs bits = (Longs)value, sign = (bits >> 48) & 0x8000;
  const Longs size = bits & 0x7fffffffffffffffll;
  const Longs rounded = (size + 0xfffffffffffll + ((size >> 45) & 1)) >> 45;
  Longs word = rounded - ((1023 - 127) << 7);
  const Longs is_above = (Longs)(word > 0x7f80);
  word = (is_above & 0x7f80) | (~is_above & word) | sign;
  return __builtin_convertvector(word & (Longs)(magnitude(value) >= 0x1p-126), Words);
}
SAMEBITS_INLINE Words narrowed(Float16, Vector value) {
  const Longs bits = (Longs)value, sign = (bits >> 48) & 0x8000;
  const Longs size = bits & 0x7fffffffffffffffll;
  const Longs rounded = (size + 0x1ffffffffffll + ((size >> 42) & 1)) >> 42;
  Longs word = rounded - ((1023 - 15) << 10);
  const Longs is_above = (Longs)(word > 0x7c00);
  word = (is_above & 0x7c00) | (~is_above & word);
  const Longs small = (Longs)(magnitude(value) + 0x1p28) & 0xffff;
  const Longs is_small = (Longs)(magnitude(value) < 0x1p-14);
  word = (is_small & small) | (~is_small & word);
  return __builtin_convertvector(word | (sign & (Longs)(word != 0)), Words);
}

SAMEBITS_INLINE void put_words(uint32_t* to, Words words) { std::memcpy(to, &words, sizeof words); }
SAMEBITS_INLINE void put_words(uint16_t* to, Words words) {
  const Halves halves = __builtin_convertvector(words, Halves);
  std::memcpy(to, &halves, sizeof halves);
}

SAMEBITS_INLINE bool any_of(Ints mask) {
#if defined(__AVX512F__)
  return _mm256_testz_si256((__m256i)mask, (__m256i)mask) == 0;
#else
  int32_t any = 0;
  for (int i = 0; i < kLanes; ++i) any |= mask[i];
  return any != 0;
#endif
}

// Calls use(i, j, row, column) of each vector of the results of a tile, for each of its terms: row i
// and vector j of the columns.
template <bool kInterleaved, int kCount, int kVectors, typename Use>
SAMEBITS_INLINE void each_term(int64_t terms, const double* left, const double* right,
                               const Use& use) {
  for (int64_t k = 0; k < terms; ++k) {
    Vector column[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) column[j] = at(right + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) {
      const Vector row = all(left[kInterleaved ? i : i * kRow]);
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) use(i, j, row, column[j]);
    }
    left += kInterleaved ? kStep : 1;
    right += kColumns;
  }
}

// As `narrowed`, of values of at least 2**-125.
SAMEBITS_INLINE Words narrowed_normal(Float32, Vector value) {
  return (Words)as_floats(value);
}
SAMEBITS_INLINE Words narrowed_normal(BFloat16, Vector value) {
  const Longs bits = (Longs)magnitude(value), sign = ((Longs)value >> 48) & 0x8000;
  const Longs word =
      ((bits + 0xfffffffffffll + ((bits >> 45) & 1)) >> 45) - ((1023 - 127) << 7);
  return __builtin_convertvector((word > 0x7f80 ? Longs{} + 0x7f80 : word) | sign, Words);
}
SAMEBITS_INLINE Words narrowed_normal(Float16, Vector value) { return narrowed(Float16(), value); }

}  // namespace
}  // namespace samebits

// Vectors of float64, one sum in each lane, and the two ways to add into them.
//
// Included by `*_kernels.cc`, so that each vector unit has its own code. GCC and clang lower a
// vector that is wider than the unit to several registers.
//
//     way      state of a lane         bound of the error
//     plain    sum, sum of magnitudes  number of roundings * 2**-53 * sum of magnitudes
//     exact    near, rest, error       error, which is 0 as a rule: near + rest is the sum
#pragma once

#include "numbers.h"

#define SAMEBITS_JOIN_(a, b) a##_##b
#define SAMEBITS_JOIN(a, b) SAMEBITS_JOIN_(a, b)
// Names and defines the table of kernels of this vector unit.
#define SAMEBITS_TABLE(Kernels, NAME)                         \
  extern const Kernels SAMEBITS_JOIN(NAME, SAMEBITS_UNIT);    \
  const Kernels SAMEBITS_JOIN(NAME, SAMEBITS_UNIT)

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace samebits {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

using Doubles = double __attribute__((vector_size(8 * kLanes)));
using Longs = int64_t __attribute__((vector_size(8 * kLanes)));
using Floats = float __attribute__((vector_size(4 * kLanes)));
using Words = uint32_t __attribute__((vector_size(4 * kLanes)));
using HalfWords = uint16_t __attribute__((vector_size(2 * kLanes)));

template <typename V, typename T>
SAMEBITS_INLINE V load_as(const T* at) {
  V value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}
template <typename V>
SAMEBITS_INLINE void store_as(V value, double* at) {
  __builtin_memcpy(at, &value, sizeof value);
}

// Drops subnormal floats. On x86 the unit itself does so, since kernels that load run in a
// `Flushing` scope (sums.h).
SAMEBITS_INLINE Floats without_subnormals(Words bits) {
#if defined(__x86_64__)
  return reinterpret_cast<Floats>(bits);
#else
  return reinterpret_cast<Floats>(bits & reinterpret_cast<Words>((bits & 0x7f800000u) != 0));
#endif
}

// kLanes terms as float32, as `as_float` has them.
SAMEBITS_INLINE Floats load_floats(const float* at) {
  return without_subnormals(load_as<Words>(at));
}
SAMEBITS_INLINE Floats load_floats(const bfloat16* at) {
  return without_subnormals(__builtin_convertvector(load_as<HalfWords>(at), Words) << 16);
}
SAMEBITS_INLINE Floats load_floats(const float16* at) {
#if defined(__F16C__) && defined(__AVX512F__)
  return reinterpret_cast<Floats>(_mm256_cvtph_ps(load_as<__m128i>(at)));
#elif defined(__F16C__)
  return reinterpret_cast<Floats>(
      _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
#else
  Words word = __builtin_convertvector(load_as<HalfWords>(at), Words);
  Words sign = (word & 0x8000u) << 16;
  Words rest = (word & 0x7fffu) << 13;
  Floats offset = reinterpret_cast<Floats>(Words{} + (113u << 23));
  Words small = reinterpret_cast<Words>(reinterpret_cast<Floats>(rest + (113u << 23)) - offset);
  Words is_special = reinterpret_cast<Words>(rest >= (31u << 23));
  Words is_small = reinterpret_cast<Words>(rest < (1u << 23));
  Words normal = (rest + (112u << 23)) & ~is_special & ~is_small;
  Words special = (rest | 0x7f800000u) & is_special;
  return reinterpret_cast<Floats>(sign | normal | special | (small & is_small));
#endif
}
template <typename T>
SAMEBITS_INLINE Doubles load(const T* at) {
  return __builtin_convertvector(load_floats(at), Doubles);
}

// The first `count` terms, and zeros for the others.
template <typename T>
SAMEBITS_INLINE Doubles load_some(const T* at, int64_t count) {
  T terms[kLanes] = {};
  for (int64_t lane = 0; lane < count; ++lane) terms[lane] = at[lane];
  return load(terms);
}

// One term of each lane, which are `stride` apart.
template <typename T>
SAMEBITS_INLINE Doubles load_apart(const T* at, int64_t stride) {
  T terms[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) terms[lane] = at[lane * stride];
  return load(terms);
}

SAMEBITS_INLINE Doubles magnitude(Doubles value) {
  return reinterpret_cast<Doubles>(reinterpret_cast<Longs>(value) & 0x7fffffffffffffffll);
}

// TwoSum (Knuth 4.2.2), as in numbers.h, in each lane.
SAMEBITS_INLINE Doubles two_sum(Doubles* a, Doubles b) {
  Doubles sum = *a + b;
  Doubles of_b = sum - *a;
  Doubles error = (*a - (sum - of_b)) + (b - of_b);
  *a = sum;
  return error;
}

SAMEBITS_INLINE double magnitude(double value) { return __builtin_fabs(value); }

// An exact sum as the unevaluated sum of two float64 (Dekker 1971), as long as `error` is 0. A sum
// of 106 bits has no error, so terms of float32 rarely give one. Else `error` is the sum of the
// magnitudes of all bits that were lost. Once a term is not finite, near is what IEEE 754 gives.
template <typename V>
struct Exact {
  V near{}, rest{}, error{};

  SAMEBITS_INLINE void add(V term) { add_to_rest(two_sum(&near, term)); }
  SAMEBITS_INLINE void add_to_rest(V term) { error += magnitude(two_sum(&rest, term)); }
};

// The sum of a pair, rounded to odd as `to_odd` of numbers.h does; undefined if it is not finite.
SAMEBITS_INLINE Doubles to_odd(const Exact<Doubles>& sum) {
  Doubles near = sum.near;
  Doubles error = two_sum(&near, sum.rest);
  Longs bits = reinterpret_cast<Longs>(near);
  Longs odd = (bits + ((near < 0) ^ (error < 0))) | 1;
  Longs is_inexact = error != 0;
  return reinterpret_cast<Doubles>((odd & is_inexact) | (bits & ~is_inexact));
}

SAMEBITS_INLINE Exact<Doubles> load_exact(const double* near, const double* rest,
                                          const double* error) {
  return {load_as<Doubles>(near), load_as<Doubles>(rest), load_as<Doubles>(error)};
}

// The sum of all lanes.
SAMEBITS_INLINE Exact<double> folded(const Exact<Doubles>& lanes) {
  Exact<double> sum;
  for (int lane = 0; lane < kLanes; ++lane) {
    sum.add(lanes.near[lane]);
    sum.add_to_rest(lanes.rest[lane]);
    sum.error += lanes.error[lane];
  }
  return sum;
}

}  // namespace
}  // namespace samebits

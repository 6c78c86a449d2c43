// Vectors of float64, one sum in each lane, and the two ways to add into them.
//
// Included by `*_kernels.cc`, so that each vector unit has its own code. GCC and clang lower a
// vector that is wider than the unit to several registers.
//
//     way      state of a lane         bound of the error
//     plain    sum, sum of magnitudes  number of roundings * 2**-53 * sum of magnitudes
//     exact    near, rest, error       error, which is 0 as a rule: near + rest is the sum
#pragma once

#include <type_traits>

#include "numbers.h"

#define SAMEBITS_JOIN_(a, b) a##_##b
#define SAMEBITS_JOIN(a, b) SAMEBITS_JOIN_(a, b)
// Names and defines the table of kernels of this vector unit.
#define SAMEBITS_TABLE(Kernels, NAME)                         \
  extern const Kernels SAMEBITS_JOIN(NAME, SAMEBITS_UNIT);    \
  const Kernels SAMEBITS_JOIN(NAME, SAMEBITS_UNIT)

#if defined(__AVX2__)
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
using Ints = int32_t __attribute__((vector_size(4 * kLanes)));
using Words = uint32_t __attribute__((vector_size(4 * kLanes)));
using HalfWords = uint16_t __attribute__((vector_size(2 * kLanes)));

template <typename V>
SAMEBITS_INLINE V load_as(const void* at) {
  V value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}
template <typename V>
SAMEBITS_INLINE void store_as(V value, double* at) {
  __builtin_memcpy(at, &value, sizeof value);
}

// GCC 12 converts the halves of a vector one by one, hence the intrinsics.
SAMEBITS_INLINE Doubles to_doubles(Floats value) {
#if defined(__AVX512F__)
  return reinterpret_cast<Doubles>(_mm512_cvtps_pd(reinterpret_cast<__m256>(value)));
#elif defined(__AVX2__)
  return reinterpret_cast<Doubles>(_mm256_cvtps_pd(reinterpret_cast<__m128>(value)));
#else
  return __builtin_convertvector(value, Doubles);
#endif
}
SAMEBITS_INLINE Words load_words(const void* at) {
#if defined(__AVX512F__)
  return reinterpret_cast<Words>(_mm256_cvtepu16_epi32(load_as<__m128i>(at)));
#elif defined(__AVX2__)
  return reinterpret_cast<Words>(
      _mm_cvtepu16_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(at))));
#else
  return __builtin_convertvector(load_as<HalfWords>(at), Words);
#endif
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
  return without_subnormals(load_words(at) << 16);
}
SAMEBITS_INLINE Floats load_floats(const float16* at) {
#if defined(__F16C__) && defined(__AVX512F__)
  return reinterpret_cast<Floats>(_mm256_cvtph_ps(load_as<__m128i>(at)));
#elif defined(__F16C__)
  return reinterpret_cast<Floats>(
      _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(at))));
#else
  Words word = load_words(at);
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
  return to_doubles(load_floats(at));
}

// float64, of which subnormal ones count as zeros. What TwoSum loses may be subnormal and must stay,
// so the unit does not drop them.
SAMEBITS_INLINE Doubles without_subnormals(Doubles value) {
  const Longs bits = reinterpret_cast<Longs>(value);
  return reinterpret_cast<Doubles>(bits &
                                   reinterpret_cast<Longs>((bits & 0x7ff0000000000000ll) != 0));
}
SAMEBITS_INLINE Doubles load(const double* at) {
  return without_subnormals(load_as<Doubles>(at));
}

// The same in a scope in which the unit itself drops them on x86.
SAMEBITS_INLINE Doubles load_flushed(const double* at) {
#if defined(__x86_64__)
  return load_as<Doubles>(at);
#else
  return load(at);
#endif
}

// All bits of the last `count` lanes.
SAMEBITS_INLINE Longs last_lanes(int64_t count) {
  alignas(64) static const int64_t bits[2 * kLanes] = {
      0, 0, 0, 0,
#if defined(__AVX512F__)
      0, 0, 0, 0, -1, -1, -1, -1,
#endif
      -1, -1, -1, -1};
  return load_as<Longs>(bits + count);
}

// The last `count` terms before `end`, in the last lanes, and zeros for the others; there are at
// least kLanes terms before `end`.
template <typename T>
SAMEBITS_INLINE Doubles load_last(const T* end, int64_t count) {
  return reinterpret_cast<Doubles>(reinterpret_cast<Longs>(load(end - kLanes)) &
                                   last_lanes(count));
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
  if constexpr (std::is_same<T, float16>::value || std::is_same<T, double>::value) {
    T terms[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) terms[lane] = at[lane * stride];
    return load(terms);
  } else {
    using Word = typename std::conditional<sizeof(T) == 4, uint32_t, uint16_t>::type;
    const Word* words = reinterpret_cast<const Word*>(at);
    auto word = [&](int lane) {
      return static_cast<uint32_t>(words[lane * stride]) << (sizeof(T) == 4 ? 0 : 16);
    };
#if defined(__AVX512F__)
    Words terms = {word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7)};
#else
    Words terms = {word(0), word(1), word(2), word(3)};
#endif
    return to_doubles(without_subnormals(terms));
  }
}

// Each second term of 2 * kLanes.
template <typename T>
SAMEBITS_INLINE Doubles load_even(const T* at) {
#if defined(__AVX512F__)
  if (std::is_same<T, float>::value) {
    const __m512i even = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 14, 12, 10, 8, 6, 4, 2, 0);
    const __m512 terms = _mm512_permutexvar_ps(even, load_as<__m512>(at));
    return to_doubles(
        without_subnormals(reinterpret_cast<Words>(_mm512_castps512_ps256(terms))));
  }
#endif
  return load_apart(at, 2);
}

SAMEBITS_INLINE Doubles magnitude(Doubles value) {
  return reinterpret_cast<Doubles>(reinterpret_cast<Longs>(value) & 0x7fffffffffffffffll);
}

// TwoSum (Knuth 4.2.2), as in numbers.h, in each lane.
template <typename V>
SAMEBITS_INLINE V two_sum(V* a, V b) {
  V sum = *a + b;
  V of_b = sum - *a;
  V error = (*a - (sum - of_b)) + (b - of_b);
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

// Whether any bit is 1.
SAMEBITS_INLINE bool any_of(Longs value) {
#if defined(__AVX512F__)
  const __m512i bits = reinterpret_cast<__m512i>(value);
  return _mm512_test_epi64_mask(bits, bits) != 0;
#elif defined(__AVX2__)
  const __m256i bits = reinterpret_cast<__m256i>(value);
  return _mm256_testz_si256(bits, bits) == 0;
#else
  int64_t any = 0;
  for (int lane = 0; lane < kLanes; ++lane) any |= value[lane];
  return any != 0;
#endif
}

SAMEBITS_INLINE Doubles chosen(Longs first, Doubles a, Doubles b) {
  return reinterpret_cast<Doubles>((reinterpret_cast<Longs>(a) & first) |
                                   (reinterpret_cast<Longs>(b) & ~first));
}

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

// The greater of two magnitudes, the first of which is no NaN. A NaN is no greater one.
SAMEBITS_INLINE Doubles greater(Doubles most, Doubles value) {
#if defined(__AVX512F__)
  return reinterpret_cast<Doubles>(_mm512_range_pd(reinterpret_cast<__m512d>(value),
                                                   reinterpret_cast<__m512d>(most), 0xb));
#else
  const Doubles size = magnitude(value);
  return size > most ? size : most;
#endif
}

// Sums of float64, whose greatest magnitude is known before they are added.
//
// A sum starts with 1.5 * 2**e, and the sum of all magnitudes is at most 2**(e - 1), so each addition
// rounds to a multiple of 2**(e - 52). FastTwoSum gives what that leaves, exactly (Dekker 1971; the
// idea is ExtractVector of Rump, Ogita and Oishi 2008, doi:10.1137/050645671):
//
//     high + term = next + left        |left| <= 2**(e - 53)
//
// The sum of all `next` less what they started with is exact, and `low` adds up what is left.
template <typename V>
struct Coarse {
  V high, low{};

  SAMEBITS_INLINE void add(V term) { low += add_high(term); }
  // Returns what is left of a term.
  SAMEBITS_INLINE V add_high(V term) {
    const V next = high + term, left = term - (next - high);
    high = next;
    return left;
  }
};

// How such sums of magnitudes up to `most`, one in each lane, start, and what bounds their errors.
class Start {
 public:
  // `terms` are at most 2**log2_terms; each of them goes through `roundings` of `low` at most.
  Start(int64_t terms, int log2_terms, int64_t roundings)
      : more_(static_cast<uint64_t>(log2_terms + 2) << 52),
        // Twice the bound: a sum may lose bits of subnormal numbers too.
        factor_(static_cast<double>(terms) * static_cast<double>(roundings) *
                double_of(static_cast<uint64_t>(1023 + log2_terms + 2 - 105) << 52)) {}

  SAMEBITS_INLINE Doubles high(Doubles most) const {
    return reinterpret_cast<Doubles>((power(most) + more_) | (1ull << 51));
  }
  // The same for sums of what these leave.
  SAMEBITS_INLINE Doubles second(Doubles most) const {
    return reinterpret_cast<Doubles>((power(most) + (2 * more_ - (54ull << 52))) | (1ull << 51));
  }
  // An infinity if the sums have no bound.
  SAMEBITS_INLINE Doubles error(Doubles most) const {
    const Longs is_bounded = (most <= 0x1p900) & ((most >= 0x1p-900) | (most == 0));
    const Doubles bound = reinterpret_cast<Doubles>(power(most)) * factor_;
    return chosen(is_bounded, bound, Doubles{} + HUGE_VAL);
  }

 private:
  // Without a sign, since what has no bound may overflow.
  using Powers = uint64_t __attribute__((vector_size(8 * kLanes)));

  static SAMEBITS_INLINE Powers power(Doubles most) {
    return reinterpret_cast<Powers>(most) & (0x7ffull << 52);
  }
  uint64_t more_;
  double factor_;
};

// The greatest and the least magnitude of terms that are not zero, as their bits.
//
// All terms are multiples of the unit in the last place of the least one. If n terms of twice the
// greatest magnitude are at most 2**53 of these units, float64 adds them in any order exactly.
template <typename T>
class Range {
 public:
  SAMEBITS_INLINE void add(const T* terms, int64_t count) {
    const Word* words = reinterpret_cast<const Word*>(terms);
    int64_t i = 0;
    for (; i + kWords <= count; i += kWords) add(load_as<Vector>(words + i));
    if (i == count) return;
    if (count >= kWords) return add(load_as<Vector>(words + count - kWords));
    Word last[kWords] = {};
    for (int64_t k = 0; i < count; ++i) last[k++] = words[i];
    add(load_as<Vector>(last));
  }

  // Returns whether float64 adds 2**log2_terms of the terms without an error. An infinity or a NaN
  // is no such term, but in float16, whose terms are all multiples of 2**-24 and below 2**16.
  SAMEBITS_INLINE bool is_exact(int log2_terms) const {
    if (is_half) return log2_terms <= 13;
    Word most = 0, least = ~Word(0);
    for (int i = 0; i < kWords; ++i) {
      most = most_[i] > most ? most_[i] : most;
      least = least_[i] < least ? least_[i] : least;
    }
    if (most < kTiny) return true;  // Zeros, and what counts as zero.
    if (most >= kInfinity) return false;
    const int binades = static_cast<int>(most >> kFraction) -
                        static_cast<int>(Word(least + kTiny) >> kFraction) + 1;
    return binades + kFraction + log2_terms <= 53;
  }

 private:
  static constexpr bool is_half = std::is_same<T, float16>::value;
  using Word = typename std::conditional<sizeof(T) == 4, uint32_t, uint16_t>::type;
  static constexpr int kWords = 8 * kLanes / sizeof(T);
  static constexpr int kFraction = sizeof(T) == 4 ? 23 : 7;
  static constexpr Word kTiny = Word(1) << kFraction;
  static constexpr Word kInfinity = Word(255) << kFraction;
  using Long = uint32_t __attribute__((vector_size(8 * kLanes)));
  using Short = uint16_t __attribute__((vector_size(8 * kLanes)));
  using Vector = typename std::conditional<sizeof(T) == 4, Long, Short>::type;

  SAMEBITS_INLINE void add(Vector words) {
    if (is_half) return;
    Vector size = words & Word(Word(~Word(0)) >> 1);
    // Zeros and subnormal numbers become greater than all others.
    Vector above = size - kTiny;
    most_ = size > most_ ? size : most_;
    least_ = above < least_ ? above : least_;
  }

  Vector most_ = Vector{};
  Vector least_ = ~Vector{};
};

// float64 adds terms of its own with errors.
template <>
class Range<double> {
 public:
  SAMEBITS_INLINE void add(const double*, int64_t) {}
  SAMEBITS_INLINE bool is_exact(int) const { return false; }
};

// The least k with n <= 2**k.
SAMEBITS_INLINE int log2_above(int64_t n) { return n < 2 ? 0 : 64 - __builtin_clzll(n - 1); }

// Rounds float64 to the format R, as R::narrow does.
template <typename R>
SAMEBITS_INLINE void narrow_all(const double* values, int64_t count, typename R::Word* words) {
  int64_t i = 0;
  for (; std::is_same<R, Float64>::value && i + kLanes <= count; i += kLanes) {
    const Doubles value = load_as<Doubles>(values + i);
    const Longs is_kept = magnitude(value) >= 0x1p-1022, is_nan = value != value;
    const Longs rounded =
        (reinterpret_cast<Longs>(value) & is_kept) | (0x7ff8000000000000ll & is_nan);
    __builtin_memcpy(words + i, &rounded, sizeof rounded);
  }
#if defined(__AVX2__)
  for (; std::is_same<R, Float32>::value && i + kLanes <= count; i += kLanes) {
    Doubles value = load_as<Doubles>(values + i);
    Words kept = reinterpret_cast<Words>(
        __builtin_convertvector(magnitude(value) >= 0x1p-126 * (1 - 0x1p-25), Ints));
#if defined(__AVX512F__)
    __m256 narrow = _mm512_cvtpd_ps(reinterpret_cast<__m512d>(value));
#else
    __m128 narrow = _mm256_cvtpd_ps(reinterpret_cast<__m256d>(value));
#endif
    // What is not a number is not below the bound either.
    kept |= reinterpret_cast<Words>(__builtin_convertvector(value != value, Ints));
    Words rounded = reinterpret_cast<Words>(narrow) & kept;
    __builtin_memcpy(words + i, &rounded, sizeof rounded);
  }
#endif
  for (; i < count; ++i) words[i] = R::narrow(values[i]);
}

// The ends of the interval that a sum is in, as float64 that round to a format as they do. Returns
// which sums are inexact.
struct Interval {
  Doubles low, high;
  Longs is_inexact;
};
template <typename R>
SAMEBITS_INLINE Interval interval(const Exact<Doubles>& sum, double wide) {
  // A sum that is not finite is `near` of the tile: TwoSum makes NaN of an infinity.
  Longs is_number = magnitude(sum.near) <= kGreatest;
  Doubles value = chosen(is_number, to_odd(sum), sum.near);
  Longs is_inexact = (sum.error != 0) & is_number;
  Doubles wider = sum.error * wide + magnitude(value) * 0x1p-52;
  wider = reinterpret_cast<Doubles>(reinterpret_cast<Longs>(wider) & is_inexact);
  return {value - wider, value + wider, is_inexact};
}
// A sum that is not finite on the way may be finite. TwoSum has then made a NaN of the error, and
// the ends of the interval differ.
template <>
SAMEBITS_INLINE Interval interval<Float64>(const Exact<Doubles>& sum, double wide) {
  Longs is_inexact = sum.error != 0, is_bounded = sum.error <= kGreatest;
  Doubles wider = sum.error * wide + magnitude(sum.rest) * 0x1p-52;
  wider = reinterpret_cast<Doubles>(reinterpret_cast<Longs>(wider) & is_inexact);
  return {chosen(is_bounded, sum.near + (sum.rest - wider), Doubles{}),
          chosen(is_bounded, sum.near + (sum.rest + wider), Doubles{} + 1), is_inexact};
}

// The sums of `number` vectors of float64, load_one(0), load_one(1), ..., of which `start` is. Of few
// terms, many sums are ties, which only an exact sum decides: a second coarse sum has all that the
// first one leaves, unless terms are far apart.
template <typename Load>
SAMEBITS_INLINE Exact<Doubles> sum_of(int64_t number, const Start& start, const Load& load_one) {
  Doubles most{};
  for (int64_t i = 0; i < number; ++i) most = greater(most, load_one(i));
  const Doubles counted = greater(most, Doubles{} + 0x1p-900);
  const Doubles high = start.high(counted), low = start.second(counted);
  Coarse<Doubles> first = {high}, second = {low};
  Longs lost = (most > 0x1p900) | ((most < 0x1p-900) & (most != 0));
  for (int64_t i = 0; i < number; ++i)
    lost |= reinterpret_cast<Longs>(second.add_high(first.add_high(load_one(i))));
  if (!any_of(lost)) return {first.high - high, second.high - low};
  Exact<Doubles> sum = {load_one(0)};
  for (int64_t i = 1; i < number; ++i) sum.add(load_one(i));
  return sum;
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

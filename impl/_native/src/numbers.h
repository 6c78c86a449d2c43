// Floats as the order `nearest` (spec/orders.toml) counts them: widening, rounding, exact sums.
//
// Every function here computes with IEEE 754's default rounding and keeps subnormals of float64, so
// its caller stands in a `Ieee` scope (threads.h). Everything has internal linkage, because a file
// may be compiled for several vector units, whose code must not be merged.
//
//     widen(bfloat16{0x3f80})          1.0
//     Float32::narrow(1 + 0x1p-24)     0x3f800000, the even neighbour
//     Accumulator: 2**100, 1, -2**100  1.0, by to_odd()
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace samebits {
namespace {

#define SAMEBITS_INLINE inline __attribute__((always_inline))

struct float16 {
  uint16_t bits;
};
struct bfloat16 {
  uint16_t bits;
};

SAMEBITS_INLINE uint64_t bits_of(double value) {
  uint64_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
SAMEBITS_INLINE uint32_t bits_of(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
SAMEBITS_INLINE double double_of(uint64_t bits) {
  double value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}
SAMEBITS_INLINE float float_of(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// The number of parts of a size that hold a count, and the size of all of them.
SAMEBITS_INLINE int64_t parts_of(int64_t count, int64_t size) { return (count + size - 1) / size; }
SAMEBITS_INLINE int64_t up(int64_t count, int64_t size) { return parts_of(count, size) * size; }

// The unit roundoff of float64.
constexpr double kUnit = 0x1p-53;
constexpr double kGreatest = 1.7976931348623157e308;

SAMEBITS_INLINE bool is_finite(double value) { return __builtin_fabs(value) <= kGreatest; }

// A term of a sum or a factor of a product as float32, without a change of its value: a subnormal
// float32 or bfloat16 is a zero, and a subnormal float16 is a normal float32.
SAMEBITS_INLINE float as_float(float value) {
  uint32_t bits = bits_of(value);
  return float_of((bits & 0x7f800000u) != 0 ? bits : 0u);
}
SAMEBITS_INLINE float as_float(bfloat16 value) {
  return as_float(float_of(static_cast<uint32_t>(value.bits) << 16));
}
SAMEBITS_INLINE float as_float(float16 value) {
  uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  uint32_t rest = static_cast<uint32_t>(value.bits & 0x7fffu) << 13;
  uint32_t normal = rest + (112u << 23);
  uint32_t special = rest | 0x7f800000u;
  // 2**-14 and the fraction of a subnormal number, less 2**-14.
  uint32_t small = bits_of(float_of(rest + (113u << 23)) - float_of(113u << 23));
  uint32_t magnitude = rest >= (31u << 23) ? special : (rest < (1u << 23) ? small : normal);
  return float_of(sign | magnitude);
}
template <typename T>
SAMEBITS_INLINE double widen(T value) {
  return static_cast<double>(as_float(value));
}
SAMEBITS_INLINE double widen(double value) {
  return __builtin_fabs(value) < 0x1p-1022 ? 0 : value;
}

// The formats of terms and results. `narrow` rounds a float64 once, to the nearest and to the even, and
// returns the bits: +0 for each zero, one NaN, and 0 for what the format flushes.
struct Float32 {
  using Term = float;
  using Word = uint32_t;
  static SAMEBITS_INLINE Word narrow(double value) {
    uint32_t bits = bits_of(static_cast<float>(value));
    // The least float64 that 24 bits round to the least normal number.
    bits = __builtin_fabs(value) < 0x1p-126 * (1 - 0x1p-25) ? 0u : bits;
    return value != value ? 0x7fc00000u : bits;
  }
};
struct BFloat16 {
  using Term = bfloat16;
  using Word = uint16_t;
  static SAMEBITS_INLINE Word narrow(double value) {
    uint64_t bits = bits_of(value);
    uint64_t sign = (bits >> 48) & 0x8000u;
    uint64_t magnitude = bits & 0x7fffffffffffffffull;
    uint64_t rounded = (magnitude + 0xfffffffffffull + ((magnitude >> 45) & 1)) >> 45;
    int64_t word = static_cast<int64_t>(rounded) - ((1023 - 127) << 7);
    word = word > 0x7f80 ? 0x7f80 : word;
    word = __builtin_fabs(value) < 0x1p-126 ? 0 : word | static_cast<int64_t>(sign);
    return static_cast<Word>(value != value ? 0x7fc0 : word);
  }
};
struct Float16 {
  using Term = float16;
  using Word = uint16_t;
  static SAMEBITS_INLINE Word narrow(double value) {
    uint64_t bits = bits_of(value);
    uint64_t sign = (bits >> 48) & 0x8000u;
    uint64_t magnitude = bits & 0x7fffffffffffffffull;
    uint64_t rounded = (magnitude + 0x1ffffffffffull + ((magnitude >> 42) & 1)) >> 42;
    int64_t word = static_cast<int64_t>(rounded) - ((1023 - 15) << 10);
    word = word > 0x7c00 ? 0x7c00 : word;
    // 2**28 and less than 2**-14 is rounded to a multiple of 2**-24.
    int64_t small = static_cast<int64_t>(bits_of(__builtin_fabs(value) + 0x1p28) & 0xffffull);
    word = __builtin_fabs(value) < 0x1p-14 ? small : word;
    word = word == 0 ? 0 : word | static_cast<int64_t>(sign);
    return static_cast<Word>(value != value ? 0x7e00 : word);
  }
};

struct Float64 {
  using Term = double;
  using Word = uint64_t;
  static SAMEBITS_INLINE Word narrow(double value) {
    const uint64_t bits = __builtin_fabs(value) < 0x1p-1022 ? 0ull : bits_of(value);
    return value != value ? 0x7ff8000000000000ull : bits;
  }
};

// The bound n u / (1 - n u) of the error of a sum relative to the sum of magnitudes, if no term
// goes through more than n roundings (Higham 2002, section 4.2).
SAMEBITS_INLINE double of_chain(double roundings) {
  double relative = roundings * kUnit;
  return relative / (1 - relative);
}

// Rounds a value that is exact within an error (Ziv 1991): returns whether both ends of the
// interval round to `word`. The error may itself have a relative error of 2**-11; 0 says that the
// value is exact. An infinity or a NaN is a result.
template <typename R>
SAMEBITS_INLINE bool is_decided(double value, double error, typename R::Word* word) {
  double wider = error * (1 + 0x1p-10) + __builtin_fabs(value) * 0x1p-52;
  wider = error == 0 || !is_finite(value) ? 0 : wider;
  typename R::Word low = R::narrow(value - wider);
  *word = low;
  return low == R::narrow(value + wider);
}

// value * 2**exponent as a float64, where the value is one rounded from an exact sum: writes its
// bits, unless the sum may be below the least normal number, and the result is that number.
SAMEBITS_INLINE bool is_scaled(double value, int exponent, uint64_t* word) {
  const uint64_t bits = bits_of(value), sign = bits & (1ull << 63);
  const int64_t field = static_cast<int64_t>((bits >> 52) & 0x7ff) + exponent;
  const uint64_t fraction = bits & 0xfffffffffffffull;
  *word = 0;
  if (value == 0 || field < 1) return true;
  const uint64_t infinity = sign | (0x7ffull << 52);
  *word = field > 2046 ? infinity : sign | static_cast<uint64_t>(field) << 52 | fraction;
  return field != 1 || fraction != 0;
}

// TwoSum (Knuth, The Art of Computer Programming 2, 4.2.2): a becomes the rounded sum of a and b,
// and the result is the error, exactly.
SAMEBITS_INLINE double two_sum(double* a, double b) {
  double sum = *a + b;
  double of_b = sum - *a;
  double error = (*a - (sum - of_b)) + (b - of_b);
  *a = sum;
  return error;
}

// near + error, rounded to odd: 53 bits, the last of which is 1 if a bit was lost. Rounding the
// result to fewer than 52 bits is rounding the exact sum (Boldo and Melquiond 2008).
SAMEBITS_INLINE double to_odd(double near, double error) {
  uint64_t bits = bits_of(near);
  uint64_t away = (near < 0) == (error < 0) ? 0 : ~0ull;
  return error != 0 && is_finite(near) ? double_of((bits + away) | 1) : near;
}

// The exponent of the last bit of a finite double that is not 0: it is a multiple of 2**last_bit.
SAMEBITS_INLINE int last_bit(double value) {
  uint64_t bits = bits_of(value);
  uint64_t significand = (bits & 0xfffffffffffffull) | (1ull << 52);
  return static_cast<int>((bits >> 52) & 0x7ff) - 1075 + __builtin_ctzll(significand);
}

// An exact sum (Kulisch 2013, chapter 8): kNumber digits of 32 bits, in units of 2**-kUnitBits, each
// in an int64. The digits of two sums add up digit by digit. `add` may be called 2**30 times before
// `carry`. The last digit has what is carried alone, and counts infinities too, each above the
// values that it has otherwise: up to 2**13 of either sign.
template <int kNumber, int kUnitBits>
struct Digits {
  static constexpr int kDigits = kNumber;
  static constexpr int kBias = kUnitBits;
  static constexpr int kPlus = 36, kMinus = 50;
  int64_t digit[kDigits] = {};

  // A normal float64 that is a multiple of the unit, or a number that counts as 0.
  SAMEBITS_INLINE void add(double value) {
    uint64_t bits = bits_of(value);
    int field = static_cast<int>((bits >> 52) & 0x7ff);
    if (field == 0) return;
    add_word((bits & 0xfffffffffffffull) | (1ull << 52), field - 1075 + kBias,
             static_cast<int64_t>(bits) >> 63);
  }

  // An infinity or a NaN, which is the sum of both infinities.
  void add_special(double value) {
    if (!(value < 0)) digit[kDigits - 1] += 1ll << kPlus;
    if (!(value > 0)) digit[kDigits - 1] += 1ll << kMinus;
  }

  // Makes all digits but the last ones of 32 bits, without a change of the sum.
  void carry() {
    for (int i = 0; i + 1 < kDigits; ++i) {
      int64_t above = digit[i] >> 32;
      digit[i] -= above * (1ll << 32);
      digit[i + 1] += above;
    }
  }

  // The sum, rounded to odd.
  double to_odd() const {
    const Leading sum = leading();
    if (sum.bits == 0) return sum.value;
    const bool is_inexact = (sum.bits & 0x7ff) != 0;
    const auto significand = static_cast<double>((sum.bits >> 11) | (is_inexact ? 1u : 0u));
    return std::copysign(std::ldexp(significand, sum.exponent + 11), sum.value);
  }

  // The sum, rounded to the nearest float64, and to +0 if it is below the normal ones.
  double to_nearest() const {
    const Leading sum = leading();
    if (sum.bits == 0) return sum.value;
    if (sum.exponent + 63 < -1022) return 0;
    return std::copysign(std::ldexp(static_cast<double>(sum.bits), sum.exponent), sum.value);
  }

 protected:
  // Adds a word times 2**shift units; its sign is 0 or -1.
  SAMEBITS_INLINE void add_word(uint64_t word, int shift, int64_t sign) {
    const unsigned __int128 moved = static_cast<unsigned __int128>(word) << (shift & 31);
    int64_t* at = digit + (shift >> 5);
    at[0] += (static_cast<int64_t>(static_cast<uint32_t>(moved)) ^ sign) - sign;
    at[1] += (static_cast<int64_t>(static_cast<uint32_t>(moved >> 32)) ^ sign) - sign;
    at[2] += (static_cast<int64_t>(static_cast<uint32_t>(moved >> 64)) ^ sign) - sign;
  }

 private:
  // The magnitude of a sum, rounded to odd: bits * 2**exponent, of 64 bits. `value` has its sign;
  // if bits is 0, it is the sum.
  struct Leading {
    uint64_t bits;
    int exponent;
    double value;
  };

  Leading leading() const {
    Digits sum = *this;
    auto count = [top = &sum.digit[kDigits - 1]](int shift) {
      const int64_t infinities = (*top + (1ll << (shift - 1))) >> shift;
      *top -= infinities * (1ll << shift);
      return infinities != 0;
    };
    const bool has_minus = count(kMinus), has_plus = count(kPlus);
    if (has_minus || has_plus)
      return {0, 0, (has_plus ? HUGE_VAL : 0) - (has_minus ? HUGE_VAL : 0)};
    sum.carry();
    const bool is_negative = sum.digit[kDigits - 1] < 0;
    if (is_negative) {
      for (int64_t& each : sum.digit) each = -each;
      sum.carry();
    }
    int top = kDigits - 1;
    while (top >= 0 && sum.digit[top] == 0) --top;
    if (top < 0) return {0, 0, 0};
    auto at = [&](int i) { return i < 0 ? 0ull : static_cast<uint64_t>(sum.digit[i]); };
    // The three greatest digits: at least 65 bits.
    const unsigned __int128 word = (static_cast<unsigned __int128>(at(top)) << 64) |
                                   (static_cast<unsigned __int128>(at(top - 1)) << 32) |
                                   at(top - 2);
    const int dropped = 64 - __builtin_clzll(static_cast<uint64_t>(word >> 64));
    bool is_inexact = (word & ((static_cast<unsigned __int128>(1) << dropped) - 1)) != 0;
    for (int i = 0; i < top - 2; ++i) is_inexact |= sum.digit[i] != 0;
    return {static_cast<uint64_t>(word >> dropped) | (is_inexact ? 1u : 0u),
            dropped + 32 * (top - 2) - kBias, is_negative ? -1.0 : 1.0};
  }
};

// An exact sum of floats of up to 32 bits, and of their products: float64 of at least 2**-299 and
// below 2**260.
using Accumulator = Digits<24, 352>;

}  // namespace
}  // namespace samebits

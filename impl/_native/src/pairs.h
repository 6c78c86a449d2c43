// Arithmetic on pairs, the unevaluated sums of two float64 (Dekker 1971), one pair in each lane.
//
// The functions have the names and the operations of impl/_exact/elementary/_pairs.py and
// _pair_functions.py, one by one, so they have the same bits. Included by `*_kernels.cc`.
#pragma once

#include <cstddef>

#include "coefficients.h"
#include "lanes.h"

namespace samebits {
namespace {

struct Pairs {
  Doubles high, low;
};

SAMEBITS_INLINE Longs raw(Doubles value) { return reinterpret_cast<Longs>(value); }
SAMEBITS_INLINE Doubles constant(double value) { return Doubles{} + value; }
SAMEBITS_INLINE Pairs constant(Constant value) {
  return {constant(value.high), constant(value.low)};
}

// Applies a comparison to each lane. GCC compares the lanes of a vector that is wider than the unit
// one by one, so that the halves are compared here.
template <typename Comparison>
SAMEBITS_INLINE Longs compared(Doubles a, Doubles b, Comparison compare) {
#if defined(__AVX2__)
  return compare(a, b);
#else
  using Half = double __attribute__((vector_size(4 * kLanes)));
  Half of_a[2], of_b[2];
  __builtin_memcpy(of_a, &a, sizeof a);
  __builtin_memcpy(of_b, &b, sizeof b);
  decltype(of_a[0] < of_b[0]) halves[2] = {compare(of_a[0], of_b[0]), compare(of_a[1], of_b[1])};
  Longs result;
  __builtin_memcpy(&result, halves, sizeof result);
  return result;
#endif
}
SAMEBITS_INLINE Longs is_above(Doubles a, Doubles b) {
  return compared(a, b, [](auto x, auto y) { return x > y; });
}
SAMEBITS_INLINE Longs is_above(Doubles a, double b) { return is_above(a, constant(b)); }
SAMEBITS_INLINE Longs is_below(Doubles a, double b) { return is_above(constant(b), a); }
SAMEBITS_INLINE Longs is_equal(Doubles a, Doubles b) {
  return compared(a, b, [](auto x, auto y) { return x == y; });
}

SAMEBITS_INLINE Doubles selected(Longs first, Doubles a, Doubles b) {
#if defined(__AVX2__)
  return first ? a : b;
#else
  return chosen(first, a, b);
#endif
}
SAMEBITS_INLINE Pairs selected(Longs first, const Pairs& a, const Pairs& b) {
  return {selected(first, a.high, b.high), selected(first, a.low, b.low)};
}

// Rounds to the nearest integer, ties to even: 2**52 leaves no bits for a fraction.
SAMEBITS_INLINE Doubles nearest_integer(Doubles value) {
  Doubles size = magnitude(value);
  Doubles rounded = (size + 0x1p52) - 0x1p52;
  Longs sign = raw(value) & ~0x7fffffffffffffffll;
  Longs is_short = is_below(size, 0x1p52);
  return selected(is_short, reinterpret_cast<Doubles>(raw(rounded) | sign), value);
}

// The float64 of an integer below 2**51 in magnitude, and that integer again.
constexpr double kIntegerInLastBits = 0x1.8p52;
SAMEBITS_INLINE Doubles of_integer(Longs value) {
  return reinterpret_cast<Doubles>(value + raw(constant(kIntegerInLastBits))) - kIntegerInLastBits;
}
SAMEBITS_INLINE Doubles power_of_two(Doubles exponent) {
  return reinterpret_cast<Doubles>((raw(exponent + kIntegerInLastBits) + 1023) << 52);
}

// Rounds to a number of bits; ties go away from zero.
template <int bits>
SAMEBITS_INLINE Doubles shorten(Doubles value) {
  constexpr int64_t kLost = int64_t(1) << (53 - bits);
  return reinterpret_cast<Doubles>((raw(value) + kLost / 2) & -kLost);
}

SAMEBITS_INLINE Pairs fast_two_sum(Doubles a, Doubles b) {
  Doubles total = a + b;
  return {total, b - (total - a)};
}

SAMEBITS_INLINE Pairs two_product(Doubles a, Doubles b) {
  Doubles result = a * b;
  Doubles a_high = shorten<26>(a), b_high = shorten<26>(b);
  Doubles a_low = a - a_high, b_low = b - b_high;
  Doubles rest = a_high * b_high - result;
  rest = (rest + a_high * b_low) + b_high * a_low;
  return {result, rest + a_low * b_low};
}

SAMEBITS_INLINE Pairs times_pair(const Pairs& a, const Pairs& b) {
  Pairs main = two_product(a.high, b.high);
  Doubles crossed = a.high * b.low + a.low * b.high;
  return fast_two_sum(main.high, main.low + crossed);
}

// A pair whose high part is not 0, rounded to odd (Boldo and Melquiond 2008).
SAMEBITS_INLINE Doubles rounded_to_odd(const Pairs& value) {
  Longs away = is_below(value.high, 0) ^ is_below(value.low, 0);
  Longs odd = (raw(value.high) + away) | 1;
  Longs is_inexact = ~is_equal(value.low, Doubles{});
  return selected(is_inexact, reinterpret_cast<Doubles>(odd), value.high);
}

// A polynomial by Estrin's scheme: (a + b x) + (c + d x) x**2.
template <size_t count>
SAMEBITS_INLINE Doubles polynomial(const double (&coefficients)[count], Doubles x) {
  Doubles terms[count];
  for (size_t i = 0; i < count; ++i) terms[i] = constant(coefficients[i]);
  for (size_t length = count; length > 1; length = (length + 1) / 2) {
    for (size_t i = 0; i + 1 < length; i += 2) terms[i / 2] = terms[i] + terms[i + 1] * x;
    if (length % 2) terms[length / 2] = terms[length - 1];
    x = x * x;
  }
  return terms[0];
}

// The quotient of floats of 31 bits as a pair whose parts have 22 and 53 bits.
SAMEBITS_INLINE Pairs quotient(Doubles a, Doubles b) {
  Doubles high = shorten<22>(a / b);
  return {high, (a - high * b) / b};
}

// The number c of kFactors for which c * m is close to 1, and its logarithm, negated.
SAMEBITS_INLINE Doubles factor_of(Doubles m, Pairs* table) {
  Doubles factor = constant(1);
  *table = constant({0.0, 0.0});
  for (const Factor& each : kFactors) {
    Longs is_next = is_above(m, each.bound);
    factor = selected(is_next, constant(each.factor), factor);
    *table = selected(is_next, constant({-each.logarithm.high, -each.logarithm.low}), *table);
  }
  return factor;
}

// log(2**k * m) for m of 24 bits from sqrt(1/2) to sqrt(2).
SAMEBITS_INLINE Pairs pair_log(Doubles m, Doubles k) {
  Pairs table;
  Doubles f = factor_of(m, &table) * m + -1.0;
  Pairs y = quotient(f, f + 2.0);
  Doubles square = y.high * y.high;
  Doubles crossed = y.high * y.low;
  Doubles slope = (square + crossed) * y.low * 3.0;
  Pairs cube = two_product(square, y.high);
  cube.low = cube.low + slope;
  Pairs main = two_product(cube.high, constant(kPair2_3.high));
  main.low = main.low + cube.high * kPair2_3.low;
  main.low = main.low + cube.low * kPair2_3.high;
  Doubles near_square = square + ((crossed + crossed) + y.low * y.low);
  Doubles fifth = (cube.high + cube.low) * near_square;
  fifth = fifth * polynomial(kPairLog, near_square);
  Doubles rest = ((y.low + y.low) + main.low) + fifth;
  Pairs first = fast_two_sum(y.high + y.high, main.high);
  // The products of k with the first two parts of log(2) are exact.
  Doubles total = k * kLn2High;
  Doubles of_total = two_sum(&total, table.high);
  Doubles of_first = two_sum(&total, first.high);
  Doubles of_k = k * kLn2Low + k * kLn2Rest;
  rest = rest + (first.low + (of_k + table.low));
  return fast_two_sum(total, rest + (of_total + of_first));
}

// exp(x) = y * 2**n for x from -150 to 150; y is from 0.9 to 2.
SAMEBITS_INLINE Pairs pair_exp(const Pairs& x, Doubles* n) {
  Doubles eighths = nearest_integer(x.high * (8 * kLog2E));
  Doubles high = x.high - eighths * (kLn2High / 8);
  Doubles low = two_sum(&high, -(eighths * (kLn2Low / 8)));
  low = (low + x.low) - eighths * (kLn2Rest / 8);
  Pairs r = fast_two_sum(high, low);
  Pairs square = two_product(r.high, r.high);
  square.low = square.low * 0.5 + r.high * r.low;
  Doubles more = (square.high * r.high) * polynomial(kPairExp, r.high);
  Pairs first = fast_two_sum(r.high, square.high * 0.5);
  Pairs total = fast_two_sum(constant(1), first.high);
  Doubles rest = (r.low + (first.low + square.low)) + more;
  Pairs power = fast_two_sum(total.high, total.low + rest);
  Doubles eighth = eighths * 0.125;
  Doubles near = nearest_integer(eighth);
  *n = selected(is_above(near, eighth), near - 1.0, near);
  Doubles i = eighths - *n * 8.0;
  Pairs root = constant({1.0, 0.0});
  for (int number = 1; number < 8; ++number) {
    Longs is_reached = is_above(i, number - 0.5);
    root = selected(is_reached, constant(kRoots[number - 1]), root);
  }
  return times_pair(root, power);
}

}  // namespace
}  // namespace samebits

// The terms of sums by their C++ types: `with_type` calls a function with one of them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "expansion.h"
#include "formats.h"
#include "wide_accumulator.h"

namespace samebits {
namespace {

// The first of some formats whose terms have a type.
template <typename T, typename R, typename... More>
constexpr auto matching() {
  if constexpr (std::is_same_v<T, typename R::Term>) return R();
  else return matching<T, More...>();
}
// The format of results that have the type of the terms.
template <typename T>
using FormatOf = decltype(matching<T, Float32, BFloat16, Float16, Float64>());

// Returns visit(float()), or that of another type, whose format is not kFormats.
template <typename Visit>
auto with_type(Format format, const Visit& visit) {
  return with_format(format, [&](auto of) { return visit(typename decltype(of)::Term()); });
}

// The element of an array of a format.
SAMEBITS_INLINE double element(const void* array, Format format, int64_t at) {
  return with_type(format, [&](auto type) {
    return widen(static_cast<const decltype(type)*>(array)[at]);
  });
}

// An exact sum of any float64, which is its digits alone.
struct SumOfDoubles : WideAccumulator {
  void add(double term) {
    if (is_finite(term)) return WideAccumulator::add(term);
    // The last digit counts one infinity of each sign.
    const double before = special();
    if (!(term < 0) && !(before > 0 || before != before)) add_special(HUGE_VAL);
    if (!(term > 0) && !(before < 0 || before != before)) add_special(-HUGE_VAL);
  }
  void add(const SumOfDoubles& other) {
    for (int i = 0; i < kDigits; ++i) digit[i] += other.digit[i];
    carry();
  }

  // The infinity or the NaN that the sum is, or 0.
  double special() const {
    const int64_t last = digit[kDigits - 1];
    const int64_t minus = (last + (1ll << (kMinus - 1))) >> kMinus;
    const int64_t plus = (last - minus * (1ll << kMinus) + (1ll << (kPlus - 1))) >> kPlus;
    return plus != 0 ? (minus != 0 ? NAN : HUGE_VAL) : minus != 0 ? -HUGE_VAL : 0;
  }

  // What a state has of a sum whose terms made no finite float64: an infinity or a NaN of a term, or
  // 0 within no bound.
  void as_state(double* near, double* rest, double* error) const {
    *near = special();
    *rest = 0;
    *error = *near == 0 ? NAN : 0;
  }

  // The sum as near + rest within error: 0 if it is exact, and a NaN if it is not finite.
  void split(double* near, double* rest, double* error) const {
    SumOfDoubles left = *this;
    *near = to_nearest();
    *rest = *error = is_finite(*near) ? 0 : NAN;
    if (*error != 0) return;
    left.add(-*near);
    *rest = left.to_nearest();
    left.add(-*rest);
    left.carry();
    // What is below the normal numbers counts as zero in `to_nearest`.
    for (int64_t each : left.digit)
      if (each != 0) *error = std::fabs(left.to_nearest()) * (1 + 0x1p-40) + 0x1p-1022;
  }
};

// Sums of terms of a type are exact in this accumulator.
template <typename T>
using AccumulatorOf = std::conditional_t<std::is_same_v<T, double>, SumOfDoubles, Accumulator>;

// An exact sum as a float64 that rounds to a format as the sum does.
SAMEBITS_INLINE double rounded(const Accumulator& sum) { return sum.to_odd(); }
SAMEBITS_INLINE double rounded(const Expansion& sum) { return sum.to_odd(); }
SAMEBITS_INLINE double rounded(const SumOfDoubles& sum) {
  const double special = sum.special();
  return special == 0 ? sum.to_nearest() : special;
}

// Returns the exact sum of the terms that each(add) calls add(term) with, as `rounded` does.
template <typename Each>
double exact_sum(Format of, const Each& each) {
  auto sum_in = [&](auto sum) {
    each([&](double term) { sum.add(term); });
    return rounded(sum);
  };
  return of == kFloat64 ? sum_in(SumOfDoubles()) : sum_in(Expansion());
}

// Adds near + rest to a sum if they are such terms. Subnormal numbers would count as zeros.
SAMEBITS_INLINE bool add_pair(double near, double rest, Accumulator* sum) {
  sum->add(near);
  sum->add(rest);
  return true;
}
SAMEBITS_INLINE bool add_pair(double near, double rest, SumOfDoubles* sum) {
  for (double value : {near, rest})
    if (value != 0 && std::fabs(value) < 0x1p-1022) return false;
  sum->add(near);
  sum->add(rest);
  return true;
}

}  // namespace
}  // namespace samebits

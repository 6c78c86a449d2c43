// Exact sums of float64 and of products of two float64.
//
//     2**1000 * 2**1000, 1, -2**1000 * 2**1000      1, by to_nearest()
#pragma once

#include "numbers.h"

namespace samebits {
namespace {

// Terms are multiples of 2**-2148 and below 2**2048. Subnormal float64 count as zeros.
struct WideAccumulator : Digits<136, 2176> {
  // The exact product of two finite float64. This counts as two calls of `add`.
  SAMEBITS_INLINE void add_product(double a, double b) {
    const uint64_t of_a = bits_of(a), of_b = bits_of(b);
    const int field_a = static_cast<int>((of_a >> 52) & 0x7ff);
    const int field_b = static_cast<int>((of_b >> 52) & 0x7ff);
    if (field_a == 0 || field_b == 0) return;
    const unsigned __int128 product =
        static_cast<unsigned __int128>((of_a & 0xfffffffffffffull) | (1ull << 52)) *
        ((of_b & 0xfffffffffffffull) | (1ull << 52));
    const int shift = field_a + field_b - 2 * 1075 + kBias;
    const int64_t sign = static_cast<int64_t>(of_a ^ of_b) >> 63;
    add_word(static_cast<uint64_t>(product), shift, sign);
    add_word(static_cast<uint64_t>(product >> 64), shift + 64, sign);
  }

  // The product of any two float64, as IEEE 754 has it if a factor is not finite.
  void add_any_product(double a, double b) {
    if (is_finite(a) && is_finite(b)) return add_product(a, b);
    auto counted = [](double value) { return std::fabs(value) < 0x1p-1022 ? 0 : value; };
    add_special(counted(a) * counted(b));
  }
};

// The bits of an exact sum, rounded once to a format.
template <typename R, typename Sum>
SAMEBITS_INLINE typename R::Word rounded(const Sum& sum) {
  return R::narrow(sizeof(typename R::Word) == 8 ? sum.to_nearest() : sum.to_odd());
}

}  // namespace
}  // namespace samebits

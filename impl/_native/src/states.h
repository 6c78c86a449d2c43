// States of sums: the exact sum of all terms so far, to which calls add more
// (impl/_exact/unrounded/states.py has the format, and what rounds it).
//
//     sums [5, 7]     state u32[6, 5, 7]
#pragma once

#include <cstdint>
#include <cstring>

#include "calls.h"
#include "planes.h"

namespace samebits {

// An element is high + low, within slack: three arrays.
class States : Planes {
 public:
  using Words = xla::ffi::Buffer<xla::ffi::U32>;
  using Result = xla::ffi::ResultBuffer<xla::ffi::U32>;
  using Level = xla::ffi::Buffer<xla::ffi::S32>;
  static constexpr int64_t kPlanes = 6;

  States() = default;
  // Takes the states before a call to its result, which may have their memory.
  States(const Words& before, Result& after)
      : Planes(after->typed_data(), static_cast<int64_t>(after->element_count()) / kPlanes) {
    if (words_ != before.typed_data())
      std::memcpy(words_, before.typed_data(), before.size_bytes());
  }
  explicit operator bool() const { return words_ != nullptr; }
  int64_t count() const { return count_; }

  // Adds high + low, which is a sum within slack, to an element. An infinity or a NaN of `high` is
  // the sum.
  void add(int64_t at, double high, double low, double slack) const {
    double sum = get(0, at), middle = get(1, at);
    const double rest = two_sum(&sum, high);
    const double lost = two_sum(&middle, rest), more = two_sum(&middle, low);
    const bool has_sum = is_finite(sum);
    put(0, at, sum);
    put(1, at, has_sum ? middle : 0);
    put(2, at, has_sum ? get(2, at) + slack + (std::fabs(lost) + std::fabs(more)) : 0);
  }

  // The same of neighbours.
  void add(int64_t first, int64_t count, const double* high, const double* low,
           const double* slack) const {
    state_kernels().add(count, words_ + first, count_, high, low, slack);
  }

  // Adds the elements [first, last) of as many other states.
  void merge(int64_t first, int64_t last, const Planes& other) const {
    constexpr int64_t kBlock = 256;
    double parts[3][kBlock];
    for (; first < last; first += kBlock) {
      const int64_t count = last - first < kBlock ? last - first : kBlock;
      for (int64_t part = 0; part < 3; ++part)
        for (int64_t i = 0; i < count; ++i) parts[part][i] = other.get(part, first + i);
      add(first, count, parts[0], parts[1], parts[2]);
    }
  }

  // Adds a level of an exact sum: two of its digits (numbers.h), the highest ones at level 0.
  template <typename Sum = Accumulator>
  void add_level(int64_t at, int64_t level, const int64_t* digits) const {
    const int64_t last = Sum::kDigits - 2 * (level + 1);
    if (last < 0) return;
    const int unit = static_cast<int>(32 * last) - Sum::kBias;
    add(at, std::ldexp(static_cast<double>(digits[last + 1]), unit + 32),
        std::ldexp(static_cast<double>(digits[last]), unit), 0);
  }
};

}  // namespace samebits

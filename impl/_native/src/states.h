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
  // the sum. An infinite sum of finite terms counts as 0, within no bound.
  void add(int64_t at, double high, double low, double slack) const {
    add(at, 1, &high, &low, &slack);
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

  // The exponent of the unit of a level of exact sums of a kind: a level has 64 bits.
  template <typename Sum>
  static constexpr int unit(int64_t level) {
    return (Sum::kDigits > 24 ? 2048 : 256) - 64 * static_cast<int>(level + 1);
  }

  // Adds a level of an exact sum, by its digits (numbers.h): the sum as the nearest multiple of the
  // level's unit, less the one as a multiple of the unit before. Lower levels are at most a half.
  template <typename Sum>
  void add_level(int64_t at, int64_t level, const int64_t* digits) const {
    const int64_t last = (unit<Sum>(level) + Sum::kBias) / 32;
    // An infinity or a NaN has been decided.
    if (((digits[Sum::kDigits - 1] + (1ll << (Sum::kPlus - 1))) >> Sum::kPlus) != 0) return;
    auto half = [&](int64_t i) { return i > 0 ? (digits[i - 1] >> 31) & 1 : 0; };
    unsigned __int128 value = 0;
    const int64_t first = level == 0 ? Sum::kDigits - 1 : last + 1;
    for (int64_t i = first; i >= last; --i)
      value = (value << 32) + static_cast<unsigned __int128>(digits[i]);
    value += static_cast<unsigned __int128>(half(last));
    if (level > 0) value -= static_cast<unsigned __int128>(half(last + 2)) << 64;
    const auto whole = static_cast<__int128>(value);
    const auto high = static_cast<double>(whole);
    double rests = 0;
    for (int64_t i = 0; i < last; ++i)
      if (digits[i] != 0) rests = 1;
    add(at, high, static_cast<double>(whole - static_cast<__int128>(high)), rests);
  }
};

}  // namespace samebits

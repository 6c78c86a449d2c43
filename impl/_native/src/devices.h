// What a device sends of sums that several devices share (devices.py).
#pragma once

#include <algorithm>
#include <cstdint>

#include "formats.h"

namespace samebits {

// The approximate sums of a device and bounds of their errors. A bound is float32, in units of
// 2**-40: one of a sum of 2**128 is finite, and the least one is below half the last bit of any
// result. The devices add 2**12 bounds with a relative error of 2**-12 at most, for which each of
// them is greater by 2**-10.
struct Bounds {
  static constexpr double kErrorUnit = 0x1p-40;
  static constexpr double kFactor = (1 + 0x1p-10) / kErrorUnit;
  static constexpr double kLeast = 0x1p-126;

  double* sums = nullptr;
  float* errors = nullptr;
  int64_t parts = 1;  // the devices whose sums are added afterwards

  Bounds() = default;
  // Takes arrays of XLA, of float64 and of float32. They have an equal share for each device: up to
  // parts - 1 zeros follow the results.
  template <typename Sums, typename Errors>
  Bounds(Sums& of_sums, Errors& of_errors, int64_t of_parts)
      : sums(of_sums->typed_data()), errors(of_errors->typed_data()), parts(of_parts) {
    const int64_t count = static_cast<int64_t>(of_sums->element_count());
    for (int64_t i = std::max<int64_t>(0, count - parts); i < count; ++i) put(i, 0, 0);
  }

  static float sent(double error) {
    return error == 0 ? 0 : static_cast<float>(std::max(error * kFactor, kLeast));
  }
  void put(int64_t at, double sum, double error) const {
    sums[at] = sum;
    errors[at] = sent(error);
  }
};

}  // namespace samebits

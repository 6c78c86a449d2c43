// Arrays of float64 that a program without 64 bits carries, and the kernel of states of sums.
#pragma once

#include <cstdint>

#include "numbers.h"
#include "vectors.h"

namespace samebits {

struct StateKernels {
  // Adds high + low within slack to `count` elements, whose planes are `plane` apart.
  void (*add)(int64_t count, uint32_t* words, int64_t plane, const double* high, const double* low,
              const double* slack);
};
SAMEBITS_KERNELS(StateKernels, state_kernels)

// Arrays of float64 as planes of 32 bits: the upper halves of the first array, its lower halves,
// and so on.
class Planes {
 public:
  Planes() = default;
  Planes(uint32_t* words, int64_t count) : words_(words), count_(count) {}

  double get(int64_t array, int64_t at) const {
    const uint32_t* upper = words_ + 2 * array * count_ + at;
    return double_of(static_cast<uint64_t>(upper[0]) << 32 | upper[count_]);
  }
  void put(int64_t array, int64_t at, double value) const {
    uint32_t* upper = words_ + 2 * array * count_ + at;
    upper[0] = static_cast<uint32_t>(bits_of(value) >> 32);
    upper[count_] = static_cast<uint32_t>(bits_of(value));
  }

 protected:
  uint32_t* words_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace samebits

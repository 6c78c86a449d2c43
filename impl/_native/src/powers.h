// Powers: what the call and its kernels share.
#pragma once

#include <cstdint>

#include "sums.h"

namespace samebits {

// Computes the powers of elements [first, last), in a `Flushing` scope. The exponents have the
// format of the bases, or are integers.
using Raise = void (*)(const void* bases, const void* exponents, int64_t first, int64_t last,
                       void* out);

struct PowerKernels {
  Raise to_floats[kFormats], to_ints[kFormats], to_longs[kFormats];
};
SAMEBITS_KERNELS(PowerKernels, power_kernels)

}  // namespace samebits

// The formats of the arrays that the library has. Kernels include this without XLA's header, which
// takes the compiler a second.
#pragma once

#include <cstdint>

#include "numbers.h"

namespace samebits {

// The formats of terms and results, in the order of the tables of kernels.
enum Format : int { kFloat32, kBFloat16, kFloat16, kFloat64, kFormats };

inline int64_t bytes_of(Format format) {
  return format == kFloat64 ? 8 : format == kFloat32 ? 4 : 2;
}

namespace {

// Returns visit(Float32()), or that of another format, which is not kFormats.
template <typename Visit>
auto with_format(Format format, const Visit& visit) {
  if (format == kFloat32) return visit(Float32());
  if (format == kBFloat16) return visit(BFloat16());
  if (format == kFloat64) return visit(Float64());
  return visit(Float16());
}

}  // namespace
}  // namespace samebits

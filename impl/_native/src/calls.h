// The calls that XLA finds in the library, and the formats of the arrays that they take.
#pragma once

#include <cstdint>

#include "numbers.h"
#include "xla/ffi/api/ffi.h"

// Defines a call of the library, which hides every other symbol.
#define SAMEBITS_CALL(name, function, binding)                                               \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* name(XLA_FFI_CallFrame*); \
  XLA_FFI_DEFINE_HANDLER_SYMBOL(name, function, binding)

namespace samebits {

// The formats of terms and results, in the order of the tables of kernels.
enum Format : int { kFloat32, kBFloat16, kFloat16, kFormats };

// Returns the format of an array, or kFormats if the library has no such arrays.
inline Format format_of(const xla::ffi::AnyBuffer& buffer) {
  switch (buffer.element_type()) {
    case xla::ffi::DataType::F32: return kFloat32;
    case xla::ffi::DataType::BF16: return kBFloat16;
    case xla::ffi::DataType::F16: return kFloat16;
    default: return kFormats;
  }
}
inline int64_t bytes_of(Format format) { return format == kFloat32 ? 4 : 2; }

namespace {

// Returns visit(Float32()), or that of another format, which is not kFormats.
template <typename Visit>
auto with_format(Format format, const Visit& visit) {
  if (format == kFloat32) return visit(Float32());
  if (format == kBFloat16) return visit(BFloat16());
  return visit(Float16());
}

}  // namespace
}  // namespace samebits

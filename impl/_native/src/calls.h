// The calls that XLA finds in the library, and the formats of their arrays.
#pragma once

#include "formats.h"
#include "threads.h"
#include "xla/ffi/api/ffi.h"

// Defines a call of the library, which hides every other symbol.
#define SAMEBITS_CALL(name, function, binding)                                                      \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* name(XLA_FFI_CallFrame* frame) { \
    XLA_FFI_DEFINE_HANDLER(handler, function, binding);                                             \
    { samebits::Ordered after_earlier_calls; }                                                      \
    XLA_FFI_Error* error = (*handler)(frame);                                                       \
    samebits::Ordered before_later_calls;                                                           \
    return error;                                                                                   \
  }                                                                                                 \
  static_assert(true, "a semicolon follows")

namespace samebits {

// The sums of devices and bounds of their errors (devices.h).
using SumsOfDevices = xla::ffi::ResultBuffer<xla::ffi::F64>;
using ErrorsOfDevices = xla::ffi::ResultBuffer<xla::ffi::F32>;

// Returns the format of an array, or kFormats if the library has no such arrays.
inline Format format_of(const xla::ffi::AnyBuffer& buffer) {
  switch (buffer.element_type()) {
    case xla::ffi::DataType::F32: return kFloat32;
    case xla::ffi::DataType::BF16: return kBFloat16;
    case xla::ffi::DataType::F16: return kFloat16;
    case xla::ffi::DataType::F64: return kFloat64;
    default: return kFormats;
  }
}

}  // namespace samebits

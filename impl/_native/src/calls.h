// The calls that XLA finds in the library, and the formats of their arrays.
#pragma once

#include "formats.h"
#include "threads.h"
#include "xla/ffi/api/ffi.h"

// Defines a call of the library, which hides every other symbol. Small arrays have a way of their
// own: few(frame) returns whether it computed the results.
#define SAMEBITS_CALL_WITH(few, name, function, binding)                                            \
  extern "C" __attribute__((visibility("default"))) XLA_FFI_Error* name(XLA_FFI_CallFrame* frame) { \
    XLA_FFI_DEFINE_HANDLER(handler, function, binding);                                             \
    { samebits::Ordered after_earlier_calls; }                                                      \
    XLA_FFI_Error* error = few(samebits::Frame{frame}) ? nullptr : (*handler)(frame);               \
    samebits::Ordered before_later_calls;                                                           \
    return error;                                                                                   \
  }                                                                                                 \
  static_assert(true, "a semicolon follows")
#define SAMEBITS_CALL(name, function, binding) \
  SAMEBITS_CALL_WITH([](auto) { return false; }, name, function, binding)

namespace samebits {

// A call as XLA has it. Decoding it by the names of attributes takes as long as a small operation.
struct Frame {
  const XLA_FFI_CallFrame* frame;

  // Whether an operation is to run that has as many results and attributes. XLA asks for other
  // things too.
  bool runs(int64_t results, int64_t attributes) const {
    return frame->extension_start == nullptr &&
           frame->stage == XLA_FFI_ExecutionStage_EXECUTE && frame->rets.size == results &&
           frame->attrs.size == attributes;
  }
  int64_t operands() const { return frame->args.size; }
  xla::ffi::AnyBuffer operand(int64_t i) const { return buffer(frame->args.args[i]); }
  xla::ffi::AnyBuffer result(int64_t i) const { return buffer(frame->rets.rets[i]); }
  // The attributes are in the order of their names.
  template <typename T>
  xla::ffi::Span<const T> array(int64_t i) const {
    const auto* of = static_cast<const XLA_FFI_Array*>(frame->attrs.attrs[i]);
    return {static_cast<const T*>(of->data), of->size};
  }
  template <typename T>
  T number(int64_t i) const {
    return *static_cast<const T*>(static_cast<const XLA_FFI_Scalar*>(frame->attrs.attrs[i])->value);
  }

 private:
  static xla::ffi::AnyBuffer buffer(void* of) {
    return xla::ffi::AnyBuffer(static_cast<const XLA_FFI_Buffer*>(of));
  }
};

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

// The calls by which devices that share sums add them exactly (devices.py).
//
//     samebits_decide    sums and bounds of their errors   results, and positions of those in doubt
//     samebits_finish    digits of exact sums              results at these positions
#include <cstdint>
#include <cstring>

#include "calls.h"
#include "numbers.h"
#include "threads.h"
#include "xla/ffi/api/ffi.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;
using Wide = ffi::Buffer<ffi::F64>;
using Longs = ffi::Buffer<ffi::S64>;

// Calls work with the format of an array; returns an error for an array that the engine lacks.
template <typename Work>
ffi::Error rounding_to(const ffi::AnyBuffer& results, const Work& work) {
  const Format format = format_of(results);
  if (format == kFormats)
    return ffi::Error::InvalidArgument("samebits: results are float16, bfloat16 or float32");
  with_format(format, work);
  return ffi::Error::Success();
}

// Rounds sums, and lists the positions of those in doubt from *first on. After the last one, the
// list has -1. *after becomes the position of the next one in doubt, or -1.
template <typename R>
void decide(const Wide& sums, const Wide& errors, int64_t first, typename R::Word* results,
            ffi::ResultBuffer<ffi::S64>& positions, int64_t* after) {
  Ieee scope;
  const double* sum = sums.typed_data();
  const double* error = errors.typed_data();
  const int64_t count = static_cast<int64_t>(sums.element_count());
  const int64_t capacity = static_cast<int64_t>(positions->element_count());
  int64_t* position = positions->typed_data();
  int64_t listed = 0;
  *after = -1;
  for (int64_t i = 0; i < count; ++i) {
    if (is_decided<R>(sum[i], error[i], &results[i]) || first < 0 || i < first) continue;
    if (listed < capacity) {
      position[listed++] = i;
    } else if (*after < 0) {
      *after = i;
    }
  }
  for (; listed < capacity; ++listed) position[listed] = -1;
}

ffi::Error run_decide(Wide sums, Wide errors, Longs first, ffi::Result<ffi::AnyBuffer> results,
                      ffi::ResultBuffer<ffi::S64> positions, ffi::ResultBuffer<ffi::S64> after) {
  return rounding_to(*results, [&](auto format) {
    using R = decltype(format);
    decide<R>(sums, errors, first.typed_data()[0],
              static_cast<typename R::Word*>(results->untyped_data()), positions,
              after->typed_data());
  });
}

// Rounds the exact sums of digits to the results at positions.
ffi::Error run_finish(ffi::AnyBuffer results, Longs positions, Longs digits,
                      ffi::Result<ffi::AnyBuffer> out) {
  if (out->untyped_data() != results.untyped_data())
    std::memcpy(out->untyped_data(), results.untyped_data(), results.size_bytes());
  return rounding_to(results, [&](auto format) {
    using R = decltype(format);
    Ieee scope;
    auto* word = static_cast<typename R::Word*>(out->untyped_data());
    const int64_t* position = positions.typed_data();
    const int64_t count = static_cast<int64_t>(positions.element_count());
    for (int64_t i = 0; i < count && position[i] >= 0; ++i) {
      Accumulator sum;
      std::memcpy(sum.digit, digits.typed_data() + i * Accumulator::kDigits, sizeof sum.digit);
      word[position[i]] = R::narrow(sum.to_odd());
    }
  });
}

}  // namespace
}  // namespace samebits

SAMEBITS_CALL(samebits_decide, samebits::run_decide,
              xla::ffi::Ffi::Bind()
                  .Arg<xla::ffi::Buffer<xla::ffi::F64>>()
                  .Arg<xla::ffi::Buffer<xla::ffi::F64>>()
                  .Arg<xla::ffi::Buffer<xla::ffi::S64>>()
                  .Ret<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::Buffer<xla::ffi::S64>>()
                  .Ret<xla::ffi::Buffer<xla::ffi::S64>>());
SAMEBITS_CALL(samebits_finish, samebits::run_finish,
              xla::ffi::Ffi::Bind()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::Buffer<xla::ffi::S64>>()
                  .Arg<xla::ffi::Buffer<xla::ffi::S64>>()
                  .Ret<xla::ffi::AnyBuffer>());

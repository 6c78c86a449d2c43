// The call that raises floats to powers, element by element.

#include "powers.h"

#include <algorithm>

#include "threads.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;

// Fewer powers are computed by one thread: they take a tenth of a millisecond.
constexpr int64_t kFewestPowers = 10'000;

// Returns the kernel for the format of bases, or null if exponents have another type.
Raise kernel_for(const ffi::AnyBuffer& exponents, Format format) {
  const PowerKernels& kernels = power_kernels();
  if (exponents.element_type() == ffi::DataType::S32) return kernels.to_ints[format];
  if (exponents.element_type() == ffi::DataType::S64) return kernels.to_longs[format];
  return format_of(exponents) == format ? kernels.to_floats[format] : nullptr;
}

ffi::Error raise_all(ffi::ThreadPool pool, ffi::AnyBuffer bases, ffi::AnyBuffer exponents,
                     ffi::Result<ffi::AnyBuffer> result) {
  const Format format = format_of(*result);
  if (format == kFormats || format_of(bases) != format)
    return ffi::Error::InvalidArgument("samebits: no such powers are compiled");
  const Raise raise = kernel_for(exponents, format);
  if (raise == nullptr)
    return ffi::Error::InvalidArgument("samebits: no such exponents are compiled");
  const size_t size = result->element_count();
  if (bases.element_count() != size || exponents.element_count() != size)
    return ffi::Error::InvalidArgument("samebits: powers of arrays of different sizes");
  const int64_t count = static_cast<int64_t>(size);
  const int64_t threads = threads_of(pool, count < kFewestPowers);
  each_part(pool, threads, parts_of(count, kTile), [&](int64_t from, int64_t to) {
    Flushing scope;
    raise(bases.untyped_data(), exponents.untyped_data(), from * kTile,
          std::min(count, to * kTile), result->untyped_data());
  });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace samebits

SAMEBITS_CALL(samebits_pow, samebits::raise_all,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::AnyBuffer>());

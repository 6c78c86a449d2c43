// The call that adds a few arrays element by element: the parts of a derivative.

#include <algorithm>

#include "calls.h"
#include "running.h"
#include "threads.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;

constexpr size_t kMostParts = 256;

void add_exactly(const void* const* parts, int64_t count, Format format, int64_t at, void* out) {
  const double sum = exact_sum(format, [&](const auto& add) {
    for (int64_t part = 0; part < count; ++part) add(element(parts[part], format, at));
  });
  with_format(format, [&](auto to) {
    using R = decltype(to);
    static_cast<typename R::Word*>(out)[at] = R::narrow(sum);
  });
}

ffi::Error add_parts(ffi::ThreadPool pool, ffi::RemainingArgs terms,
                     ffi::Result<ffi::AnyBuffer> result) {
  const Format format = format_of(*result);
  const int64_t count = static_cast<int64_t>(terms.size());
  if (format == kFormats || terms.size() > kMostParts || count == 0)
    return ffi::Error::InvalidArgument("samebits: no such sum of parts is compiled");
  const int64_t size = static_cast<int64_t>(result->element_count());
  const void* parts[kMostParts];
  for (int64_t part = 0; part < count; ++part) {
    auto term = terms.get<ffi::AnyBuffer>(part);
    if (!term.has_value() || format_of(*term) != format ||
        static_cast<int64_t>(term->element_count()) != size)
      return ffi::Error::InvalidArgument("samebits: parts of different shapes or types");
    parts[part] = term->untyped_data();
  }
  void* out = result->untyped_data();
  const AddParts add = parts_kernels().add[format];
  const int64_t threads = threads_of(pool, count * size < kFewestTerms);
  each_part(pool, threads, parts_of(size, kTile), [&](int64_t from, int64_t to) {
    uint8_t in_doubt[kTile];
    for (int64_t tile = from; tile < to; ++tile) {
      const int64_t first = tile * kTile, last = std::min(size, first + kTile);
      bool has_doubts;
      {
        Flushing scope(format);
        has_doubts = add(parts, count, first, last, out, in_doubt);
      }
      for (int64_t i = first; has_doubts && i < last; ++i) {
        if (in_doubt[i - first]) add_exactly(parts, count, format, i, out);
      }
    }
  });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace samebits

SAMEBITS_CALL(samebits_parts, samebits::add_parts,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .RemainingArgs()
                  .Ret<xla::ffi::AnyBuffer>());

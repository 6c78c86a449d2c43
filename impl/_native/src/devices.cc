// The calls by which devices that share sums add them exactly (devices.py).
//
//     samebits_decide       sums and bounds of their errors     results, and a list of doubts
//     samebits_positions    the lists of all devices            positions in the whole result
//     samebits_finish       digits of the sums on a list        their results, and the next list
//     samebits_round        digits of all sums                  results
//
// A list has the positions of results in doubt, and -1 after the last one.
#include "devices.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "calls.h"
#include "numbers.h"
#include "products.h"
#include "states.h"
#include "sums.h"
#include "terms.h"
#include "threads.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;
// Float64, or states of sums of float64 (states.h) without `Errors`.
using Sums = ffi::AnyBuffer;
using Errors = ffi::Buffer<ffi::F32>;
using Integers = ffi::Buffer<ffi::S64>;
using List = ffi::ResultBuffer<ffi::S64>;

// Rounds states of sums, as `round` of ProductKernels does sums.
int64_t round_states(const Planes& states, int64_t at, int64_t count, void* words,
                     int32_t* doubts) {
  Tile tile;
  uint8_t in_doubt[kTile] = {};
  for (int64_t i = 0; i < count; ++i) {
    tile.near[i] = states.get(0, at + i);
    tile.rest[i] = states.get(1, at + i);
    // A sum that is not finite on the way may be finite.
    tile.error[i] = is_finite(tile.near[i]) ? states.get(2, at + i) : NAN;
  }
  int64_t number = 0;
  if (!sum_kernels().decide[kFloat64](tile, 0, count, 1, words, in_doubt)) return 0;
  for (int64_t i = 0; i < count; ++i)
    if (in_doubt[i]) doubts[number++] = static_cast<int32_t>(i);
  return number;
}

int64_t number_of(const Sums& sums) {
  const int64_t count = static_cast<int64_t>(sums.element_count());
  return sums.element_type() == ffi::DataType::U32 ? count / States::kPlanes : count;
}

// Rounds sums from `first` on to `results`, and lists those in doubt until the list is full.
// `until_full` says that the results after the last one on the list are rounded already.
ffi::Error decide(const Sums& sums, const Errors& errors, int64_t first, bool until_full,
                  ffi::AnyBuffer results, List& list) {
  const Format format = format_of(results);
  const int64_t count = number_of(sums);
  const bool are_states = sums.element_type() == ffi::DataType::U32;
  if (format == kFormats || are_states != (format == kFloat64) ||
      (!are_states && (sums.element_type() != ffi::DataType::F64 ||
                       static_cast<int64_t>(errors.element_count()) != count)) ||
      static_cast<int64_t>(results.element_count()) != count)
    return ffi::Error::InvalidArgument("samebits: the sums do not fit the results");
  Ieee scope;
  int64_t* position = list->typed_data();
  int64_t* const end = position + list->element_count();
  char* words = static_cast<char*>(results.untyped_data());
  const Planes states(static_cast<uint32_t*>(sums.untyped_data()), count);
  constexpr int64_t kBlock = kTile;
  double bounds[kBlock];
  int32_t doubts[kBlock];
  for (int64_t at = first; at < count && !(until_full && position == end); at += kBlock) {
    const int64_t n = std::min(kBlock, count - at);
    char* of_block = words + at * bytes_of(format);
    int64_t number;
    if (are_states) {
      number = round_states(states, at, n, of_block, doubts);
    } else {
      for (int64_t i = 0; i < n; ++i)
        bounds[i] = static_cast<double>(errors.typed_data()[at + i]) * Bounds::kErrorUnit;
      number = product_kernels().round[format](
          n, static_cast<const double*>(sums.untyped_data()) + at, bounds, 1, of_block, doubts);
    }
    for (int64_t i = 0; i < number && position < end; ++i) *position++ = at + doubts[i];
  }
  std::fill(position, end, -1);
  return ffi::Error::Success();
}

ffi::Error run_decide(Sums sums, Errors errors, ffi::Result<ffi::AnyBuffer> results, List list) {
  return decide(sums, errors, 0, false, *results, list);
}

// Makes the positions of the lists of `parts` devices, each in the device's `share` of the whole
// result, positions in the whole. Writes whether there is any.
ffi::Error run_positions(Integers lists, List positions, ffi::ResultBuffer<ffi::PRED> is_any,
                         int64_t parts, int64_t share) {
  const int64_t count = static_cast<int64_t>(lists.element_count());
  if (parts < 1 || count % parts != 0)
    return ffi::Error::InvalidArgument("samebits: the lists are not equally long");
  const int64_t* from = lists.typed_data();
  int64_t* to = positions->typed_data();
  bool& any = is_any->typed_data()[0];
  any = false;
  for (int64_t i = 0; i < count; ++i) {
    any |= from[i] >= 0;
    to[i] = from[i] < 0 ? -1 : i / (count / parts) * share + from[i];
  }
  return ffi::Error::Success();
}

// Rounds exact sums to the results at positions; `position` is null for all of them.
ffi::Error round(const Integers& digits, const int64_t* position, ffi::AnyBuffer results) {
  const Format format = format_of(results);
  if (format == kFormats) return ffi::Error::InvalidArgument("samebits: no such results");
  with_format(format, [&](auto to) {
    using R = decltype(to);
    Ieee scope;
    auto* word = static_cast<typename R::Word*>(results.untyped_data());
    using Sum = AccumulatorOf<std::conditional_t<std::is_same_v<R, Float64>, double, float>>;
    const int64_t count = static_cast<int64_t>(digits.element_count()) / Sum::kDigits;
    for (int64_t i = 0; i < count && (position == nullptr || position[i] >= 0); ++i) {
      Sum sum;
      std::memcpy(sum.digit, digits.typed_data() + i * Sum::kDigits, sizeof sum.digit);
      word[position == nullptr ? i : position[i]] = R::narrow(samebits::rounded(sum));
    }
  });
  return ffi::Error::Success();
}

ffi::Error run_finish(ffi::AnyBuffer results, Integers list, Integers digits, Sums sums, Errors errors,
                      ffi::Result<ffi::AnyBuffer> out, List next) {
  if (out->untyped_data() != results.untyped_data())
    std::memcpy(out->untyped_data(), results.untyped_data(), results.size_bytes());
  const int64_t length = static_cast<int64_t>(list.element_count());
  ffi::Error error = round(digits, list.typed_data(), *out);
  if (error.failure()) return error;
  const int64_t last = length > 0 ? list.typed_data()[length - 1] : -1;
  const int64_t count = number_of(sums);
  return decide(sums, errors, last < 0 ? count : last + 1, true, *out, next);
}

ffi::Error run_round(Integers digits, ffi::Result<ffi::AnyBuffer> results) {
  return round(digits, nullptr, *results);
}

}  // namespace
}  // namespace samebits

SAMEBITS_CALL(samebits_decide, samebits::run_decide,
              xla::ffi::Ffi::Bind()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::Buffer<xla::ffi::F32>>()
                  .Ret<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::Buffer<xla::ffi::S64>>());
SAMEBITS_CALL(samebits_positions, samebits::run_positions,
              xla::ffi::Ffi::Bind()
                  .Arg<xla::ffi::Buffer<xla::ffi::S64>>()
                  .Ret<xla::ffi::Buffer<xla::ffi::S64>>()
                  .Ret<xla::ffi::Buffer<xla::ffi::PRED>>()
                  .Attr<int64_t>("parts")
                  .Attr<int64_t>("share"));
SAMEBITS_CALL(samebits_finish, samebits::run_finish,
              xla::ffi::Ffi::Bind()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::Buffer<xla::ffi::S64>>()
                  .Arg<xla::ffi::Buffer<xla::ffi::S64>>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::Buffer<xla::ffi::F32>>()
                  .Ret<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::Buffer<xla::ffi::S64>>());
SAMEBITS_CALL(samebits_round, samebits::run_round,
              xla::ffi::Ffi::Bind()
                  .Arg<xla::ffi::Buffer<xla::ffi::S64>>()
                  .Ret<xla::ffi::AnyBuffer>());

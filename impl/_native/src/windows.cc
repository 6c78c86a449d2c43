// The calls of sums over windows, and of the gradient of a max pool or a min pool.
//
// Windows are summed row by row along the innermost axis, tap by tap. So are elements, which take
// the cotangents of the windows that chose them:
//
//     windows of 2 over a b c d    tap 0: a b c    tap 1: b c d    sums: a+b b+c c+d

#include "windows.h"

#include "expansion.h"
#include "threads.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;

constexpr int64_t kFewestTerms = 50'000;

double term_of(const void* x, Format format, int64_t at) {
  switch (format) {
    case kFloat32: return widen(static_cast<const float*>(x)[at]);
    case kBFloat16: return widen(static_cast<const bfloat16*>(x)[at]);
    default: return widen(static_cast<const float16*>(x)[at]);
  }
}

const char* at_element(const void* x, Format format, int64_t at) {
  return static_cast<const char*>(x) + at * bytes_of(format);
}

// Rounds the sums of a tile to `out`; asks exactly(i) for the expansion of one in doubt.
template <typename Exactly>
void round_tile(Tile* tile, int64_t count, Format to, void* out, const Exactly& exactly) {
  uint8_t in_doubt[kTile];
  const Decide decide = sum_kernels().decide[to];
  if (!decide(*tile, 0, count, 1, out, in_doubt)) return;
  for (int64_t i = 0; i < count; ++i) {
    if (!in_doubt[i]) continue;
    tile->near[i] = exactly(i).to_odd();
    tile->rest[i] = tile->error[i] = 0;
    decide(*tile, i, i + 1, 1, out, in_doubt);
  }
}

// Calls work(first, last) for parts of `rows`, which have `terms` in all.
template <typename Work>
void each_part(ffi::ThreadPool& pool, int64_t rows, double terms, const Work& work) {
  const int64_t threads = terms < kFewestTerms ? 1 : std::max<int64_t>(1, pool.num_threads());
  const int64_t tasks = threads == 1 ? std::min<int64_t>(1, rows) : std::min(rows, 8 * threads);
  parallel(pool, tasks, [&](int64_t task) { work(rows * task / tasks, rows * (task + 1) / tasks); });
}

std::vector<Progression> progressions(const WindowAxis& axis) {
  std::vector<Progression> taps(static_cast<size_t>(axis.window));
  for (int64_t tap = 0; tap < axis.window; ++tap) taps[tap] = axis.at(tap);
  return taps;
}

// The exact sum of a window of a row of windows.
Expansion window_sum(const Windows& windows, const void* x, Format format, int64_t row,
                     int64_t output) {
  const WindowAxis& inner = windows.inner();
  Expansion sum;
  windows.each_row(row, [&](int64_t of_array, int64_t) {
    for (int64_t tap = 0; tap < inner.window; ++tap) {
      const int64_t element = inner.element(output, tap);
      if (element >= 0) sum.add(term_of(x, format, of_array * inner.size + element));
    }
  });
  return sum;
}

ffi::Error window(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> result,
                  ffi::Span<const int64_t> axes) {
  const Format format = format_of(x), to = format_of(*result);
  if (format == kFormats || to == kFormats || !Windows::has(axes))
    return ffi::Error::InvalidArgument("samebits: no such sum over windows is compiled");
  const Windows windows(axes);
  if (static_cast<int64_t>(x.element_count()) != windows.elements() ||
      static_cast<int64_t>(result->element_count()) != windows.outputs())
    return ffi::Error::InvalidArgument("samebits: the windows do not fit the arrays");
  const WindowAxis& inner = windows.inner();
  const std::vector<Progression> taps = progressions(inner);
  const AddSpread add = window_kernels().add[format];
  const void* data = x.untyped_data();
  // A part of a row of windows has kTile windows.
  const int64_t tiles = (inner.outputs + kTile - 1) / kTile;
  const double terms = static_cast<double>(windows.outputs()) * static_cast<double>(windows.taps());
  each_part(pool, windows.outputs() / inner.outputs * tiles, terms, [&](int64_t begin, int64_t end) {
    Tile tile;
    for (int64_t part = begin; part < end; ++part) {
      const int64_t row = part / tiles, first = part % tiles * kTile;
      const int64_t count = std::min(kTile, inner.outputs - first);
      tile.clear(count);
      {
        Flushing scope;
        windows.each_row(row, [&](int64_t of_array, int64_t) {
          for (const Progression& all : taps) {
            const Progression tap = all.outputs_in(first, first + count);
            if (tap.count > 0)
              add(at_element(data, format, of_array * inner.size + tap.element), tap.count,
                  tap.step, tap.output, tap.apart, &tile);
          }
        });
      }
      const int64_t place = row * inner.outputs + first;
      round_tile(&tile, count, to,
                 static_cast<char*>(result->untyped_data()) + place * bytes_of(to),
                 [&](int64_t i) { return window_sum(windows, data, format, row, first + i); });
    }
  });
  return ffi::Error::Success();
}

// The gradient of a pool. Axis 0 is cut into parts, whose windows choose first.
struct Pool {
  Windows windows;
  const void* source;
  const void* operand;
  Format of_source, of_operand;
  bool greatest;
  std::vector<Progression> taps;

  // Writes the choices of the rows of windows [first, last), one row after another.
  void choose(int64_t first, int64_t last, int32_t* choices) const {
    const WindowAxis& inner = windows.inner();
    const Offer offer = window_kernels().offer[of_operand];
    Choices part;
    for (int64_t row = first; row < last; ++row) {
      for (int64_t begin = 0; begin < inner.outputs; begin += kTile) {
        const int64_t count = std::min(kTile, inner.outputs - begin);
        part.tap = choices + (row - first) * inner.outputs + begin;
        std::memset(part.best, 0, sizeof(float) * count);
        std::memset(part.tap, -1, sizeof(int32_t) * count);
        windows.each_row(row, [&](int64_t of_array, int64_t outer_tap) {
          for (int64_t i = 0; i < inner.window; ++i) {
            const Progression tap = taps[i].outputs_in(begin, begin + count);
            if (tap.count > 0)
              offer(at_element(operand, of_operand, of_array * inner.size + tap.element),
                    tap.count, tap.step, tap.output, tap.apart,
                    static_cast<int32_t>(outer_tap * inner.window + i), greatest, &part);
          }
        });
      }
    }
  }

  // The gradient of the rows of elements [first, last). The choices are those of the rows of
  // windows from `start` on.
  void add(int64_t first, int64_t last, int64_t start, const int32_t* choices, Format to,
           void* out) const {
    const WindowAxis& inner = windows.inner();
    const AddChosen add_chosen = window_kernels().add_chosen[of_source];
    Tile tile;
    // Calls visit(place in source, its choices, tap, progression) for elements [begin, end) of a row.
    auto each_tap = [&](int64_t row, int64_t begin, int64_t end, const auto& visit) {
      windows.each_row_of_windows(row, [&](int64_t of_windows, int64_t outer_tap) {
        for (int64_t i = 0; i < inner.window; ++i) {
          const Progression tap = taps[i].elements_in(begin, end);
          if (tap.count == 0) continue;
          visit(of_windows * inner.outputs + tap.output,
                choices + (of_windows - start) * inner.outputs + tap.output,
                static_cast<int32_t>(outer_tap * inner.window + i), tap);
        }
      });
    };
    for (int64_t row = first; row < last; ++row) {
      for (int64_t begin = 0; begin < inner.size; begin += kTile) {
        const int64_t count = std::min(kTile, inner.size - begin);
        tile.clear(count);
        {
          Flushing scope;
          each_tap(row, begin, begin + count,
                   [&](int64_t place, const int32_t* chosen, int32_t number,
                       const Progression& tap) {
                     add_chosen(at_element(source, of_source, place), chosen, number, tap.count,
                                tap.element, tap.step, &tile);
                   });
        }
        auto exactly = [&](int64_t i) {
          Expansion sum;
          each_tap(row, begin + i, begin + i + 1,
                   [&](int64_t place, const int32_t* chosen, int32_t number, const Progression&) {
                     if (*chosen == number) sum.add(term_of(source, of_source, place));
                   });
          return sum;
        };
        const int64_t place = (row * inner.size + begin) * bytes_of(to);
        round_tile(&tile, count, to, static_cast<char*>(out) + place, exactly);
      }
    }
  }
};

ffi::Error pool_gradient(ffi::ThreadPool pool, ffi::AnyBuffer source, ffi::AnyBuffer operand,
                         ffi::Result<ffi::AnyBuffer> result, ffi::Span<const int64_t> axes,
                         bool greatest) {
  const Format to = format_of(*result);
  if (format_of(source) == kFormats || format_of(operand) == kFormats || to == kFormats ||
      !Windows::has(axes))
    return ffi::Error::InvalidArgument("samebits: no such gradient of a pool is compiled");
  const Windows windows(axes);
  if (static_cast<int64_t>(source.element_count()) != windows.outputs() ||
      static_cast<int64_t>(operand.element_count()) != windows.elements() ||
      static_cast<int64_t>(result->element_count()) != windows.elements() ||
      windows.taps() > INT32_MAX || windows.rank < 2)
    return ffi::Error::InvalidArgument("samebits: the windows do not fit the arrays");
  const Pool gradient = {windows,          source.untyped_data(), operand.untyped_data(),
                         format_of(source), format_of(operand),   greatest,
                         progressions(windows.inner())};
  const WindowAxis& outer = windows.axis[0];
  // The rows of an element of axis 0, and of a window along it.
  const int64_t rows = windows.elements(1) / windows.inner().size;
  const int64_t rows_of_windows = windows.outputs(1) / windows.inner().outputs;
  const double terms =
      static_cast<double>(windows.outputs()) * static_cast<double>(windows.taps());
  each_part(pool, outer.size, terms, [&](int64_t begin, int64_t end) {
    // The choices of at most kMostChoices windows lie in memory, or of those of one element.
    constexpr int64_t kMostChoices = 1 << 18;
    const int64_t together = std::max<int64_t>(
        1, kMostChoices / std::max<int64_t>(1, windows.outputs(1)) * outer.stride);
    std::vector<int32_t> choices;
    for (int64_t first = begin; first < end; first += together) {
      const int64_t last = std::min(end, first + together);
      // Windows that have elements from `first` on, and those that start before `last`.
      const int64_t reach = first + outer.low - (outer.window - 1);
      const int64_t start = reach <= 0 ? 0 : (reach + outer.stride - 1) / outer.stride;
      const int64_t ends = last - 1 + outer.low;
      const int64_t stop = ends < 0 ? 0 : std::min(outer.outputs, ends / outer.stride + 1);
      if (stop > start) {
        choices.resize(static_cast<size_t>((stop - start) * windows.outputs(1)));
        gradient.choose(start * rows_of_windows, stop * rows_of_windows, choices.data());
      }
      gradient.add(first * rows, last * rows, start * rows_of_windows, choices.data(), to,
                   result->untyped_data());
    }
  });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace samebits

SAMEBITS_CALL(samebits_window, samebits::window,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::AnyBuffer>()
                  .Attr<xla::ffi::Span<const int64_t>>("axes"));
SAMEBITS_CALL(samebits_pool_gradient, samebits::pool_gradient,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::AnyBuffer>()
                  .Attr<xla::ffi::Span<const int64_t>>("axes")
                  .Attr<bool>("greatest"));

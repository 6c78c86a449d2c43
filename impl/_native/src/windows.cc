// The calls of sums over windows, of max pools and min pools, and of their gradient.
//
// Windows are summed row by row along the innermost axis, tap by tap. So are elements, which take
// the cotangents of the windows that chose them:
//
//     windows of 2 over a b c d    tap 0: a b c    tap 1: b c d    sums: a+b b+c c+d

#include "windows.h"

#include "calls.h"
#include "terms.h"
#include "threads.h"
#include "windows_grid.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;

const char* at_element(const void* x, Format format, int64_t at) {
  return static_cast<const char*>(x) + at * bytes_of(format);
}

// Rounds the sums of a tile to `out`; asks exactly(i) for an exact one in doubt (`exact_sum`).
template <typename Exactly>
void round_tile(Tile* tile, int64_t count, Format to, void* out, const Exactly& exactly) {
  uint8_t in_doubt[kTile];
  const Decide decide = sum_kernels().decide[to];
  if (!decide(*tile, 0, count, 1, out, in_doubt)) return;
  for (int64_t i = 0; i < count; ++i) {
    if (!in_doubt[i]) continue;
    tile->near[i] = exactly(i);
    tile->rest[i] = tile->error[i] = 0;
    decide(*tile, i, i + 1, 1, out, in_doubt);
  }
}

// The progression of each tap of an axis.
std::vector<Progression> progressions(const WindowAxis& axis) {
  std::vector<Progression> taps(static_cast<size_t>(axis.window));
  for (int64_t tap = 0; tap < axis.window; ++tap) taps[tap] = axis.at(tap);
  return taps;
}

// The sums of rows of windows. With a short innermost axis that is free, a row has each `spread`-th
// element of the array, and there are `spread` rows for each of the other axes.
class RowSums {
 public:
  RowSums(const Windows& windows, int64_t spread, const void* x, Format format)
      : windows_(windows),
        spread_(spread),
        x_(x),
        format_(format),
        taps_(progressions(windows.inner())),
        log2_taps_(0) {
    while ((int64_t{1} << log2_taps_) < windows.taps()) ++log2_taps_;
  }

  // What is the same for the windows [first, first + count) of all rows.
  struct Part {
    int64_t first = -1, count;
    int64_t begin, end;       // The elements that the windows have.
    int64_t inside, outside;  // The windows [inside, outside) have all taps.
    std::vector<int64_t> elements;  // The element of window `inside` at each tap.
    std::vector<Progression> borders;  // The taps of the other windows.
    std::vector<const void*> pointers;
  };

  void plan(int64_t first, int64_t count, Part* part) const {
    if (part->first == first && part->count == count) return;
    part->first = first;
    part->count = count;
    part->begin = windows_.inner().size;
    part->end = 0;
    part->inside = 0;
    part->outside = count;
    part->elements.clear();
    part->borders.clear();
    for (const Progression& all : taps_) {
      const Progression tap = all.outputs_in(first, first + count);
      const bool has_all = tap.count > 0 && tap.apart == 1;
      part->inside = std::max(part->inside, tap.output);
      part->outside = std::min(part->outside, has_all ? tap.output + tap.count : 0);
      if (tap.count == 0) continue;
      part->begin = std::min(part->begin, tap.element);
      part->end = std::max(part->end, tap.element + (tap.count - 1) * tap.step + 1);
    }
    if (part->inside >= part->outside) part->inside = part->outside = count;
    for (const Progression& all : taps_) {
      add_border(all, 0, part->inside, part);
      add_border(all, part->outside, count, part);
      if (part->inside < part->outside)
        part->elements.push_back(
            all.outputs_in(first + part->inside, first + part->outside).element);
    }
  }

  // Adds a part of a row to the sums of a tile from `to` on.
  void add(int64_t row, int64_t to, Part* part, Tile* tile) const {
    if (part->begin >= part->end) return;
    const WindowKernels& kernels = window_kernels();
    std::vector<const void*>& pointers = part->pointers;
    pointers.clear();
    windows_.each_row(row / spread_, [&](int64_t of_array, int64_t) {
      pointers.push_back(element(of_array, part->begin, row));
    });
    const int64_t rows = static_cast<int64_t>(pointers.size());
    if (rows == 0) return;
    auto at = [&](int64_t i, int64_t element) {
      return at_element(pointers[i], format_, (element - part->begin) * spread_);
    };
    for (const Progression& tap : part->borders)
      for (int64_t i = 0; i < rows; ++i)
        kernels.add[format_](at(i, tap.element), tap.count, tap.step * spread_,
                             to + tap.output, tap.apart, tile);
    if (part->elements.empty()) return;
    const bool is_sure = kernels.is_sure[format_](
        pointers.data(), rows, (part->end - part->begin - 1) * spread_ + 1, log2_taps_);
    // The pointers to the rows stay in front of those to the taps.
    for (int64_t element : part->elements)
      for (int64_t i = 0; i < rows; ++i) pointers.push_back(at(i, element));
    kernels.add_taps[format_](pointers.data() + rows,
                              static_cast<int64_t>(pointers.size()) - rows,
                              to + part->inside, part->outside - part->inside,
                              taps_[0].step * spread_, is_sure, tile);
  }

  // The exact sum of a window of a row.
  double exactly(int64_t row, int64_t output) const {
    const WindowAxis& inner = windows_.inner();
    return exact_sum(format_, [&](const auto& add) {
      windows_.each_row(row / spread_, [&](int64_t of_array, int64_t) {
        for (int64_t tap = 0; tap < inner.window; ++tap) {
          const int64_t at = inner.element(output, tap);
          if (at >= 0) add(samebits::element(element(of_array, at, row), format_, 0));
        }
      });
    });
  }

 private:
  const char* element(int64_t of_array, int64_t at, int64_t row) const {
    return at_element(x_, format_,
                      (of_array * windows_.inner().size + at) * spread_ + row % spread_);
  }

  // Adds the windows [from, to) of a part that have a tap to the borders.
  static void add_border(const Progression& all, int64_t from, int64_t to, Part* part) {
    if (from >= to) return;
    Progression tap = all.outputs_in(part->first + from, part->first + to);
    tap.output += from;
    if (tap.count > 0) part->borders.push_back(tap);
  }

  Windows windows_;
  int64_t spread_;
  const void* x_;
  Format format_;
  std::vector<Progression> taps_;
  int log2_taps_;
};

// Copies count results of a size to each spread-th place.
void copy_apart(const char* results, int64_t count, int64_t size, int64_t spread, char* out) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(out + i * spread * size, results + i * size, size);
}

// Sums of rows of windows, a tile at a time.
class WindowSums {
 public:
  WindowSums(const Windows& windows, int64_t spread, const void* x, Format format, Format to,
             void* out)
      : sums_(windows, spread, x, format),
        outputs_(windows.inner().outputs),
        spread_(spread),
        format_(format),
        to_(to),
        out_(static_cast<char*>(out)) {}

  // Writes the sums of windows [first, first + count) of `together` rows, whose results are
  // neighbours.
  void put(int64_t row, int64_t together, int64_t first, int64_t count) {
    tile_.clear((together * count + 7) / 8 * 8);
    sums_.plan(first, count, &part_);
    {
      Flushing scope(format_);
      for (int64_t i = 0; i < together; ++i) sums_.add(row + i, i * count, &part_, &tile_);
    }
    const int64_t place = (row / spread_ * outputs_ + first) * spread_ + row % spread_;
    char* out = out_ + place * bytes_of(to_);
    round_tile(&tile_, together * count, to_, spread_ == 1 ? out : results_, [&](int64_t i) {
      return sums_.exactly(row + i / count, first + i % count);
    });
    if (spread_ > 1) copy_apart(results_, count, bytes_of(to_), spread_, out);
  }

 private:
  const RowSums sums_;
  int64_t outputs_, spread_;
  Format format_, to_;
  char* out_;
  Tile tile_;
  RowSums::Part part_;
  alignas(64) char results_[8 * kTile];
};

// The quick way of float64 first. `spread` is that of the sums of rows.
void put_by_grid(const Grid& grid, int64_t spread, int64_t begin, int64_t end, double* out,
                 WindowSums* sums) {
  std::vector<const double*> rows;
  for (int64_t tile = begin; tile < end; ++tile) {
    const Grid::Place at = grid.place(tile);
    const int64_t first = at.row * at.of_row + at.first, block = grid.block();
    if (grid.sum(at, &rows, out + first * block)) continue;
    if (block == spread) {
      for (int64_t i = 0; i < spread; ++i) sums->put(at.row * spread + i, 1, at.first, at.count);
    } else {
      sums->put(first, at.count, 0, block);
    }
  }
}

ffi::Error window(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> result,
                  ffi::Span<const int64_t> axes) {
  const Format format = format_of(x), to = format_of(*result);
  if (format == kFormats || to == kFormats || (to == kFloat64) != (format == kFloat64) ||
      !Windows::has(axes.begin(), axes.size()))
    return ffi::Error::InvalidArgument("samebits: no such sum over windows is compiled");
  Windows windows(axes.begin(), axes.size());
  if (static_cast<int64_t>(x.element_count()) != windows.elements() ||
      static_cast<int64_t>(result->element_count()) != windows.outputs())
    return ffi::Error::InvalidArgument("samebits: the windows do not fit the arrays");
  const Grid grid(windows, x.untyped_data());
  const int64_t spread = windows.without_short_axis();
  // A part of a row of windows has kTile windows.
  const int64_t outputs = windows.inner().outputs;
  const int64_t tiles = parts_of(outputs, kTile);
  const int64_t rows = windows.outputs() / outputs * spread;
  const double terms = static_cast<double>(rows * outputs) * static_cast<double>(windows.taps());
  const int64_t threads = threads_of(pool, terms < kFewestTerms);
  const bool by_grid = format == kFloat64 && grid.is_worth();
  each_part(pool, threads, by_grid ? grid.tiles() : rows * tiles, [&](int64_t begin, int64_t end) {
    void* out = result->untyped_data();
    WindowSums sums(windows, spread, x.untyped_data(), format, to, out);
    if (by_grid) return put_by_grid(grid, spread, begin, end, static_cast<double*>(out), &sums);
    for (int64_t task = begin, together; task < end; task += together) {
      const int64_t row = task / tiles, first = task % tiles * kTile;
      const int64_t count = std::min(kTile, outputs - first);
      // Short rows whose results are neighbours share a tile.
      together = tiles > 1 || spread > 1 ? 1 : std::min(end - task, kTile / count);
      sums.put(row, together, first, count);
    }
  });
  return ffi::Error::Success();
}

// The elements of windows [first, first + count) of an axis: window by window if these have more
// taps than there are windows, or else tap by tap.
std::vector<Progression> elements_of(const WindowAxis& axis, int64_t first, int64_t count) {
  std::vector<Progression> parts;
  if (axis.dilation > 1 || axis.window <= count) {
    for (int64_t tap = 0; tap < axis.window; ++tap)
      parts.push_back(axis.at(tap).outputs_in(first, first + count));
    return parts;
  }
  for (int64_t output = 0; output < count; ++output) {
    const int64_t start = (first + output) * axis.stride - axis.low;
    const int64_t before = start < 0 ? parts_of(-start, axis.apart) : 0;
    const int64_t taps = std::min(axis.window, parts_of(std::max<int64_t>(0, axis.size - start),
                                                        axis.apart));
    parts.push_back({output, 0, start + before * axis.apart, axis.apart, taps - before});
  }
  return parts;
}

// The greatest or the lowest elements of windows.
ffi::Error pool(ffi::ThreadPool threads, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> result,
                ffi::Span<const int64_t> axes, bool greatest) {
  const Format format = format_of(x);
  // Keys have 32 bits.
  if (format >= kFloat64 || format_of(*result) != format ||
      !Windows::has(axes.begin(), axes.size()))
    return ffi::Error::InvalidArgument("samebits: no such pool is compiled");
  Windows windows(axes.begin(), axes.size());
  if (static_cast<int64_t>(x.element_count()) != windows.elements() ||
      static_cast<int64_t>(result->element_count()) != windows.outputs())
    return ffi::Error::InvalidArgument("samebits: the windows do not fit the arrays");
  const int64_t spread = windows.without_short_axis();
  const WindowAxis& inner = windows.inner();
  const int64_t tiles = parts_of(inner.outputs, kTile);
  const int64_t rows = windows.outputs() / inner.outputs * spread;
  const double terms = static_cast<double>(rows * inner.outputs) *
                       static_cast<double>(windows.taps());
  const WindowKernels& kernels = window_kernels();
  each_part(threads, threads_of(threads, terms < kFewestTerms), rows * tiles,
            [&](int64_t begin, int64_t end) {
    alignas(64) int32_t keys[kTile];
    std::vector<Progression> parts;
    int64_t planned = -1;
    for (int64_t task = begin; task < end; ++task) {
      const int64_t row = task / tiles / spread, place = task / tiles % spread;
      const int64_t first = task % tiles * kTile;
      const int64_t count = std::min(kTile, inner.outputs - first);
      if (first != planned) parts = elements_of(inner, first, count);
      planned = first;
      std::fill(keys, keys + count, least_key(format));
      windows.each_row(row, [&](int64_t of_array, int64_t) {
        for (const Progression& part : parts) {
          const int64_t at = (of_array * inner.size + part.element) * spread + place;
          if (part.count > 0)
            kernels.raise[format](at_element(x.untyped_data(), format, at), part.count,
                                  part.step * spread, part.apart, greatest, keys + part.output);
        }
      });
      const int64_t to = (row * inner.outputs + first) * spread + place;
      kernels.write_keys[format](keys, count, greatest, spread,
                                 static_cast<char*>(result->untyped_data()) +
                                     to * bytes_of(format));
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
        std::memset(part.best, 0, sizeof(double) * count);
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
    // Calls visit(place in source, its choice, tap, progression) for elements [begin, end) of a
    // row.
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
          Flushing scope(of_source);
          each_tap(row, begin, begin + count,
                   [&](int64_t place, const int32_t* chosen, int32_t number,
                       const Progression& tap) {
                     add_chosen(at_element(source, of_source, place), chosen, number, tap.count,
                                tap.element, tap.step, &tile);
                   });
        }
        auto exactly = [&](int64_t i) {
          return exact_sum(of_source, [&](const auto& add) {
            each_tap(row, begin + i, begin + i + 1,
                     [&](int64_t place, const int32_t* chosen, int32_t number, const Progression&) {
                       if (*chosen == number) add(element(source, of_source, place));
                     });
          });
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
      (to == kFloat64) != (format_of(source) == kFloat64) ||
      !Windows::has(axes.begin(), axes.size()))
    return ffi::Error::InvalidArgument("samebits: no such gradient of a pool is compiled");
  const Windows windows(axes.begin(), axes.size());
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
  const int64_t threads = threads_of(pool, terms < kFewestTerms);
  each_part(pool, threads, outer.size, [&](int64_t begin, int64_t end) {
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
SAMEBITS_CALL(samebits_pool, samebits::pool,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::AnyBuffer>()
                  .Attr<xla::ffi::Span<const int64_t>>("axes")
                  .Attr<bool>("greatest"));
SAMEBITS_CALL(samebits_pool_gradient, samebits::pool_gradient,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::AnyBuffer>()
                  .Attr<xla::ffi::Span<const int64_t>>("axes")
                  .Attr<bool>("greatest"));

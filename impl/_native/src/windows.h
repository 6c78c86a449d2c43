// Windows of an array: which elements they have, and what the calls and the kernels share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sums.h"

namespace samebits {

// The outputs of an axis whose windows have an element of the array at one tap: output + k * apart
// has element + k * step, for each k below count.
struct Progression {
  int64_t output, apart, element, step, count;

  // The part with outputs in [first, last), which are then counted from `first` on.
  Progression outputs_in(int64_t first, int64_t last) const {
    const int64_t begin = output >= first ? 0 : (first - output + apart - 1) / apart;
    const int64_t end = std::min(count, output >= last ? 0 : (last - output + apart - 1) / apart);
    return {output + begin * apart - first, apart, element + begin * step, step,
            std::max<int64_t>(0, end - begin)};
  }
  // The part with elements in [first, last), which are then counted from `first` on.
  Progression elements_in(int64_t first, int64_t last) const {
    const Progression turned = {element, step, output, apart, count};
    const Progression part = turned.outputs_in(first, last);
    return {part.element, apart, part.output, step, part.count};
  }
};

// An axis of the array. Tap t of window o lies at o * stride + t * apart - low, where neighbours of
// the array are `dilation` apart.
struct WindowAxis {
  int64_t size, outputs, window, stride, low, dilation, apart;

  // The element of window `output` at a tap, -1 for none.
  int64_t element(int64_t output, int64_t tap) const {
    const int64_t place = output * stride + tap * apart - low;
    if (place < 0 || (dilation > 1 && place % dilation != 0)) return -1;
    return place / dilation < size ? place / dilation : -1;
  }
  Progression at(int64_t tap) const {
    // The first output in the pattern, which repeats after `dilation` outputs at most.
    int64_t divisor = stride, rest = dilation;
    while (rest != 0) std::swap(divisor %= rest, rest);
    Progression all = {0, dilation / divisor, 0, stride / divisor, 0};
    const int64_t first_place = tap * apart - low;
    if (first_place % divisor != 0) return all;
    while (all.output < all.apart && (first_place + all.output * stride) % dilation != 0)
      ++all.output;
    all.element = (first_place + all.output * stride) / dilation;
    if (all.element < 0) {
      const int64_t skipped = (-all.element + all.step - 1) / all.step;
      all.output += skipped * all.apart;
      all.element += skipped * all.step;
    }
    if (all.output < outputs && all.element < size)
      all.count = std::min((outputs - 1 - all.output) / all.apart,
                           (size - 1 - all.element) / all.step) + 1;
    return all;
  }
};

// The axes of an array and its windows, in row-major order.
struct Windows {
  static constexpr int kMost = 16;
  int rank;
  WindowAxis axis[kMost];

  Windows(const int64_t* numbers, size_t size) : rank(static_cast<int>(size / 7)) {
    for (int i = 0; i < rank; ++i) std::memcpy(&axis[i], numbers + 7 * i, 7 * 8);
  }
  static bool has(const int64_t* numbers, size_t size) {
    const bool fits = size % 7 == 0 && size > 0 && size <= 7 * kMost;
    for (size_t i = 0; fits && i < size; ++i)
      if (numbers[i] < 1 && i % 7 != 4) return false;
    return fits;
  }
  const WindowAxis& inner() const { return axis[rank - 1]; }
  int64_t elements(int from = 0) const {
    int64_t number = 1;
    for (int i = from; i < rank; ++i) number *= axis[i].size;
    return number;
  }
  int64_t outputs(int from = 0) const {
    int64_t number = 1;
    for (int i = from; i < rank; ++i) number *= axis[i].outputs;
    return number;
  }
  // Takes away a short innermost axis along which each window is one element, and each element a
  // window. Returns its size, which is below a limit; 1 if there is none.
  int64_t without_short_axis(int64_t limit = 16) {
    const WindowAxis& last = inner();
    const bool is_free = last.size == last.outputs && last.window == 1 && last.stride == 1 &&
                         last.low == 0 && last.dilation == 1;
    if (rank < 2 || !is_free || last.size >= limit) return 1;
    --rank;
    return axis[rank].size;
  }
  int64_t taps() const {
    int64_t number = 1;
    for (int i = 0; i < rank; ++i) number *= axis[i].window;
    return number;
  }

  // Calls run(row, tap) for each tap of a row of windows along all axes but the innermost: the row
  // of the array that the tap lies in, and the number of the tap. `output` is the row of windows.
  template <typename Run>
  void each_row(int64_t output, const Run& run) const {
    int64_t place[kMost];
    for (int i = rank - 2; i >= 0; --i) {
      place[i] = output % axis[i].outputs;
      output /= axis[i].outputs;
    }
    visit(0, place, 0, 0, [](const WindowAxis& on, int64_t at, int64_t tap) {
      return on.element(at, tap);
    }, [](const WindowAxis& on) { return on.size; }, run);
  }
  // The same for the windows of a row of elements: run(row of windows, tap). Neither the array nor
  // the windows are dilated.
  template <typename Run>
  void each_row_of_windows(int64_t row, const Run& run) const {
    int64_t place[kMost];
    for (int i = rank - 2; i >= 0; --i) {
      place[i] = row % axis[i].size;
      row /= axis[i].size;
    }
    visit(0, place, 0, 0, [](const WindowAxis& on, int64_t at, int64_t tap) {
      const int64_t reach = at + on.low - tap;
      return reach >= 0 && reach % on.stride == 0 && reach / on.stride < on.outputs
                 ? reach / on.stride
                 : int64_t{-1};
    }, [](const WindowAxis& on) { return on.outputs; }, run);
  }

 private:
  template <typename Find, typename Length, typename Run>
  void visit(int i, const int64_t* place, int64_t row, int64_t tap, const Find& find,
             const Length& length, const Run& run) const {
    if (i == rank - 1) return run(row, tap);
    for (int64_t t = 0; t < axis[i].window; ++t) {
      const int64_t other = find(axis[i], place[i], t);
      if (other >= 0)
        visit(i + 1, place, row * length(axis[i]) + other, tap * axis[i].window + t, find, length,
              run);
    }
  }
};

// Adds count terms, `step` apart, to every apart-th sum of a tile from `first` on.
using AddSpread = void (*)(const void* x, int64_t count, int64_t step, int64_t first,
                           int64_t apart, Tile* tile);

// Returns whether float64 adds 2**log2_terms terms of some rows of `count` terms exactly.
using IsSure = bool (*)(const void* const* rows, int64_t number, int64_t count, int log2_terms);

// Adds several terms, one from each array of `taps`, to each of `count` sums of a tile from `first`
// on. The terms of neighbours are `step` apart. `is_sure` says that float64 adds the terms exactly.
using AddTaps = void (*)(const void* const* taps, int64_t number, int64_t first, int64_t count,
                         int64_t step, bool is_sure, Tile* tile);

// Keys are integers in the order of floats, where -0 is below 0 and a NaN is the greatest; for the
// lowest elements, in the opposite order, but for NaNs. Returns the key of an infinity that no
// element is below.
inline int32_t least_key(Format format) {
  return format == kFloat32 ? ~0x7f800000 : format == kBFloat16 ? ~0x7f80 : ~0x7c00;
}

// Raises the key of every apart-th window to those of `count` elements, which are `step` apart. If
// `apart` is 0, all are of one window.
using Raise = void (*)(const void* x, int64_t count, int64_t step, int64_t apart, bool greatest,
                       int32_t* keys);

// Writes the floats of keys to every spread-th place.
using WriteKeys = void (*)(const int32_t* keys, int64_t count, bool greatest, int64_t spread,
                           void* out);

// The choices of a row of windows: the best element so far, and its tap; -1 for none. The elements
// are float32, or else float64.
struct Choices {
  double best[kTile];
  int32_t* tap;
};

// Offers the elements of a tap to every apart-th window from `first` on. A window takes an element
// if it has none, or if its best one is not >= (or <=) the element.
using Offer = void (*)(const void* x, int64_t count, int64_t step, int64_t first, int64_t apart,
                       int32_t tap, bool greatest, Choices* choices);

// Adds the terms of the windows that chose a tap; terms and choices are neighbours.
using AddChosen = void (*)(const void* x, const int32_t* choices, int32_t tap, int64_t count,
                           int64_t first, int64_t apart, Tile* tile);

struct WindowKernels {
  IsSure is_sure[kFormats];
  AddTaps add_taps[kFormats];
  AddSpread add[kFormats];
  Raise raise[kFormats];
  WriteKeys write_keys[kFormats];
  Offer offer[kFormats];
  AddChosen add_chosen[kFormats];
};
SAMEBITS_KERNELS(WindowKernels, window_kernels)

}  // namespace samebits

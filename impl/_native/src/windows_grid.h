// The quick way of sums over windows of float64, which share the sums of their parts.
//
// All terms of a tile are split alike (`Coarse` of lanes.h): term = high + low, where sums of high
// parts are exact in any order, and so are those of low parts. So the rows of windows are added
// first, once for all windows that have them, and then the sums of neighbours:
//
//     windows of 2 x 2      a b c     a+d b+e c+f     a+d + b+e, b+e + c+f
//                           d e f
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "windows.h"

namespace samebits {

// The most places of a tile, which two arrays hold, and the fewest sums that are worth them.
constexpr int64_t kPlaces = 2048, kFewestSums = 8;
// The most terms of a window: more would leave few bits to the low parts.
constexpr int64_t kMostTaps = 1 << 10;

// Neighbouring windows along one axis, each of `number` rows of the array. A place has a block of
// neighbours, which are summed apart. Element k of a row lies at place before + k * dilation; tap t
// of window i at place i * stride + t * apart.
struct GridTile {
  const double* const* rows;
  int64_t number, elements, before, dilation;
  int64_t places, block;
  int64_t windows, window, stride, apart;
};

// Writes the sums of a tile, kTile at most. Returns false if one of them is in doubt; all of `out`
// is undefined then.
using SumGrid = bool (*)(const GridTile& tile, double* out);

struct GridKernels {
  SumGrid sum;
};
SAMEBITS_KERNELS(GridKernels, grid_kernels)

// The tiles of an array: parts of the rows of windows along the axis that is not free.
class Grid {
 public:
  Grid(const Windows& windows, const void* x)
      : windows_(windows), x_(static_cast<const double*>(x)), taps_(windows.taps()) {
    block_ = windows_.without_short_axis(kTile / 2);
    const WindowAxis& axis = windows_.inner();
    of_tile_ = std::min(axis.outputs, kTile / block_);
    while (of_tile_ > 1 && places(of_tile_) > kPlaces / block_) of_tile_ /= 2;
    tiles_ = (axis.outputs + of_tile_ - 1) / of_tile_;
  }

  bool is_worth() const {
    return taps_ > 1 && taps_ <= kMostTaps && places(of_tile_) <= kPlaces / block_ &&
           of_tile_ * block_ >= kFewestSums;
  }
  int64_t tiles() const { return windows_.outputs() / windows_.inner().outputs * tiles_; }
  int64_t block() const { return block_; }

  // Where the results of a tile are: windows [first, first + count) of a row of `of_row`.
  struct Place {
    int64_t row, first, count, of_row;
  };
  Place place(int64_t tile) const {
    const int64_t outputs = windows_.inner().outputs, first = tile % tiles_ * of_tile_;
    return {tile / tiles_, first, std::min(of_tile_, outputs - first), outputs};
  }

  // Returns what SumGrid does.
  bool sum(const Place& at, std::vector<const double*>* rows, double* out) const {
    const WindowAxis& axis = windows_.inner();
    const int64_t start = at.first * axis.stride - axis.low, covered = places(at.count);
    auto above = [&](int64_t place) { return place <= 0 ? 0 : parts_of(place, axis.dilation); };
    const int64_t begin = std::min(above(start), axis.size);
    const int64_t end = std::max(begin, std::min(above(start + covered), axis.size));
    rows->clear();
    windows_.each_row(at.row, [&](int64_t row, int64_t) {
      rows->push_back(x_ + (row * axis.size + begin) * block_);
    });
    const int64_t number = begin < end ? static_cast<int64_t>(rows->size()) : 0;
    return grid_kernels().sum({rows->data(), number, end - begin, begin * axis.dilation - start,
                               axis.dilation, covered, block_, at.count, axis.window,
                               axis.stride, axis.apart},
                              out);
  }

 private:
  int64_t places(int64_t outputs) const {
    const WindowAxis& axis = windows_.inner();
    return (outputs - 1) * axis.stride + (axis.window - 1) * axis.apart + 1;
  }

  Windows windows_;
  const double* x_;
  int64_t taps_, block_, of_tile_, tiles_;
};

}  // namespace samebits

// Running sums: what the call and its kernels share.
//
// Lines are summed together, each in a lane. Along a line goes the exact sum, two float64.
#pragma once

#include <cstdint>

#include "sums.h"
#include "terms.h"

namespace samebits {

// The most lanes of a vector unit, and the steps that a kernel takes at once.
constexpr int kMostLanes = 8;
constexpr int64_t kSteps = 64;

// The lines of a kernel: element i of a line is at base[lane] + i * step, in the terms and in the
// results. `are_neighbours` says that the bases are successive numbers, one for each lane.
struct Lines {
  const void* x;
  void* out;
  int lanes;
  bool are_neighbours;
  int64_t base[kMostLanes];
  int64_t step;
};

// The sum of each lane: near + rest, but for float64 within `error`.
struct LineSums {
  alignas(64) double near[kMostLanes] = {};
  alignas(64) double rest[kMostLanes] = {};
  alignas(64) double error[kMostLanes] = {};
};

// Takes the steps [first, first + count), and moves the sums of the lines on. Returns a bit for each
// lane with a result in doubt; its results and its sum are undefined.
using Steps = unsigned (*)(const Lines& lines, int64_t first, int64_t count, LineSums* sums);

struct RunningKernels {
  int lanes;
  Steps run[kFormats];
};
SAMEBITS_KERNELS(RunningKernels, running_kernels)

// Adds `count` arrays element by element, from element `first` to `last`, of kTile at most, and
// writes the results to `out`. Sets in_doubt where two float64 do not hold a sum, and returns
// whether there is any.
using AddParts = bool (*)(const void* const* parts, int64_t count, int64_t first, int64_t last,
                          void* out, uint8_t* in_doubt);

struct PartsKernels {
  AddParts add[kFormats];
};
SAMEBITS_KERNELS(PartsKernels, parts_kernels)

}  // namespace samebits

// Scatters: what their calls and their kernels share.
//
// A window of updates is one or more runs, whose elements are neighbours in the updates and in the
// operand. A block is a range of destinations, of which a table has the sums:
//
//     updates [2, 3] at rows 4 and 0 of an operand [5, 3]     two windows of one run of 3
//     a block of destinations 0 to 8                          has the second window alone
#pragma once

#include <cstdint>

#include "sums.h"

namespace samebits {

// The sums of a block of destinations, as pairs near + rest (lanes.h). `error`, which may be
// missing, has bounds of the bits that each sum lost.
struct Table {
  double* near;
  double* rest;
  double* error;
};

// A processor waits for a sum before it adds to it again, unless the sum has several places.
constexpr int64_t kScatterLanes = 8;

// Runs of updates for a block of `size` destinations. Run i of `length` elements starts at element
// source[i] + from of the updates, and at destination target[i] + to of the block; it may begin
// before the block and end after it. A table with lanes has kScatterLanes neighbours for the sum of
// each destination, of which run i takes one by its number; its runs have one element.
struct Runs {
  const int64_t* target;
  const int64_t* source;
  int64_t count;
  int64_t to, from;
  int64_t length;
  int64_t size;
  int64_t terms;  // The elements of all updates.
  bool subtract;
  bool has_lanes;
};

// The integers of an array of indices, in the order of the tables of kernels.
enum Integer : int { kS8, kS16, kS32, kS64, kU8, kU16, kU32, kU64, kIntegers };

// Lists which of `count` indices are in [low, high), after they are moved into [0, last] if they
// are clipped. Returns their number.
using Select = int64_t (*)(const void* indices, int64_t count, bool clip, int64_t last,
                           int64_t low, int64_t high, int32_t* chosen);

// Widens indices chosen[i] * step, or i * step if nothing is chosen, moved into [0, last] if they
// are clipped.
using Widen = void (*)(const void* indices, const int32_t* chosen, int64_t count, int64_t step,
                       bool clip, int64_t last, int64_t* wide);

// Writes the places of `count` windows of `number` coordinates each: the sum of index * stride, or
// -1 if an index that is not clipped is out of [0, last].
using Flatten = void (*)(const void* indices, int64_t count, int64_t number,
                         const int64_t* strides, const int64_t* lasts, bool clip, int32_t* flat);

// Adds runs to a table. Without errors, it returns whether a sum may have lost bits.
using AddRuns = bool (*)(const void* updates, const Runs& runs, const Table& table);

// Adds the sums of `count` destinations to those of another table. Returns what AddRuns does.
using AddTable = bool (*)(const Table& from, int64_t count, const Table& to);

// Sets the results of runs to operand + update, rounded once. No two have one destination.
using AddOnce = void (*)(const void* operand, const void* updates, const Runs& runs, void* out);

// Starts sums with `count` elements of an operand.
using LoadOperand = void (*)(const void* operand, int64_t count, const Table& table);

// Rounds `count` elements of an operand to results, as sums of one term. `out` may be the operand.
using RoundOperand = void (*)(const void* operand, int64_t count, void* out);

// Rounds `count` exact sums.
using RoundSums = void (*)(const Table& table, int64_t count, void* out);

// Rounds `count` sums within their errors, and says which are in doubt: `out` keeps what it has of
// these, which may be the operand. Returns whether any is in doubt.
using DecideSums = bool (*)(const Table& table, int64_t count, void* out, uint8_t* in_doubt);

struct ScatterKernels {
  Select select[kIntegers];
  Widen widen[kIntegers];
  Flatten flatten[kIntegers];
  AddRuns add[kFormats], add_with_error[kFormats];
  AddOnce add_once[kFormats];
  AddTable add_table;
  LoadOperand load[kFormats];
  RoundOperand round_operand[kFormats];
  RoundSums round[kFormats];
  DecideSums decide[kFormats];
};
SAMEBITS_KERNELS(ScatterKernels, scatter_kernels)

}  // namespace samebits

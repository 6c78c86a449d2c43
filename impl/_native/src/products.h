// What the kernels of products and convolutions share with their tasks (products.cc).
//
// A product has two factors. Each has *free* axes, which the result has too, and *terms*, the axes
// that are summed. One index along all free axes of a factor is a line, so
//
//     result[i, j] = the sum over k of rows[i, k] * columns[j, k]
//
// where a tile's columns lie in the lanes of vectors and its rows do not. A convolution is such a
// product: a line of its image is a window, and its terms are the taps and channels.
#pragma once

#include <cmath>
#include <cstdint>

#include "formats.h"
#include "vectors.h"

namespace samebits {

// The most spatial dimensions of a convolution.
constexpr int kEdges = 4;
// The terms of a block, which bound the roundings of a sum, and its most columns: their panels stay
// in a cache of 512 KiB.
constexpr int64_t kTerms = 128;
constexpr int64_t kMostColumns = 256;
// The distance of rows in a panel of rows: not a multiple of 4096 bytes, which caches would alias.
constexpr int64_t kRow = kTerms + 8;

// The most rows whose columns are read in place, and the terms of a block and the distance of rows.
// If the columns are neighbours, a block has more of them, so that few blocks share a page.
constexpr int64_t kFewRows = 8;
constexpr int64_t kLongTerms = 1024;
constexpr int64_t kLongColumns = 4096;
// The terms that are added at once where the columns are neighbours: their pages stay in the buffer
// of translations.
constexpr int64_t kAtOnce = 32;
constexpr int64_t kLong = kLongTerms + 8;

// The most terms of wide products that are rounded as they are added.
constexpr int64_t kFewTerms = 9;

// The magnitudes of wide factors (Wide of products_vectors.h): their products and the errors of these
// are in the range of float64, and so are sums of squares, of their rests too.
constexpr double kLeastFactor = 0x1p-450, kMostFactor = 0x1p450;

// The products of a batch that are computed together if they are small.
constexpr int64_t kTogether = 16;

// Where an index of some axes stands: its distance from an array's first element, its distance from
// the result's, and what it adds to the position in each spatial dimension of the image.
struct Place {
  int64_t offset = 0;
  int64_t result = 0;
  int64_t position[kEdges] = {};
};

// The spatial dimensions of an image whose borders windows cross. An element is inside if the
// positions of its line and its term add up to one from 0 to size - 1, and counts as 0 elsewhere.
struct Edges {
  int count = 0;
  int64_t size[kEdges] = {};
};

// The innermost axes as one: `length` elements, `stride` apart, of which `unit` neighbours share a
// position, which moves by `step` along an edge (-1 for none).
struct Inner {
  int64_t length = 1;
  int64_t stride = 1;
  int64_t unit = 1;
  int64_t step = 0;
  int edge = -1;
};

// A part of the innermost axes: `length` elements, the first of which has the index `at` in its
// panel and is the element `phase` of its unit.
struct Run {
  Place place;
  int64_t at = 0;
  int64_t length = 0;
  int64_t phase = 0;
};

// A part of a factor: lines and terms, of which one side is given one by one, and the other in
// runs.
struct Part {
  const void* data;
  const Edges* edges;
  Inner inner;
  const Place* singles;
  int64_t single_count;
  const Run* runs;
  int64_t run_count;
  int64_t run_length;  // of all runs together
  int64_t next_count = 0;  // the singles after these that are read next
  double scale = 1;        // a power of two that wide factors are multiplied by
};

// The bits that any of some values has, and the bits of the least magnitude that is not 0.
struct Bits {
  uint64_t any = 0;
  uint64_t least = ~0ull;
};

// Stages of the exact sum of an element in doubt, over blocks of terms.
struct PairSum {
  double high[16] = {};
  double low[16] = {};
};

struct ProductKernels {
  // The rows and the columns of a tile: a multiple of the lanes of a vector.
  int64_t rows;
  int64_t columns;
  // The distance of terms in a panel of interleaved rows.
  int64_t step;

  // Writes each line of `part`, whose terms are runs, as float64 at `to`, `stride` apart, and adds
  // its sum of squares to `squares`. Zeros follow up to a multiple of eight terms.
  void (*pack_rows[kFormats])(const Part& part, double* to, int64_t stride, double* squares);
  // Writes the lines of `part`, whose lines are runs, in panels of `height` lines as
  // [terms][width], with zeros after the last line; the panels are `panel` apart.
  void (*pack_panels[kFormats])(const Part& part, int64_t height, int64_t width, int64_t panel,
                              double* to, double* squares);
  // Writes lines that `pack_rows` wrote as [terms][width], with zeros after them.
  void (*transpose)(const double* rows, int64_t lines, int64_t terms, int64_t width, double* to);

  // Writes or adds the sums of `terms` products of a tile of `rows` rows and of `vectors` (1 or 2)
  // vectors of columns. The rows are kRow apart, or interleaved as [terms][step].
  void (*multiply)(bool interleaved, int64_t rows, int64_t vectors, int64_t terms,
                   const double* left, const double* right, double* sums, int64_t stride,
                   bool adds);

  // Adds the sums of products of `rows` rows, kLong apart, and of all columns of `part`, whose
  // terms or whose columns are runs.
  void (*multiply_few[kFormats])(bool along_terms, int64_t rows, const Part& part,
                               const double* left, double* sums, int64_t stride,
                               double* squares);

  // Writes an element of each of kTogether arrays, whose first ones are at `offsets`, for each of
  // `count` lines and `terms` terms, as [lines][terms][kTogether], and their sums of squares.
  void (*pack_lanes[kFormats])(const void* data, const int64_t* offsets, const Place* lines,
                             int64_t count, const Place* terms, int64_t term_count, double* to,
                             double* squares);
  // Writes sums of products of kTogether pairs of lines, and the products of their norms.
  void (*multiply_lanes)(int64_t terms, const double* left, const double* right,
                         const double* left_squares, const double* right_squares, double* sums,
                         double* norms);

  // Rounds `count` sums, whose errors are at most scale * norms[j], and writes the indices of those
  // in doubt. Returns their number.
  int64_t (*round[kFormats])(int64_t count, const double* sums, const double* norms, double scale,
                           void* to, int32_t* doubts);

  // Writes `count` sums and such bounds of their errors, as `Bounds` has them.
  void (*bound)(int64_t count, const double* sums, const double* norms, double scale,
                double* to_sums, float* to_errors);

  bool (*are_finite[kFormats])(const void* data, int64_t count);

  // Adds the bits of values.
  void (*add_bits)(const double* values, int64_t count, Bits* bits);
  // The same of each line of a panel [terms][width], for the first `lines` of them.
  void (*add_lane_bits)(const double* panel, int64_t terms, int64_t lines, int64_t width,
                        Bits* bits);

  // Splits the first `lines` lines of a panel, rows that are kRow apart or [terms][width], into
  // multiples of a unit of each line and rests (products_states.cc). Adds the sums of squares of
  // the rests to `squares`, and returns whether there is a rest.
  bool (*split_rows)(const double* from, int64_t lines, int64_t terms, double* first, double* rest,
                     double* squares);
  bool (*split_panel)(const double* from, int64_t lines, int64_t terms, int64_t width,
                      double* first, double* rest, double* squares);
  // Adds the sums of a tile, kColumns apart, to high + middle; `lost` adds up what these lose.
  void (*add_tile)(int64_t rows, int64_t vectors, const double* tile, double* high, double* middle,
                   double* lost, int64_t stride);

  // Adds the products of `count` pairs.
  void (*add_pairs)(const double* left, const double* right, int64_t count, PairSum* sum);

  // As pack_rows, pack_panels and pack_lanes, of wide factors (Wide of products_vectors.h).
  void (*pack_wide_rows[kFormats])(const Part& part, double* to, int64_t stride, double* squares);
  void (*pack_wide_panels[kFormats])(const Part& part, int64_t height, int64_t width,
                                     int64_t panel, double* to, double* squares);
  void (*pack_wide_lanes[kFormats])(const void* data, double scale, const int64_t* offsets,
                                    const Place* lines, int64_t count, const Place* terms,
                                    int64_t term_count, double* to, double* squares);
  // Adds the products of a row of wide factors, whose terms are `step` apart, and of `vectors`
  // vectors of columns to high + low, with all errors of products and sums.
  void (*add_wide_row)(int64_t vectors, int64_t terms, const double* row, int64_t step,
                       const double* right, double* high, double* low);
};

SAMEBITS_KERNELS(ProductKernels, product_kernels)

}  // namespace samebits

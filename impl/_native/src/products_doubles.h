// The kernels of products with a factor or a result of float64 (products_doubles.cc), whose factors
// are wide (Wide of products_vectors.h).
#pragma once

#include <cmath>
#include <cstdint>

#include "products.h"

namespace samebits {

// The magnitudes of the finite elements of an array of float64 that are not 0.
struct Magnitudes {
  double least = HUGE_VAL, greatest = 0;
  bool are_finite = true;
};

// A tile of sums, to which the products of some terms are added: it becomes high + middle, within
// `lost`. The rows are kRow apart, or interleaved as [terms][step].
struct WideTile {
  bool interleaved, adds;
  int64_t rows, vectors, terms;  // at most kTerms
  const double *left, *right;
  // Norms of the lines: if they are null, the sum of the magnitudes of each element's terms bounds
  // its sums. That takes longer, and serves elements that are far smaller than the norms.
  const double *row_norms, *column_norms;
  double *high, *middle, *lost;
  int64_t stride;
};

// Sums of a row of results, high + middle, within lost + constant.
struct PairsOfRow {
  const double *high, *middle, *lost;
  double constant;
  int exponent;  // of the power of two that results are multiplied by
};

// Columns whose terms are `step` apart, in panels as wide as a tile that are `panel` apart.
struct ColumnsOfTerms {
  const double* first;
  int64_t step, panel, count;
};

struct DoublesKernels {
  void (*add_tile)(const WideTile& tile);
  // Writes sums of products of kTogether pairs of lines, and what bounds their errors. As for a
  // tile, there may be norms.
  void (*multiply_lanes)(int64_t terms, const double* left, const double* right,
                         const double* left_norms, const double* right_norms, double* high,
                         double* low, double* lost);
  // The same, with all errors of products and sums.
  void (*measure_lanes)(int64_t terms, const double* left, const double* right, double* high,
                        double* low, double* lost);
  // Adds the products of `count` pairs, and all their errors.
  void (*add_pairs)(const double* left, const double* right, int64_t count, PairSum* sum);
  // Rounds the sums of `terms` products (at most kFewTerms) of a row, whose terms are `step` apart,
  // and of columns, as round_pairs does; factors have lost `lost`.
  int64_t (*round_few_terms)(int64_t terms, const double* row, int64_t step,
                             const ColumnsOfTerms& columns, double lost, int exponent,
                             double* to, int32_t* doubts);
  // Rounds `count` sums to float64, and writes the indices of those in doubt. Returns their number.
  int64_t (*round_pairs)(int64_t count, const PairsOfRow& pairs, double* to, int32_t* doubts);
  void (*find_magnitudes)(const double* values, int64_t count, Magnitudes* magnitudes);
};

SAMEBITS_KERNELS(DoublesKernels, doubles_kernels)

}  // namespace samebits

// Products of few elements, whose preparation would take longer than the product.
#pragma once

#include <cstdint>

#include "vectors.h"

namespace samebits {

struct Frame;  // calls.h

// A product of float64 that is read where it lies: at most one axis of rows, which the left factor
// has, one of columns, which the right one has, and one of terms.
struct FewDoubles {
  const double *left, *right;
  double* to;
  int64_t rows, columns, terms;
  int64_t left_row, left_term, right_column, right_term, to_row, to_column;  // distances
};

struct FewKernels {
  // Rounds the sums of a product. Returns whether elements are fit and no sum is in doubt; what it
  // wrote is of no use if not.
  bool (*round_in_place)(const FewDoubles& product);
  // Returns whether elements, a multiple of the lanes, have products that are exact as two float64.
  bool (*are_fit)(const double* values, int64_t count);
  // Writes the sums of products of `rows` rows, [rows][terms], and of `width` columns, a multiple of
  // the lanes, [terms][width], rounded to float64. Returns whether none is in doubt.
  bool (*round_products)(int64_t rows, int64_t width, int64_t terms, const double* left,
                         const double* right, double* to);
  // The same of one row and one column, of a multiple of the lanes of terms.
  bool (*round_product)(int64_t terms, const double* left, const double* right, double* to);
  // Write the sums as near + rest within error, which is 0 if nothing was lost.
  void (*multiply)(int64_t rows, int64_t width, int64_t terms, const double* left,
                   const double* right, double* near, double* rest, double* error);
  void (*multiply_rows)(int64_t terms, const double* left, const double* right, double* near,
                        double* rest, double* error);
};
SAMEBITS_KERNELS(FewKernels, few_kernels)

// Computes a product of few elements. Returns whether it did: there are more, or factors are not
// finite or far from 1, or a result is in doubt, if it did not.
bool compute_few(const Frame& frame);

}  // namespace samebits

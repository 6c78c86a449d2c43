// Products of few elements, whose preparation would take longer than the product.
#pragma once

#include <cstdint>

#include "vectors.h"

namespace samebits {

struct Frame;  // calls.h

struct FewKernels {
  // Writes the sums of products of `rows` rows, [rows][terms], and of `width` columns, a multiple of
  // the lanes, [terms][width], as near + rest within error, which is 0 if nothing was lost.
  void (*multiply)(int64_t rows, int64_t width, int64_t terms, const double* left,
                   const double* right, double* near, double* rest, double* error);
  // The same of one row and one column, of a multiple of the lanes of terms.
  void (*multiply_rows)(int64_t terms, const double* left, const double* right, double* near,
                        double* rest, double* error);
};
SAMEBITS_KERNELS(FewKernels, few_kernels)

// Computes a product of few elements. Returns whether it did: there are more, or factors are not
// finite or far from 1, or a result is in doubt, if it did not.
bool compute_few(const Frame& frame);

}  // namespace samebits

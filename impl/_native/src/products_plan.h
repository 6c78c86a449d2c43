// A product or a convolution as products of lines (products.h), from the attributes of a call.
#pragma once

#include <cstdint>
#include <vector>

#include "products.h"

namespace samebits {

struct Axis {
  int64_t size;
  int64_t stride;  // of the factor
  int64_t result;  // the stride of the result; 0 for terms
  int edge = -1;
  int64_t step = 0;  // what an index adds to the position at the edge
};
using Axes = std::vector<Axis>;

struct Factor {
  const void* data = nullptr;
  int operand = 0;  // 0 for lhs, 1 for rhs
  Format format = kFloat32;
  Axes free;
  Axes terms;
  Inner inner_free;
  Inner inner_terms;
  Edges edges;
  Place first;
  bool runs_along_terms = true;
  double scale = 1;  // a power of two; of wide factors
  bool is_wide = false;  // Elements are scaled, not finite, or far smaller than the greatest ones.

  Place line(int64_t index) const { return place(free, index, first); }
  Place term(int64_t index) const { return place(terms, index, Place()); }
  // Writes the places of `count` lines or terms from `begin` on, moved by `offset`.
  void places(bool of_terms, int64_t begin, int64_t count, int64_t offset,
              std::vector<Place>* to) const;
  // Writes the runs of these elements; returns their number.
  int64_t runs(bool along_terms, int64_t begin, int64_t count, int64_t offset, Run* to) const;

 private:
  static Place place(const Axes& axes, int64_t index, Place from);
};

struct BatchAxis {
  int64_t size;
  int64_t rows;
  int64_t columns;
  int64_t result;
};

// A product of lines, for each index of a batch.
struct LineProduct {
  std::vector<BatchAxis> batch;
  Factor rows;
  Factor columns;
  int64_t batches = 1;
  int64_t row_count = 1;
  int64_t column_count = 1;
  int64_t terms = 1;
  int64_t elements = 0;  // of both operands
  bool has_few_rows = false;  // and its columns are read in place
  // Whether a factor or the result is float64. Then the factors are scaled, and results are
  // multiplied by 2**exponent; `lost` bounds the error of a sum by factors that count as greater
  // ones (Wide of products_vectors.h).
  bool is_wide = false;
  bool are_finite = true;
  int exponent = 0;
  double lost = 0;
};

// Where a product of a batch stands in the factors and in the result.
struct BatchPlace {
  int64_t rows = 0, columns = 0, result = 0;
};
BatchPlace batch_place(const LineProduct& product, int64_t index);

struct Operand {
  const void* data = nullptr;
  Format format = kFloat32;
  int64_t elements = 0;
};

// The attributes of a call: for each axis its size and its strides.
struct Attributes {
  std::vector<int64_t> batch;    // size, strides of lhs, rhs and result
  std::vector<int64_t> lines;    // size, strides of lhs and result
  std::vector<int64_t> columns;  // size, strides of rhs and result
  std::vector<int64_t> terms;    // size, strides of lhs and rhs
  // For each spatial dimension of a convolution: the size and the stride of the image, of the
  // kernel and of the result, the window's stride, the low padding, and the dilations of the image
  // and of the kernel.
  std::vector<int64_t> window;
  bool is_convolution;
};

// Returns the products whose results make up the result. A dilated image has one for each residue
// of the result's positions, since those share the taps that meet no zeros between elements.
std::vector<LineProduct> plan(const Attributes& attributes, Operand lhs, Operand rhs);

// The indices of a result in a product.
struct ResultIndex {
  int64_t batch, row, column;
};

// Finds a position of the row-major result in a product; returns whether it has it.
bool find(const LineProduct& product, int64_t position, ResultIndex* index);

// The lines of the kernel of a convolution, and the results of each: `batch` has the groups' places
// in the kernel and the result, and `result` those of a line's results.
struct KernelLines {
  Factor kernel, batch, result;
  int64_t batches = 1, columns = 1, results = 1;
};
KernelLines kernel_lines(const Attributes& attributes, Operand kernel);

}  // namespace samebits

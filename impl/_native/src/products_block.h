// One block of the results of a product: tiles, rounding, and the elements in doubt.
#pragma once

#include <atomic>
#include <cstdint>

#include "devices.h"
#include "products_plan.h"
#include "states.h"

namespace samebits {

// Where results go: rounded words, sums and bounds of their errors, or states of sums.
struct Output {
  void* words = nullptr;
  Format format = kFloat32;
  Bounds bounds;
  States states;
  bool are_finite = true;  // both factors; for states alone
  bool has_pairs = false;  // for states alone: float64 are added with all errors
};

// The part of a product that one task computes at once.
struct BlockRange {
  int64_t batch;
  int64_t first_row, rows;
  int64_t first_column, columns;
  // The terms of a block may be divided among `splits` tasks. Each writes its sums to its part of
  // `partial`, and the last one that is done adds them and finishes the block.
  int64_t split = 0, splits = 1;
  double* partial = nullptr;
  int64_t partial_size = 0;
  std::atomic<int64_t>* done = nullptr;
};

// The numbers that a part of a block writes: the sums, and the sums of squares.
int64_t partial_size(int64_t rows, int64_t columns);

// The most rows of a block, whose sums are 1 MiB.
constexpr int64_t kMostRows = 504;

void compute_block(const LineProduct& product, const BlockRange& range, const Output& output);

// The same for states, to which it adds the block (products_states.cc).
void add_block(const LineProduct& product, const BlockRange& range, const Output& output);

// The same for products with a factor or a result of float64 (products_doubles.cc).
void compute_wide_block(const LineProduct& product, const BlockRange& range, const Output& output);

// Writes the digits of the exact sum of a row and a column: of a WideAccumulator where the product
// is wide.
void exact_digits(const LineProduct& product, int64_t batch, int64_t row, int64_t column,
                  int64_t* digits);
// The same of lines at places, with the batch.
void exact_digits(const LineProduct& product, const Place& row, const Place& column,
                  int64_t* digits);

// Returns the sum by IEEE 754 of the products of a row and a column: an infinity, a NaN or a number
// of no meaning.
double special_sum(const LineProduct& product, const Place& row, const Place& column);

// Returns whether all terms of a line of a factor are finite.
bool is_finite_line(const Factor& factor, int64_t batch_offset, int64_t line);
bool is_finite_line(const Factor& factor, const Place& place, int64_t terms);

}  // namespace samebits

// A block of results whose factors are split, so that its sums have almost twice the bits of
// float64.
//
// Each line of a factor is split into multiples of a unit and a rest, for each block of terms
// (Ozaki, Ogita, Oishi and Rump 2012, doi:10.1007/s11075-011-9478-1). The unit is a power of two, of
// which the line's greatest element has 23 bits, so a sum of 128 products of multiples is exact:
//
//     rows = first + rest, columns = second + more
//     first * second                    exact in a block; TwoSum adds the blocks
//     rows * more + rest * second       2**-22 times as great, with the error of a plain sum
#pragma once

#include "products_panels.h"

namespace samebits {

class SplitBlock : protected Panels {
 public:
  // With `has_pairs`, panels whose lines have rests are not split: the errors of their products are
  // added.
  SplitBlock(const LineProduct& product, const BlockRange& range, bool is_split, bool has_pairs);
  // Adds all products, and makes norms of the sums of squares.
  void add_terms();

 protected:
  // The bound of the error of `low_`: that of its additions, one for each term of a block and two
  // for each block, relative to the sums of magnitudes (Higham 2002, section 4.2), which norms
  // bound (Cauchy and Schwarz). The norms are off by less than 2**-11.
  double scale() const;

  const bool is_split_, has_pairs_;
  bool are_exact_ = true;  // No product of a rest was added.
  // The sums: high_ + middle_ of products of multiples, what TwoSum lost of it, and low_.
  double *high_, *middle_, *lost_, *low_;
  double *row_rests_, *column_rests_;  // sums of squares, and then norms

 private:
  static int64_t numbers(const LineProduct& product, const BlockRange& range);
  void fold_low();
  bool split_columns(int64_t count);
  bool split_rows(const double* rows, int64_t lines, int64_t count, double* squares);
  void add_rows(int64_t first, int64_t lines, int64_t count, bool has_more);
  void add_pairs(int64_t first, int64_t lines, int64_t count);

  double *more_, *first_, *rest_, *tile_;  // panels, and the sums of a tile
};

}  // namespace samebits

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
  // Few rows are not split: the errors of their products are added. With `has_pairs`, so are those of
  // panels whose lines have rests.
  SplitBlock(const LineProduct& product, const BlockRange& range, bool is_split,
             bool are_few = false, bool has_pairs = false);
  // Adds all products, and makes norms of the sums of squares.
  void add_terms();

 protected:
  // The bound of the error of `low_`: that of its additions, one for each term of a block and two
  // for each block, relative to the sums of magnitudes (Higham 2002, section 4.2), which norms
  // bound (Cauchy and Schwarz). The norms are off by less than 2**-11.
  double scale() const;
  // Calls use(i, j) of each result of lines that are not finite.
  template <typename Use>
  void each_special(const Use& use) const {
    if (product_.are_finite) return;
    auto are_special = [&](const Factor& factor, const std::vector<Place>& places) {
      std::vector<bool> special;
      for (const Place& place : places)
        special.push_back(!is_finite_line(factor, place, product_.terms));
      return special;
    };
    const std::vector<bool> rows = are_special(product_.rows, memory_.rows);
    const std::vector<bool> columns = are_special(product_.columns, memory_.columns);
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < columns_; ++j)
        if (rows[i] || columns[j]) use(i, j);
  }
  // The place of a result.
  int64_t result(int64_t i, int64_t j) const {
    return result_ + memory_.rows[i].result + memory_.columns[j].result;
  }

  // The same for few rows, for high_ + middle_: each term has two errors, of at most n u times the
  // magnitudes together with those of the sums, and adding them errs by at most n u times that
  // (Ogita, Rump and Oishi 2005, Dot2).
  double scale_of_pairs() const;

  const bool is_split_, are_few_, has_pairs_;
  bool are_exact_ = true;  // No product of a rest was added.
  // The sums: high_ + middle_ of products of multiples, what TwoSum lost of it, and low_.
  double *high_, *middle_, *lost_, *low_;
  double *row_rests_, *column_rests_;  // sums of squares, and then norms

 private:
  static int64_t numbers(const BlockRange& range);
  bool split_columns(int64_t count);
  bool split_rows(const double* rows, int64_t lines, int64_t count, double* squares);
  void add_rows(int64_t first, int64_t lines, int64_t count, bool has_more);
  void add_pairs(int64_t first, int64_t lines, int64_t count);

  double *more_, *first_, *rest_, *tile_;  // panels, and the sums of a tile
};

}  // namespace samebits

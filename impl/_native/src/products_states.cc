// Adds products to states of sums (states.h).
#include <algorithm>
#include <cmath>

#include "numbers.h"
#include "products_split.h"

namespace samebits {
namespace {

class StateBlock : public SplitBlock {
 public:
  StateBlock(const LineProduct& product, const BlockRange& range, const Output& output)
      : SplitBlock(product, range, product.is_wide || output.are_finite,
                   product.is_wide && output.has_pairs),
        output_(output) {}
  // Adds the sums to the states.
  void finish() const;

 private:
  const Output& output_;
};

void StateBlock::finish() const {
  const double scale = this->scale();
  // Pairs are of a block of terms each.
  const double scale_of_pairs =
      are_exact_ ? 0 : Panels::scale_of_pairs(std::min(product_.terms, kTerms));
  const bool is_dense = are_neighbours();
  double low[kMostColumns], slack[kMostColumns];
  // A state has no power of two: where a product has one, no bound decides its sums.
  const double constant = product_.exponent == 0 ? product_.lost : NAN;
  for (int64_t i = 0; i < rows_; ++i) {
    const int64_t from = i * stride_, to = result_ + memory_.rows[i].result;
    const double norm = scale * row_norms_[i], rest = scale * row_rests_[i];
    for (int64_t j = 0; j < columns_; ++j) {
      low[j] = middle_[from + j];
      const double lost = two_sum(&low[j], low_[from + j]);
      // A sum without terms has lost nothing.
      const double norms = row_norms_[i] * column_norms_[j];
      const double of_rests =
          has_pairs_ ? scale_of_pairs * norms : norm * column_rests_[j] + rest * column_norms_[j];
      slack[j] = lost_[from + j] + std::fabs(lost) + of_rests + (norms == 0 ? 0 : constant);
    }
    // Factors that are not finite have no multiples.
    const double* high = is_split_ ? high_ + from : low_ + from;
    for (int64_t j = 0; j < columns_ && !is_split_; ++j) {
      low[j] = 0;
      slack[j] = norm * column_norms_[j];
    }
    if (is_dense) {
      output_.states.add(to + memory_.columns[0].result, columns_, high, low, slack);
      continue;
    }
    for (int64_t j = 0; j < columns_; ++j)
      output_.states.add(to + memory_.columns[j].result, high[j], low[j], slack[j]);
  }
  // The digits of wide products have what is not finite.
  if (product_.is_wide)
    each_special([&](int64_t i, int64_t j) {
      const double sum = special_sum(product_, memory_.rows[i], memory_.columns[j]);
      output_.states.add(result(i, j), sum, 0, 0);
    });
}

}  // namespace

void add_block(const LineProduct& product, const BlockRange& range, const Output& output) {
  StateBlock block(product, range, output);
  block.add_terms();
  block.finish();
}

}  // namespace samebits

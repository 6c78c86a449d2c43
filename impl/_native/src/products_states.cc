// Adds products to states of sums (states.h).
//
// Each line of a factor is split into multiples of a unit and a rest, for each block of terms
// (Ozaki, Ogita, Oishi and Rump 2012, doi:10.1007/s11075-011-9478-1). The unit is a power of two, of
// which the line's greatest element has 23 bits, so a sum of 128 products of multiples is exact:
//
//     rows = first + rest, columns = second + more
//     first * second                    exact in a block; TwoSum adds the blocks
//     rows * more + rest * second       2**-22 times as great, with the error of a plain sum
#include <algorithm>
#include <cmath>

#include "numbers.h"
#include "products_panels.h"

namespace samebits {
namespace {

class StateBlock : Panels {
 public:
  StateBlock(const LineProduct& product, const BlockRange& range, const Output& output);
  void compute();

 private:
  static int64_t numbers(const BlockRange& range);
  bool split_columns(int64_t count);
  bool split_rows(const double* rows, int64_t lines, int64_t count, double* squares);
  void add_rows(int64_t first, int64_t lines, int64_t count, bool has_more);
  void finish() const;

  const Output& output_;
  // The sums: high_ + middle_ of products of multiples, what TwoSum lost of it, and low_.
  double *high_, *middle_, *lost_, *low_;
  double *more_, *first_, *rest_, *tile_;  // panels, and the sums of a tile
  double *row_rests_, *column_rests_;      // sums of squares
};

constexpr int64_t kLeft = 16 * kRow;  // of a panel of rows

int64_t StateBlock::numbers(const BlockRange& range) {
  const ProductKernels& kernels = product_kernels();
  const int64_t stride = up(range.columns, kernels.columns);
  const int64_t tile = up(kernels.rows * kernels.columns, 16);
  return 4 * range.rows * stride + up(stride * kPanel, 16) + 2 * kLeft + tile + stride +
         up(range.rows + 16, 16);
}

StateBlock::StateBlock(const LineProduct& product, const BlockRange& range, const Output& output)
    : Panels(product, range, false, numbers(range)), output_(output) {
  const int64_t sums = rows_ * stride_;
  high_ = numbers_;
  middle_ = high_ + sums;
  lost_ = middle_ + sums;
  low_ = lost_ + sums;
  more_ = low_ + sums;
  first_ = more_ + up(stride_ * kPanel, 16);
  rest_ = first_ + kLeft;
  tile_ = rest_ + kLeft;
  column_rests_ = tile_ + up(kernels_.rows * kernels_.columns, 16);
  row_rests_ = column_rests_ + stride_;
  std::fill(high_, more_, 0.0);
  std::fill(column_rests_, row_rests_ + rows_ + 16, 0.0);
}

// Splits all panels of columns. Returns whether there is a rest.
bool StateBlock::split_columns(int64_t count) {
  bool has_more = false;
  const int64_t width = kernels_.columns;
  for (int64_t j = 0; j < columns_; j += width) {
    double* panel = right_ + j * kPanel;
    has_more |= kernels_.split_panel(panel, std::min(width, columns_ - j), count, width, panel,
                                     more_ + j * kPanel, column_rests_ + j);
  }
  return has_more;
}

// Splits a panel of rows. Returns whether there is a rest.
bool StateBlock::split_rows(const double* rows, int64_t lines, int64_t count, double* squares) {
  if (interleaved_)
    return kernels_.split_panel(rows, lines, count, kernels_.step, first_, rest_, squares);
  return kernels_.split_rows(rows, lines, count, first_, rest_, squares);
}

// Adds the products of a panel of rows.
void StateBlock::add_rows(int64_t first, int64_t lines, int64_t count, bool has_more) {
  const double* rows = panel(first);
  const int64_t width = kernels_.columns;
  const bool is_split = output_.are_finite;
  const bool has_rest = is_split && split_rows(rows, lines, count, row_rests_ + first);
  for (int64_t j = 0; j < columns_; j += width) {
    const int64_t vectors = columns_ - j > width / 2 ? 2 : 1, at = first * stride_ + j;
    const double* right = right_ + j * kPanel;
    auto add = [&](const double* left, const double* columns, double* to, int64_t stride,
                   bool adds) {
      kernels_.multiply(interleaved_, lines, vectors, count, left, columns, to, stride, adds);
    };
    if (!is_split) {
      add(rows, right, low_ + at, stride_, true);
      continue;
    }
    add(first_, right, tile_, width, false);
    kernels_.add_tile(lines, vectors, tile_, high_ + at, middle_ + at, lost_ + at, stride_);
    if (has_more) add(rows, more_ + j * kPanel, low_ + at, stride_, true);
    if (has_rest) add(rest_, right, low_ + at, stride_, true);
  }
}

void StateBlock::compute() {
  for (int64_t from = 0; from < product_.terms; from += kTerms) {
    const int64_t count = std::min(kTerms, product_.terms - from);
    read_terms(from, count);
    pack_right(count);
    const bool has_more = output_.are_finite && split_columns(count);
    if (interleaved_) pack_interleaved(count);
    for (int64_t i = 0; i < rows_; i += height_) {
      const int64_t lines = std::min(height_, rows_ - i);
      if (!interleaved_) pack_rows(i, lines, count);
      add_rows(i, lines, count, has_more);
    }
  }
  for (double* squares : {row_norms_, row_rests_})
    for (int64_t i = 0; i < rows_; ++i) squares[i] = std::sqrt(squares[i]);
  for (double* squares : {column_norms_, column_rests_})
    for (int64_t j = 0; j < columns_; ++j) squares[j] = std::sqrt(squares[j]);
  finish();
}

// Adds the sums to the states. The error of `low_` is that of its additions, one for each term of a
// block and two for each block, relative to the sums of magnitudes (Higham 2002, section 4.2),
// which norms bound (Cauchy and Schwarz). The norms are off by less than 2**-11.
void StateBlock::finish() const {
  const int64_t terms = product_.terms;
  const int64_t chain = std::min(terms, kTerms) + 2 * parts_of(terms, kTerms);
  const double scale = of_chain(static_cast<double>(chain)) * (1 + 0x1p-9);
  const bool is_dense = are_neighbours();
  double low[kMostColumns], slack[kMostColumns];
  for (int64_t i = 0; i < rows_; ++i) {
    const int64_t from = i * stride_, to = result_ + memory_.rows[i].result;
    const double norm = scale * row_norms_[i], rest = scale * row_rests_[i];
    for (int64_t j = 0; j < columns_; ++j) {
      low[j] = middle_[from + j];
      const double lost = two_sum(&low[j], low_[from + j]);
      slack[j] = lost_[from + j] + std::fabs(lost) +
                 (norm * column_rests_[j] + rest * column_norms_[j]);
    }
    // Factors that are not finite have no multiples.
    const double* high = output_.are_finite ? high_ + from : low_ + from;
    for (int64_t j = 0; j < columns_ && !output_.are_finite; ++j) {
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
}

}  // namespace

void add_block(const LineProduct& product, const BlockRange& range, const Output& output) {
  StateBlock(product, range, output).compute();
}

}  // namespace samebits

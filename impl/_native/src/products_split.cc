#include "products_split.h"

#include <algorithm>
#include <cmath>

#include "numbers.h"

namespace samebits {
namespace {

constexpr int64_t kLeft = 16 * kRow;  // of a panel of rows
constexpr int64_t kFolded = 32;       // the blocks of terms whose sums `low_` has

}  // namespace

int64_t SplitBlock::numbers(const LineProduct& product, const BlockRange& range) {
  const ProductKernels& kernels = product_kernels();
  const int64_t stride = up(range.columns, kernels.columns);
  const int64_t tile = up(kernels.rows * kernels.columns, 16);
  return 4 * range.rows * stride + up(stride * panel_of(product), 16) + 2 * kLeft + tile + stride +
         up(range.rows + 16, 16);
}

SplitBlock::SplitBlock(const LineProduct& product, const BlockRange& range, bool is_split,
                       bool has_pairs)
    : Panels(product, range, false, numbers(product, range)),
      is_split_(is_split),
      has_pairs_(has_pairs) {
  const int64_t sums = rows_ * stride_;
  high_ = numbers_;
  middle_ = high_ + sums;
  lost_ = middle_ + sums;
  low_ = lost_ + sums;
  more_ = low_ + sums;
  first_ = more_ + up(stride_ * panel_, 16);
  rest_ = first_ + kLeft;
  tile_ = rest_ + kLeft;
  column_rests_ = tile_ + up(kernels_.rows * kernels_.columns, 16);
  row_rests_ = column_rests_ + stride_;
  std::fill(high_, more_, 0.0);
  std::fill(column_rests_, row_rests_ + rows_ + 16, 0.0);
}

// Splits all panels of columns. Returns whether there is a rest.
bool SplitBlock::split_columns(int64_t count) {
  bool has_more = false;
  const int64_t width = kernels_.columns;
  for (int64_t j = 0; j < columns_; j += width) {
    double* panel = right_ + j * panel_;
    has_more |= kernels_.split_panel(panel, std::min(width, columns_ - j), count, width, panel,
                                     more_ + j * panel_, column_rests_ + j);
  }
  return has_more;
}

// Splits a panel of rows. Returns whether there is a rest.
bool SplitBlock::split_rows(const double* rows, int64_t lines, int64_t count, double* squares) {
  if (interleaved_)
    return kernels_.split_panel(rows, lines, count, kernels_.step, first_, rest_, squares);
  return kernels_.split_rows(rows, lines, count, first_, rest_, squares);
}

// Adds the products of a panel of rows, with the errors of all additions.
void SplitBlock::add_pairs(int64_t first, int64_t lines, int64_t count) {
  const double* rows = panel(first);
  const int64_t width = kernels_.columns;
  for (int64_t i = 0; i < lines; ++i)
    for (int64_t j = 0; j < columns_; j += width) {
      const int64_t at = (first + i) * stride_ + j, vectors = columns_ - j > width / 2 ? 2 : 1;
      // The errors of a block do not grow with the number of blocks.
      double *high = tile_, *low = tile_ + width;
      std::fill(high, low + width, 0.0);
      kernels_.add_wide_row(vectors, count, rows + (interleaved_ ? i : i * kRow),
                            interleaved_ ? kernels_.step : 1, right_ + j * panel_, high, low);
      kernels_.add_tile(1, vectors, high, high_ + at, middle_ + at, lost_ + at, stride_);
      kernels_.add_tile(1, vectors, low, middle_ + at, low_ + at, lost_ + at, stride_);
    }
}

// Adds the products of a panel of rows.
void SplitBlock::add_rows(int64_t first, int64_t lines, int64_t count, bool has_more) {
  const double* rows = panel(first);
  const int64_t width = kernels_.columns;
  const bool has_rest = is_split_ && split_rows(rows, lines, count, row_rests_ + first);
  if (has_pairs_ && (has_more || has_rest)) {
    are_exact_ = false;
    return add_pairs(first, lines, count);
  }
  for (int64_t j = 0; j < columns_; j += width) {
    const int64_t vectors = columns_ - j > width / 2 ? 2 : 1, at = first * stride_ + j;
    const double* right = right_ + j * panel_;
    auto add = [&](const double* left, const double* columns, double* to, int64_t stride,
                   bool adds) {
      kernels_.multiply(interleaved_, lines, vectors, count, left, columns, to, stride, adds);
    };
    if (!is_split_) {
      add(rows, right, low_ + at, stride_, true);
      continue;
    }
    add(first_, right, tile_, width, false);
    kernels_.add_tile(lines, vectors, tile_, high_ + at, middle_ + at, lost_ + at, stride_);
    if (has_more) add(rows, more_ + j * panel_, low_ + at, stride_, true);
    if (has_rest) add(rest_, right, low_ + at, stride_, true);
  }
}

void SplitBlock::add_terms() {
  for (int64_t from = 0; from < product_.terms; from += kTerms) {
    const int64_t count = std::min(kTerms, product_.terms - from);
    read_terms(from, count);
    pack_right(count);
    const bool has_more = is_split_ && split_columns(count);
    // The products of pairs are of whole columns.
    for (int64_t k = 0; has_pairs_ && has_more && k < stride_ * panel_; ++k) right_[k] += more_[k];
    if (interleaved_) pack_interleaved(count);
    for (int64_t i = 0; i < rows_; i += height_) {
      const int64_t lines = std::min(height_, rows_ - i);
      if (!interleaved_) pack_rows(i, lines, count);
      add_rows(i, lines, count, has_more);
    }
    if (is_split_ && (from / kTerms + 1) % kFolded == 0) fold_low();
  }
  make_norms(row_norms_, column_norms_);
  make_norms(row_rests_, column_rests_);
}

// Moves the sums `low_` to `middle_`, so that few additions bound their errors.
void SplitBlock::fold_low() {
  for (int64_t i = 0; i < rows_ * stride_; ++i) {
    lost_[i] += std::fabs(two_sum(&middle_[i], low_[i]));
    low_[i] = 0;
  }
}

double SplitBlock::scale() const {
  const int64_t terms = product_.terms;
  const int64_t blocks = parts_of(terms, kTerms);
  const int64_t chain = std::min(terms, kTerms) + 2 * (is_split_ ? std::min(blocks, kFolded) : blocks);
  return of_chain(static_cast<double>(chain)) * (1 + 0x1p-9);
}

}  // namespace samebits

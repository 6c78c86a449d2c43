#include "products_panels.h"

#include <algorithm>
#include <cmath>

#include "numbers.h"

namespace samebits {

BlockMemory& block_memory() {
  static thread_local BlockMemory memory;
  return memory;
}

int64_t Panels::panel_of(const LineProduct& product) {
  return std::min(product.terms, kTerms) + 1;
}

Panels::Panels(const LineProduct& product, const BlockRange& range, bool are_few, int64_t numbers,
               bool has_columns)
    : product_(product), range_(range) {
  const int64_t panels = parts_of(rows_, kernels_.rows);
  height_ = parts_of(rows_, panels);
  stride_ = up(columns_, kernels_.columns);
  interleaved_ = !product.rows.runs_along_terms;
  panel_ = panel_of(product);
  block_terms_ = are_few ? kLongTerms : kTerms;
  const int64_t interleaved = interleaved_ ? panels * kernels_.step * panel_ : 0;
  const int64_t left = are_few ? kFewRows * kLong : std::max(16 * kRow, interleaved);
  const int64_t right = are_few ? 0 : stride_ * panel_;
  const int64_t norms = stride_ + rows_ + 16;
  double* at = memory_.doubles(up(left, 16) + 16 + up(right, 16) + numbers + norms);
  left_ = at;
  right_ = left_ + up(left, 16) + 16;
  numbers_ = right_ + up(right, 16);
  column_norms_ = numbers_ + numbers;
  row_norms_ = column_norms_ + stride_;
  std::fill(column_norms_, column_norms_ + norms, 0.0);

  const BatchPlace place = batch_place(product, range.batch);
  row_start_ = place.rows;
  column_start_ = place.columns;
  result_ = place.result;
  product.rows.places(false, range.first_row, rows_, row_start_, &memory_.rows);
  if (has_columns) place_columns();
  memory_.row_runs.resize(std::max(rows_, block_terms_));
  memory_.column_runs.resize(std::max(columns_, block_terms_));
}

void Panels::place_columns() {
  product_.columns.places(false, range_.first_column, columns_, column_start_, &memory_.columns);
}

void Panels::read_terms(int64_t from, int64_t count) {
  const Factor& rows = product_.rows;
  if (interleaved_) {
    rows.places(true, from, count, 0, &memory_.row_terms);
  } else {
    row_runs_ = rows.runs(true, from, count, 0, memory_.row_runs.data());
  }
  const Factor& columns = product_.columns;
  if (columns.runs_along_terms) {
    column_runs_ = columns.runs(true, from, count, 0, memory_.column_runs.data());
  } else {
    columns.places(true, from, count, 0, &memory_.column_terms);
  }
}

void Panels::pack_rows(int64_t first, int64_t lines, int64_t count) {
  const Factor& factor = product_.rows;
  const int64_t next = std::min(height_, rows_ - first - lines);
  const Part part{factor.data, &factor.edges, factor.inner_terms, memory_.rows.data() + first,
                  lines, memory_.row_runs.data(), row_runs_, count, next, factor.scale};
  rows_packer(factor)(part, left_, kRow, row_norms_ + first);
}

void Panels::pack_interleaved(int64_t count) {
  const Factor& factor = product_.rows;
  Run* runs = memory_.row_runs.data();
  const int64_t number = factor.runs(false, range_.first_row, rows_, row_start_, runs);
  const Part part{factor.data, &factor.edges, factor.inner_free, memory_.row_terms.data(), count,
                  runs, number, rows_, 0, factor.scale};
  panels_packer(factor)(part, height_, kernels_.step, panel_ * kernels_.step, left_, row_norms_);
}

void Panels::pack_across(int64_t count) {
  const Factor& factor = product_.columns;
  Run* runs = memory_.column_runs.data();
  const int64_t number = factor.runs(false, range_.first_column, columns_, column_start_, runs);
  const Part part{factor.data, &factor.edges, factor.inner_free, memory_.column_terms.data(), count,
                  runs, number, columns_, 0, factor.scale};
  memory_.norms.resize(static_cast<size_t>(count));
  rows_packer(factor)(part, right_, stride_, memory_.norms.data());
}

void Panels::pack_right(int64_t count) {
  const Factor& factor = product_.columns;
  const int64_t width = kernels_.columns;
  Run* runs = memory_.column_runs.data();
  if (factor.runs_along_terms) {
    double* to = right_;
    for (int64_t j = 0; j < columns_; j += width, to += panel_ * width) {
      const int64_t lines = std::min(width, columns_ - j);
      const Part part{factor.data, &factor.edges, factor.inner_terms, memory_.columns.data() + j,
                      lines, runs, column_runs_, count, 0, factor.scale};
      rows_packer(factor)(part, left_, kRow, column_norms_ + j);
      kernels_.transpose(left_, lines, count, width, to);
    }
    return;
  }
  for (int64_t first = 0; first < columns_; first += kMostColumns) {
    const int64_t lines = std::min(kMostColumns, columns_ - first);
    const int64_t number =
        factor.runs(false, range_.first_column + first, lines, column_start_, runs);
    const Part part{factor.data, &factor.edges, factor.inner_free, memory_.column_terms.data(),
                    count, runs, number, lines, 0, factor.scale};
    panels_packer(factor)(part, width, width, panel_ * width, right_ + first * panel_,
                          column_norms_ + first);
  }
}

Line::Line(const Factor& factor, Place place, int64_t terms, bool is_scaled)
    : factor_(factor), place_(place), terms_(terms), is_wide_(is_scaled && factor.is_wide) {
  block_memory().line_runs.resize(kTerms);
}

int64_t Line::load(int64_t from, double* to) {
  const ProductKernels& kernels = product_kernels();
  const int64_t count = std::min(kTerms, terms_ - from);
  Run* runs = block_memory().line_runs.data();
  const int64_t number = factor_.runs(true, from, count, 0, runs);
  const Part part{factor_.data, &factor_.edges, factor_.inner_terms, &place_, 1, runs, number,
                  count, 0, factor_.scale};
  const auto& packers = is_wide_ ? kernels.pack_wide_rows : kernels.pack_rows;
  packers[factor_.format](part, to, kRow, &squares_);
  return count;
}

void Panels::make_norms(double* of_rows, double* of_columns) const {
  for (int64_t i = 0; i < rows_; ++i) of_rows[i] = std::sqrt(of_rows[i]);
  for (int64_t j = 0; j < columns_; ++j) of_columns[j] = std::sqrt(of_columns[j]);
}

double Panels::scale_of_pairs(int64_t terms) {
  const double chain = of_chain(2.0 * static_cast<double>(terms) + 64);
  return chain * chain * (1 + 0x1p-9);
}

bool Panels::are_neighbours(const LineProduct& product) {
  int64_t run = 1;
  const Axes& axes = product.columns.free;
  for (size_t i = axes.size(); i-- > 0; run *= axes[i].size)
    if (axes[i].result != run) return false;
  return true;
}

bool Panels::are_neighbours() const {
  if (are_neighbours(product_)) return true;
  const std::vector<Place>& columns = memory_.columns;
  bool is_dense = true;
  for (int64_t j = 1; j < columns_; ++j)
    is_dense &= columns[j].result == columns[0].result + j;
  return is_dense;
}

}  // namespace samebits

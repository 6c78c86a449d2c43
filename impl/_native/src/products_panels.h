// The factors of a block of results, as panels of float64: what all ways to compute a block share.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <vector>

#include "products_block.h"
#include "products_plan.h"

namespace samebits {

// An element whose bound decides nothing.
struct Doubtful {
  int32_t row, column;
  double sum;
};

// Memory that a thread uses again for each block.
class BlockMemory {
 public:
  double* doubles(int64_t count) {
    if (count > size_) {
      doubles_.reset(static_cast<double*>(std::aligned_alloc(64, up(count * 8, 64))));
      size_ = count;
    }
    return doubles_.get();
  }
  std::vector<Place> rows, columns, row_terms, column_terms;
  std::vector<Run> row_runs, column_runs, line_runs;
  std::vector<int64_t> row_bits, column_bits;
  std::vector<int32_t> doubts;
  std::vector<Doubtful> doubtful;
  std::vector<uint32_t> words;
  std::vector<double> unused, norms;
  std::vector<Bits> bits;

 private:
  struct Free {
    void operator()(double* memory) const { std::free(memory); }
  };
  std::unique_ptr<double[], Free> doubles_;
  int64_t size_ = 0;
};

BlockMemory& block_memory();

// The terms of one line of a factor, block by block, as float64.
class Line {
 public:
  // Elements of wide factors are scaled if `is_scaled` is true, and what they are otherwise.
  Line(const Factor& factor, Place place, int64_t terms, bool is_scaled = false);

  // Returns the number of terms of the block at `from`; zeros follow up to a multiple of eight.
  int64_t load(int64_t from, double* to);
  // The sum of squares of what was loaded.
  double squares() const { return squares_; }

 private:
  const Factor& factor_;
  Place place_;
  int64_t terms_;
  bool is_wide_;
  double squares_ = 0;
};

// A panel has the lines of a tile. One panel of rows and all panels of columns have the terms of a
// part of each line; all panels of rows have them if the rows are interleaved.
class Panels {
 protected:
  // Takes memory for `numbers` float64 besides the panels.
  Panels(const LineProduct& product, const BlockRange& range, bool are_few, int64_t numbers,
         bool has_columns = true);

  // Finds the places of columns. A block may do without.
  void place_columns();

  static int64_t panel_of(const LineProduct& product);
  // Reads the runs and places of a part of the terms.
  void read_terms(int64_t from, int64_t count);
  // Packs a panel of rows.
  void pack_rows(int64_t first, int64_t lines, int64_t count);
  // Packs all panels of interleaved rows.
  void pack_interleaved(int64_t count);
  // Packs columns whose factor's runs are along them as [terms][stride_], without their norms.
  void pack_across(int64_t count);
  // Packs all panels of columns.
  void pack_right(int64_t count);
  // Returns the panel that has the row `first`.
  double* panel(int64_t first) const {
    return interleaved_ ? left_ + first / height_ * panel_ * kernels_.step : left_;
  }
  auto rows_packer(const Factor& factor) const {
    return (factor.is_wide ? kernels_.pack_wide_rows : kernels_.pack_rows)[factor.format];
  }
  auto panels_packer(const Factor& factor) const {
    return (factor.is_wide ? kernels_.pack_wide_panels : kernels_.pack_panels)[factor.format];
  }
  // Makes norms of sums of squares.
  void make_norms(double* of_rows, double* of_columns) const;
  // The bound of the error of a sum whose terms have two errors each, of at most n u times the
  // magnitudes together with those of the sums: adding them errs by at most n u times that (Ogita,
  // Rump and Oishi 2005, Dot2).
  static double scale_of_pairs(int64_t terms);
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
  // Returns whether the results of a row are neighbours.
  static bool are_neighbours(const LineProduct& product);
  bool are_neighbours() const;

  const LineProduct& product_;
  const BlockRange& range_;
  const ProductKernels& kernels_ = product_kernels();
  BlockMemory& memory_ = block_memory();
  const int64_t rows_ = range_.rows, columns_ = range_.columns;
  int64_t height_;  // of the panels of rows
  int64_t stride_;  // of the sums
  int64_t panel_;   // the terms between panels: more than they have, so that caches do not alias them
  bool interleaved_;
  int64_t row_runs_ = 0, column_runs_ = 0;
  int64_t block_terms_;
  // What the batch adds to the offsets.
  int64_t row_start_ = 0, column_start_ = 0, result_ = 0;
  // A panel of rows, which holds lines that are transposed too; all panels of columns; the sums of
  // squares of the lines; the memory of the way.
  double *left_, *right_, *row_norms_, *column_norms_, *numbers_;
};

}  // namespace samebits

#include "products_division.h"

#include <algorithm>

#include "products_small.h"

namespace samebits {
namespace {

// The least work of a task, in multiplications and additions: some 30 microseconds.
constexpr int64_t kTask = 1 << 19;
// The tasks of each thread, as one may start late.
constexpr int64_t kEachThread = 4;
// The most work of two halves of a block whose threads have work already, relative to the block.
constexpr double kMost = 1.06;
// The small products of a piece.
constexpr int64_t kSmall = 8 * kTogether;
// The least terms of a part of a long sum.
constexpr int64_t kPart = 1024;

// The multiplications that take as long as a block does: packing an element costs as much as some
// 16 of them, and so does rounding.
double work_of(const LineProduct& product, int64_t rows, int64_t columns) {
  const double m = static_cast<double>(std::min(rows, product.row_count));
  const double n = static_cast<double>(std::min(columns, product.column_count));
  return (m * n + 16 * (m + n)) * static_cast<double>(product.terms) + 16 * m * n + 2000;
}

// The size of the least number of equal blocks that are not greater than `most`.
int64_t equal(int64_t count, int64_t most, int64_t tile) {
  const int64_t number = std::max<int64_t>(1, parts_of(count, most));
  return std::max(tile, parts_of(parts_of(count, number), tile) * tile);
}

}  // namespace

Division::Blocks Division::divided(const LineProduct& product, int64_t wanted, bool may_split,
                                   bool has_few_terms) {
  const ProductKernels& kernels = product_kernels();
  Blocks blocks{};
  blocks.product = &product;
  // All interleaved rows of a block are packed at once.
  blocks.rows = product.rows.runs_along_terms ? kMostRows : kMostRows / 2;
  if (product.is_wide) blocks.rows = kMostRows / 4;  // It has four arrays of sums.
  const bool is_long = product.has_few_rows && !product.columns.runs_along_terms;
  blocks.columns = is_long ? kLongColumns : kMostColumns;
  // What a block costs besides its results matters most where these are cheap.
  if (has_few_terms) blocks.columns = 8 * kMostColumns;
  auto number = [&] {
    blocks.row_blocks = parts_of(product.row_count, blocks.rows);
    blocks.column_blocks = parts_of(product.column_count, blocks.columns);
    return product.batches * blocks.row_blocks * blocks.column_blocks;
  };
  // Long sums are divided first: that costs least, but needs memory for their parts.
  blocks.splits = 1;
  const int64_t results = product.batches * product.row_count * product.column_count;
  const int64_t most_parts = (product.elements / 40 + (1 << 16)) / (2 * results + 1024);
  if (may_split && number() < wanted && product.terms >= 2 * kPart)
    blocks.splits = std::max<int64_t>(
        1, std::min({parts_of(wanted, number()), product.terms / kPart, most_parts}));
  for (int64_t pieces; (pieces = blocks.splits * number()) < wanted;) {
    int64_t rows = std::min(blocks.rows, product.row_count);
    int64_t columns = std::min(blocks.columns, product.column_count);
    const double work = work_of(product, rows, columns);
    if (work < 2.0 * kTask) break;
    // Halves the longer side, which keeps the packing of panels cheap.
    if (rows > columns && rows > 2 * kernels.rows) {
      rows = parts_of(parts_of(rows, 2), kernels.rows) * kernels.rows;
    } else if (columns > 2 * kernels.columns) {
      columns = parts_of(parts_of(columns, 2), kernels.columns) * kernels.columns;
    } else {
      break;
    }
    const bool have_all_threads = kEachThread * pieces >= wanted;
    if (have_all_threads && 2 * work_of(product, rows, columns) > kMost * work) break;
    blocks.rows = rows;
    blocks.columns = columns;
  }
  blocks.rows = equal(product.row_count, blocks.rows, kernels.rows);
  blocks.columns = equal(product.column_count, blocks.columns, kernels.columns);
  if (blocks.splits > 1) {
    const int64_t size = partial_size(blocks.rows, blocks.columns);
    blocks.partial.reset(new double[number() * blocks.splits * size]);
    blocks.done.reset(new std::atomic<int64_t>[number()]);
    for (int64_t i = 0; i < number(); ++i) blocks.done[i] = 0;
  }
  number();
  return blocks;
}

Division::Division(const std::vector<LineProduct>& products, int64_t threads,
                   const Output& output) {
  const int64_t tasks = threads <= 1 ? 1 : kEachThread * threads;
  const int64_t wanted = parts_of(tasks, std::max<int64_t>(1, products.size()));
  double most = 0;
  for (const LineProduct& product : products) {
    const int64_t results = product.batches * product.row_count * product.column_count;
    if (results == 0) continue;
    const bool are_small = output.words != nullptr && samebits::are_small(product) &&
                           (!product.is_wide || output.format == kFloat64);
    blocks_.push_back(divided(product, are_small ? 1 : wanted, !output.states && !product.is_wide,
                              product.is_wide && product.terms <= kFewTerms &&
                                  output.format == kFloat64));
    Blocks& blocks = blocks_.back();
    blocks.first = pieces_;
    blocks.are_small = are_small;
    if (are_small) {
      pieces_ += parts_of(product.batches, kSmall);
      // Loading an element takes as long as some 16 multiplications.
      const int64_t numbers = product.row_count + product.column_count;
      most = std::max(most, static_cast<double>(16 * kSmall * numbers * product.terms));
      continue;
    }
    pieces_ += product.batches * blocks.row_blocks * blocks.column_blocks * blocks.splits;
    const double work = work_of(product, blocks.rows, blocks.columns);
    most = std::max(most, work / static_cast<double>(blocks.splits));
  }
  if (most < kTask) pieces_of_task_ = static_cast<int64_t>(kTask / std::max(most, 1.0)) + 1;
}

BlockRange Division::range(const Blocks& blocks, int64_t piece) const {
  const int64_t block = piece / blocks.splits;
  const int64_t column = block % blocks.column_blocks;
  const int64_t row = block / blocks.column_blocks % blocks.row_blocks;
  BlockRange range{};
  range.batch = block / blocks.column_blocks / blocks.row_blocks;
  range.first_row = row * blocks.rows;
  range.rows = std::min(blocks.rows, blocks.product->row_count - range.first_row);
  range.first_column = column * blocks.columns;
  range.columns = std::min(blocks.columns, blocks.product->column_count - range.first_column);
  range.split = piece % blocks.splits;
  range.splits = blocks.splits;
  if (blocks.splits > 1) {
    const int64_t size = partial_size(blocks.rows, blocks.columns);
    range.partial = blocks.partial.get() + block * blocks.splits * size;
    range.partial_size = size;
    range.done = &blocks.done[block];
  }
  return range;
}

void Division::run(int64_t task, const Output& output) const {
  const int64_t begin = task * pieces_of_task_;
  const int64_t end = std::min(pieces_, begin + pieces_of_task_);
  size_t index = blocks_.size() - 1;
  while (blocks_[index].first > begin) --index;
  for (int64_t piece = begin; piece < end; ++piece) {
    while (index + 1 < blocks_.size() && blocks_[index + 1].first <= piece) ++index;
    const Blocks& blocks = blocks_[index];
    const LineProduct& product = *blocks.product;
    if (blocks.are_small) {
      const int64_t first = (piece - blocks.first) * kSmall;
      compute_small(product, first, std::min(kSmall, product.batches - first), output);
    } else {
      compute_block(product, range(blocks, piece - blocks.first), output);
    }
  }
}

}  // namespace samebits

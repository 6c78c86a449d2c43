#include "products_division.h"

#include <algorithm>

namespace samebits {
namespace {

// The least work of a task, in multiplications and additions: some 30 microseconds.
constexpr int64_t kTask = 1 << 19;

// The greatest block of a product.
int64_t most_rows(const LineProduct& product) {
  return product.rows.runs_along_terms ? kMostRows : kMostRows / 2;
}

double work_of(const LineProduct& product, int64_t rows, int64_t columns) {
  const double m = static_cast<double>(rows), n = static_cast<double>(columns);
  // Packing an element costs as much as some 16 multiplications, and so does rounding.
  return (m * n + 16 * (m + n)) * static_cast<double>(product.terms) + 16 * m * n + 2000;
}

}  // namespace

Division::Division(const std::vector<LineProduct>& products, int64_t threads) {
  const ProductKernels& kernels = product_kernels();
  const int64_t tasks = threads <= 1 ? 1 : 4 * threads;
  double most = 0;
  for (const LineProduct& product : products) {
    Each each{most_rows(product), kMostColumns, 0, 0, blocks};
    auto divide = [&] {
      each.row_blocks = parts_of(product.row_count, each.rows);
      each.column_blocks = parts_of(product.column_count, each.columns);
      return product.batches * each.row_blocks * each.column_blocks;
    };
    int64_t number = divide();
    const int64_t wanted = parts_of(tasks, static_cast<int64_t>(products.size()));
    while (number < wanted) {
      // Halves the longer side, which keeps the packing of panels cheap.
      const int64_t rows = std::min(each.rows, product.row_count);
      const int64_t columns = std::min(each.columns, product.column_count);
      if (work_of(product, rows, columns) < 2.0 * kTask) break;
      const bool halves_rows = rows > columns && rows > 2 * kernels.rows;
      if (!halves_rows && columns <= 2 * kernels.columns) break;
      int64_t& side = halves_rows ? each.rows : each.columns;
      const int64_t tile = halves_rows ? kernels.rows : kernels.columns;
      side = parts_of(parts_of(halves_rows ? rows : columns, 2), tile) * tile;
      number = divide();
    }
    // Blocks of equal sizes.
    auto equal = [](int64_t count, int64_t size, int64_t tile) {
      const int64_t number = std::max<int64_t>(1, parts_of(count, size));
      return std::max(tile, parts_of(parts_of(count, number), tile) * tile);
    };
    each.rows = equal(product.row_count, each.rows, kernels.rows);
    each.columns = equal(product.column_count, each.columns, kernels.columns);
    blocks += divide();
    of.push_back(each);
    most = std::max(most, work_of(product, std::min(each.rows, product.row_count),
                                  std::min(each.columns, product.column_count)));
  }
  if (most < kTask) blocks_of_task = static_cast<int64_t>(kTask / std::max(most, 1.0)) + 1;
}

BlockRange Division::range(const std::vector<LineProduct>& products, int64_t block,
                           size_t* product) const {
  size_t index = of.size() - 1;
  while (of[index].first_block > block) --index;
  const Each& each = of[index];
  const LineProduct& chosen = products[index];
  *product = index;
  const int64_t at = block - each.first_block;
  const int64_t column = at % each.column_blocks;
  const int64_t row = at / each.column_blocks % each.row_blocks;
  BlockRange range{};
  range.batch = at / each.column_blocks / each.row_blocks;
  range.first_row = row * each.rows;
  range.rows = std::min(each.rows, chosen.row_count - range.first_row);
  range.first_column = column * each.columns;
  range.columns = std::min(each.columns, chosen.column_count - range.first_column);
  return range;
}

}  // namespace samebits

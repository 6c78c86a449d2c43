// Many small products: vectors have one element of each of many products.
#include "products_small.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "numbers.h"

namespace samebits {
namespace {

// The numbers of both factors of one product.
constexpr int64_t kMostNumbers = 512;

struct Scratch {
  std::vector<double> numbers, squares;
  std::vector<Place> rows, columns, row_terms, column_terms;
};

}  // namespace

bool are_small(const LineProduct& product) {
  const int64_t rows = product.row_count, columns = product.column_count;
  return !product.is_wide && product.batches >= 2 * kTogether && rows * columns <= 64 && product.terms > 0 &&
         (rows + columns) * product.terms <= kMostNumbers && product.rows.edges.count == 0 &&
         product.columns.edges.count == 0;
}

void compute_small(const LineProduct& product, int64_t first, int64_t count,
                   const Output& output) {
  const ProductKernels& kernels = product_kernels();
  static thread_local Scratch memory;
  const Factor &rows = product.rows, &columns = product.columns;
  const int64_t terms = product.terms, m = product.row_count, n = product.column_count;
  rows.places(false, 0, m, 0, &memory.rows);
  rows.places(true, 0, terms, 0, &memory.row_terms);
  columns.places(false, 0, n, 0, &memory.columns);
  columns.places(true, 0, terms, 0, &memory.column_terms);
  memory.numbers.resize(static_cast<size_t>((m + n) * terms * kTogether));
  memory.squares.resize(static_cast<size_t>((m + n) * kTogether));
  double* left = memory.numbers.data();
  double* right = left + m * terms * kTogether;
  double* left_squares = memory.squares.data();
  double* right_squares = left_squares + m * kTogether;
  const double scale = terms == 1 ? 0 : of_chain(static_cast<double>(terms));
  const int64_t size = bytes_of(output.format);
  char* words = static_cast<char*>(output.words);

  for (int64_t from = first; from < first + count; from += kTogether) {
    const int64_t together = std::min(kTogether, first + count - from);
    BatchPlace places[kTogether];
    int64_t row_offsets[kTogether], column_offsets[kTogether];
    for (int64_t lane = 0; lane < kTogether; ++lane) {
      // Lanes without a product have the last one again.
      places[lane] = batch_place(product, from + std::min(lane, together - 1));
      row_offsets[lane] = places[lane].rows;
      column_offsets[lane] = places[lane].columns;
    }
    kernels.pack_lanes[rows.format](rows.data, row_offsets, memory.rows.data(), m,
                                  memory.row_terms.data(), terms, left, left_squares);
    kernels.pack_lanes[columns.format](columns.data, column_offsets, memory.columns.data(), n,
                                     memory.column_terms.data(), terms, right, right_squares);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sums[kTogether], norms[kTogether];
        kernels.multiply_lanes(terms, left + i * terms * kTogether, right + j * terms * kTogether,
                               left_squares + i * kTogether, right_squares + j * kTogether, sums,
                               norms);
        uint32_t rounded[kTogether];
        int32_t doubts[kTogether];
        const int64_t number =
            kernels.round[output.format](kTogether, sums, norms, scale, rounded, doubts);
        const int64_t result = memory.rows[i].result + memory.columns[j].result;
        for (int64_t lane = 0; lane < together; ++lane)
          std::memcpy(words + size * (places[lane].result + result),
                      reinterpret_cast<const char*>(rounded) + size * lane, size);
        for (int64_t d = 0; d < number; ++d)
          if (doubts[d] < together)
            compute_block(product, BlockRange{from + doubts[d], i, 1, j, 1}, output);
      }
  }
}

}  // namespace samebits

// Many small products: vectors have one element of each of many products.
#include "products_small.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "numbers.h"
#include "products_doubles.h"

namespace samebits {
namespace {

// The numbers of both factors of one product, and its results; those of wide ones take longer.
constexpr int64_t kMostNumbers = 512, kMostWideNumbers = 1024;
constexpr int64_t kMostResults = 64, kMostWideResults = 256;

struct Scratch {
  std::vector<double> numbers, squares;
  std::vector<Place> rows, columns, row_terms, column_terms;
};

}  // namespace

bool are_small(const LineProduct& product) {
  const int64_t rows = product.row_count, columns = product.column_count;
  return product.are_finite && product.batches >= 2 * kTogether && product.terms > 0 &&
         rows * columns <= (product.is_wide ? kMostWideResults : kMostResults) &&
         (rows + columns) * product.terms <=
             (product.is_wide ? kMostWideNumbers : kMostNumbers) &&
         product.rows.edges.count == 0 &&
         product.columns.edges.count == 0;
}

void compute_small(const LineProduct& product, int64_t first, int64_t count,
                   const Output& output) {
  const ProductKernels& kernels = product_kernels();
  const DoublesKernels& wide = doubles_kernels();
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
    auto pack = [&](const Factor& factor, const int64_t* offsets, const std::vector<Place>& lines,
                    const std::vector<Place>& places, double* to, double* squares) {
      const int64_t number = static_cast<int64_t>(lines.size());
      if (product.is_wide)
        return kernels.pack_wide_lanes[factor.format](factor.data, factor.scale, offsets,
                                                      lines.data(), number, places.data(), terms,
                                                      to, squares);
      kernels.pack_lanes[factor.format](factor.data, offsets, lines.data(), number, places.data(),
                                        terms, to, squares);
    };
    pack(rows, row_offsets, memory.rows, memory.row_terms, left, left_squares);
    pack(columns, column_offsets, memory.columns, memory.column_terms, right, right_squares);
    for (double& square : memory.squares)
      if (product.is_wide) square = std::sqrt(square);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        const double *row = left + i * terms * kTogether, *column = right + j * terms * kTogether;
        const double *row_squares = left_squares + i * kTogether;
        const double *column_squares = right_squares + j * kTogether;
        double sums[kTogether], norms[kTogether];
        uint64_t rounded[kTogether];
        int32_t doubts[kTogether];
        int64_t number;
        if (product.is_wide) {
          auto round = [&](const double* row_norms, const double* column_norms) {
            double middle[kTogether];
            wide.multiply_lanes(terms, row, column, row_norms, column_norms, sums, middle, norms);
            return wide.round_pairs(kTogether,
                                    {sums, middle, norms, product.lost, product.exponent},
                                    reinterpret_cast<double*>(rounded), doubts);
          };
          number = round(row_squares, column_squares);
          if (number > 0 && terms > 1) number = round(nullptr, nullptr);
        } else {
          kernels.multiply_lanes(terms, row, column, row_squares, column_squares, sums, norms);
          number = kernels.round[output.format](kTogether, sums, norms, scale, rounded, doubts);
        }
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

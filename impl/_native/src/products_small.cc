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

// The results in doubt of some columns that are settled one by one.
constexpr int64_t kMostSettled = 2;
// The columns whose results are rounded at once.
constexpr int64_t kAcross = 16;

struct Scratch {
  std::vector<double> numbers, squares;
  std::vector<Place> rows, columns, row_terms, column_terms;
};

// Products of a batch that are computed together: each lane has one of them.
class Together {
 public:
  Together(const LineProduct& product, const Output& output);
  // Computes up to kTogether products of the batch from `first` on.
  void compute(int64_t first, int64_t count);

 private:
  // What bounds the errors of wide sums, each slower than the one before: norms, the magnitudes of
  // the terms (where they have very different exponents), and what the sums lost (where many sums
  // lie in the middle of two float64).
  enum Way { kNorms, kMagnitudes, kMeasured };

  void pack(const Factor& factor, const int64_t* offsets, const std::vector<Place>& lines,
            const std::vector<Place>& places, double* to, double* squares) const;
  int64_t round(int64_t i, int64_t j, int64_t count);
  int64_t round_wide(int64_t i, int64_t j, int64_t count, Way way);
  template <typename Word>
  void put(int64_t i, int64_t j, int64_t count, int64_t lanes) const;

  const LineProduct& product_;
  const Output& output_;
  const ProductKernels& kernels_ = product_kernels();
  const DoublesKernels& wide_ = doubles_kernels();
  Scratch& memory_;
  const int64_t terms_ = product_.terms, size_ = terms_ * kTogether;  // of a line
  const double scale_ = terms_ == 1 ? 0 : of_chain(static_cast<double>(terms_));
  double *left_, *right_, *left_squares_, *right_squares_;
  Way way_ = kNorms;
  BatchPlace places_[kTogether];
  // The results of some columns, and what bounds their errors.
  double sums_[kAcross * kTogether], middle_[kAcross * kTogether], norms_[kAcross * kTogether];
  alignas(8) char rounded_[8 * kAcross * kTogether];
  int32_t doubts_[kAcross * kTogether];
};

Scratch& scratch() {
  static thread_local Scratch memory;
  return memory;
}

Together::Together(const LineProduct& product, const Output& output)
    : product_(product), output_(output), memory_(scratch()) {
  const int64_t rows = product.row_count, columns = product.column_count;
  product.rows.places(false, 0, rows, 0, &memory_.rows);
  product.rows.places(true, 0, terms_, 0, &memory_.row_terms);
  product.columns.places(false, 0, columns, 0, &memory_.columns);
  product.columns.places(true, 0, terms_, 0, &memory_.column_terms);
  memory_.numbers.resize(static_cast<size_t>((rows + columns) * size_));
  memory_.squares.resize(static_cast<size_t>((rows + columns) * kTogether));
  left_ = memory_.numbers.data();
  right_ = left_ + rows * size_;
  left_squares_ = memory_.squares.data();
  right_squares_ = left_squares_ + rows * kTogether;
}

void Together::pack(const Factor& factor, const int64_t* offsets, const std::vector<Place>& lines,
                    const std::vector<Place>& places, double* to, double* squares) const {
  const int64_t number = static_cast<int64_t>(lines.size());
  if (factor.is_wide)
    return kernels_.pack_wide_lanes[factor.format](factor.data, factor.scale, offsets, lines.data(),
                                                   number, places.data(), terms_, to, squares);
  kernels_.pack_lanes[factor.format](factor.data, offsets, lines.data(), number, places.data(),
                                     terms_, to, squares);
}

// Rounds the results of a row and of `count` columns, [count][kTogether]. Returns how many of them
// are in doubt.
int64_t Together::round(int64_t i, int64_t j, int64_t count) {
  if (product_.is_wide) {
    int64_t doubts = round_wide(i, j, count, way_), before = doubts;
    for (int way = way_ + 1; way <= kMeasured && doubts > kMostSettled; ++way) {
      before = doubts;
      doubts = round_wide(i, j, count, static_cast<Way>(way));
      // The next results are like these.
      if (before > count) way_ = static_cast<Way>(way);
    }
    return doubts;
  }
  for (int64_t c = 0; c < count; ++c)
    kernels_.multiply_lanes(terms_, left_ + i * size_, right_ + (j + c) * size_,
                            left_squares_ + i * kTogether, right_squares_ + (j + c) * kTogether,
                            sums_ + c * kTogether, norms_ + c * kTogether);
  return kernels_.round[output_.format](count * kTogether, sums_, norms_, scale_, rounded_,
                                        doubts_);
}

int64_t Together::round_wide(int64_t i, int64_t j, int64_t count, Way way) {
  for (int64_t c = 0; c < count; ++c) {
    const double *row = left_ + i * size_, *column = right_ + (j + c) * size_;
    const double *row_norms = left_squares_ + i * kTogether,
                 *column_norms = right_squares_ + (j + c) * kTogether;
    double *sums = sums_ + c * kTogether, *middle = middle_ + c * kTogether,
           *lost = norms_ + c * kTogether;
    if (way == kMeasured) {
      wide_.measure_lanes(terms_, row, column, sums, middle, lost);
    } else {
      const bool has_norms = way == kNorms;
      wide_.multiply_lanes(terms_, row, column, has_norms ? row_norms : nullptr,
                           has_norms ? column_norms : nullptr, sums, middle, lost);
    }
  }
  return wide_.round_pairs(count * kTogether,
                           {sums_, middle_, norms_, product_.lost, product_.exponent},
                           reinterpret_cast<double*>(rounded_), doubts_);
}

// Writes the results of `lanes` products.
template <typename Word>
void Together::put(int64_t i, int64_t j, int64_t count, int64_t lanes) const {
  Word* words = static_cast<Word*>(output_.words) + memory_.rows[i].result;
  const Place* columns = memory_.columns.data() + j;
  for (int64_t lane = 0; lane < lanes; ++lane)
    for (int64_t c = 0; c < count; ++c)
      std::memcpy(words + places_[lane].result + columns[c].result,
                  rounded_ + sizeof(Word) * (c * kTogether + lane), sizeof(Word));
}

void Together::compute(int64_t first, int64_t count) {
  int64_t row_offsets[kTogether], column_offsets[kTogether];
  for (int64_t lane = 0; lane < kTogether; ++lane) {
    // Lanes without a product have the last one again.
    places_[lane] = batch_place(product_, first + std::min(lane, count - 1));
    row_offsets[lane] = places_[lane].rows;
    column_offsets[lane] = places_[lane].columns;
  }
  pack(product_.rows, row_offsets, memory_.rows, memory_.row_terms, left_, left_squares_);
  pack(product_.columns, column_offsets, memory_.columns, memory_.column_terms, right_,
       right_squares_);
  for (double& square : memory_.squares)
    if (product_.is_wide) square = std::sqrt(square);
  for (int64_t i = 0; i < product_.row_count; ++i)
    for (int64_t j = 0; j < product_.column_count; j += kAcross) {
      const int64_t across = std::min(kAcross, product_.column_count - j);
      const int64_t doubts = round(i, j, across);
      with_format(output_.format, [&](auto format) {
        put<typename decltype(format)::Word>(i, j, across, count);
      });
      for (int64_t d = 0; d < doubts; ++d) {
        const int64_t lane = doubts_[d] % kTogether, column = j + doubts_[d] / kTogether;
        if (lane < count)
          compute_block(product_, BlockRange{first + lane, i, 1, column, 1}, output_);
      }
    }
}

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
  Together together(product, output);
  for (int64_t from = first; from < first + count; from += kTogether)
    together.compute(from, std::min(kTogether, first + count - from));
}

}  // namespace samebits

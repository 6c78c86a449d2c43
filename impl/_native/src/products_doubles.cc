// Products with a factor or a result of float64, whose terms float64 does not hold.
//
// The sums of a block have almost twice the bits of float64, and most results are decided by their
// bounds. Where many are not, as their factors have very different exponents, the block is added
// again with a bound of each element. An element in doubt is added again with all errors that float64
// has, and then exactly (wide_accumulator.h).
//
// Factors are scaled by a power of two if they are far from 1, so nothing overflows or underflows. A
// factor that is far smaller than the greatest ones counts as one that is not quite as small, which
// is a part of the bound. A factor that is not finite counts as 0, and its results are added by
// IEEE 754 alone.
#include "products_doubles.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "numbers.h"
#include "products_few.h"
#include "products_panels.h"
#include "wide_accumulator.h"

namespace samebits {
namespace {

// Rounds (near + rest) * 2**exponent, where the rest is exact within an error. Returns whether the
// error decides it.
template <typename R>
bool is_decided(double near, double rest, double error, int exponent, typename R::Word* word) {
  const double wider = error == 0 ? 0 : error * (1 + 0x1p-10) + std::fabs(rest) * 0x1p-51;
  auto end = [&](double part, typename R::Word* to) {
    double sum = near;
    const double lost = two_sum(&sum, part);
    if constexpr (sizeof(typename R::Word) == 8) {
      return is_scaled(sum, exponent, to);
    } else {
      *to = R::narrow(std::ldexp(samebits::to_odd(sum, lost), exponent));
      return true;
    }
  };
  typename R::Word other;
  const bool is_low = end(rest - wider, word), is_high = end(rest + wider, &other);
  return is_low && is_high && *word == other;
}

// A sum near + rest of float64, and the magnitudes that it lost.
struct MeasuredSum {
  double near = 0, rest = 0, lost = 0;

  void add(double part) { lost += std::fabs(two_sum(&rest, two_sum(&near, part))); }
};

// The most results of a block that are added along their terms.
constexpr int64_t kFew = 2;
// The most terms that are added in pairs before a lane of 16 is added up.
constexpr int64_t kMostOfPairs = 1 << 13;
// A block of which more than one of this many results is in doubt is added again.
constexpr int64_t kMostSettled = 16;

class WideBlock : public Panels {
 public:
  WideBlock(const LineProduct& product, const BlockRange& range, const Output& output)
      : Panels(product, range, false, numbers(product, range, output),
               !reads_across(product, output)),
        output_(output),
        sums_(rows_of_sums(product, range) * stride_),
        high_(numbers_) {
    memory_.doubtful.clear();
    memory_.unused.resize(static_cast<size_t>(stride_));
    memory_.doubts.resize(columns_);
  }
  void compute();

 private:
  // Whether results are rounded as they are added, or each of them is added along its terms.
  static bool has_few_terms(const LineProduct& product, const Output& output) {
    return product.terms > 0 && product.terms <= kFewTerms && output.format == kFloat64;
  }
  static bool is_long(const LineProduct& product, const BlockRange& range) {
    return range.rows * range.columns <= kFew && product.terms >= kTerms;
  }
  // Whether the columns are read along neighbours of the result, and need no places.
  static bool reads_across(const LineProduct& product, const Output& output) {
    return has_few_terms(product, output) && !product.columns.runs_along_terms &&
           Panels::are_neighbours(product);
  }
  static int64_t numbers(const LineProduct& product, const BlockRange& range,
                         const Output& output) {
    const int64_t stride = up(range.columns, product_kernels().columns);
    if (has_few_terms(product, output) || is_long(product, range)) return 0;
    return 3 * rows_of_sums(product, range) * stride + up(range.rows, 16);
  }
  // A panel of rows that has all terms is rounded while its sums are near.
  static bool has_panels_of_sums(const LineProduct& product) { return product.terms <= kTerms; }
  static int64_t rows_of_sums(const LineProduct& product, const BlockRange& range) {
    return has_panels_of_sums(product) ? product_kernels().rows : range.rows;
  }
  void add_terms(bool has_norms);
  void add_rows(int64_t first, int64_t lines, int64_t count, bool has_norms, bool adds);
  void add_few_terms();
  int64_t round_few(const double* row, int64_t step, const ColumnsOfTerms& columns, double* to,
                    int32_t* doubts);
  template <typename Round>
  void round_rows(int64_t first, int64_t lines, const Round& round);
  int64_t round_row(const PairsOfRow& pairs, char* words);
  void settle(int64_t i, int64_t j) const;
  MeasuredSum sum_of_pairs(int64_t i, int64_t j) const;
  MeasuredSum measured(int64_t i, int64_t j) const;
  bool is_settled(const MeasuredSum& sum, void* word) const;
  char* word(int64_t i, int64_t j) const {
    return static_cast<char*>(output_.words) + size_ * result(i, j);
  }
  // Writes a value, of which R::narrow takes two roundings for one.
  template <typename Write>
  void write(void* word, const Write& rounded) const {
    with_format(output_.format, [&](auto format) {
      const auto bits = rounded(format);
      std::memcpy(word, &bits, sizeof bits);
    });
  }

  const DoublesKernels& wide_ = doubles_kernels();
  const Output& output_;
  const int64_t size_ = bytes_of(output_.format);
  const int64_t sums_;  // of each of three arrays: high, middle, and what was lost
  double* const high_;
  bool are_measured_ = false;
  const bool is_dense_ = are_neighbours();
  const int64_t first_result_ = product_.columns.line(range_.first_column).result;
};

// Adds the products of a panel of rows to their sums.
void WideBlock::add_rows(int64_t first, int64_t lines, int64_t count, bool has_norms, bool adds) {
  const int64_t width = kernels_.columns;
  double* norms = high_ + 3 * sums_;
  for (int64_t i = 0; i < lines; ++i) norms[i] = std::sqrt(row_norms_[first + i]);
  WideTile tile{interleaved_, adds, lines, 2, count, panel(first), right_, nullptr, nullptr,
                nullptr, nullptr, nullptr, stride_};
  double* to = high_ + (has_panels_of_sums(product_) ? 0 : first * stride_);
  for (int64_t j = 0; j < columns_; j += width) {
    tile.vectors = columns_ - j > width / 2 ? 2 : 1;
    tile.right = right_ + j * panel_;
    tile.row_norms = has_norms ? norms : nullptr;
    tile.column_norms = memory_.norms.data() + j;
    tile.high = to + j;
    tile.middle = tile.high + sums_;
    tile.lost = tile.middle + sums_;
    wide_.add_tile(tile);
  }
}

// Adds all products, and rounds the sums.
void WideBlock::add_terms(bool has_norms) {
  memory_.doubtful.clear();
  memory_.norms.resize(static_cast<size_t>(stride_));
  std::fill(column_norms_, column_norms_ + stride_ + rows_, 0.0);
  for (int64_t from = 0; from < product_.terms; from += kTerms) {
    const int64_t count = std::min(kTerms, product_.terms - from);
    read_terms(from, count);
    pack_right(count);
    // The norms of all terms so far bound those of a part.
    for (int64_t j = 0; j < stride_; ++j) memory_.norms[j] = std::sqrt(column_norms_[j]);
    if (interleaved_) pack_interleaved(count);
    for (int64_t i = 0; i < rows_; i += height_) {
      const int64_t lines = std::min(height_, rows_ - i);
      if (!interleaved_) pack_rows(i, lines, count);
      add_rows(i, lines, count, has_norms, from > 0);
      if (from + count < product_.terms) continue;
      round_rows(i, lines, [&](int64_t row, char* words) {
        const double* high = high_ + (row - (has_panels_of_sums(product_) ? i : 0)) * stride_;
        return round_row({high, high + sums_, high + 2 * sums_, product_.lost, product_.exponent},
                         words);
      });
    }
  }
}

// Rounds sums of few terms. Where they are as short as those of small integers, many lie in the
// middle of two float64, and all are measured.
int64_t WideBlock::round_few(const double* row, int64_t step, const ColumnsOfTerms& columns,
                             double* to, int32_t* doubts) {
  if (!are_measured_) {
    const int64_t number = wide_.round_few_terms(product_.terms, row, step, columns, product_.lost,
                                                 product_.exponent, to, doubts);
    if (number * kMostSettled <= columns.count) return number;
    are_measured_ = product_.terms > 1;
  }
  double left[kFewTerms], near[kMostColumns], rest[kMostColumns], lost[kMostColumns];
  for (int64_t k = 0; k < product_.terms; ++k) left[k] = row[k * step];
  const int64_t width = kernels_.columns;
  for (int64_t j = 0; j < columns.count; j += width)
    few_kernels().multiply(1, width, product_.terms, columns.step, left,
                           columns.first + j / width * columns.panel, near + j, rest + j, lost + j);
  return wide_.round_pairs(columns.count, {near, rest, lost, product_.lost, product_.exponent}, to,
                           doubts);
}

// The same where results are rounded as they are added.
void WideBlock::add_few_terms() {
  read_terms(0, product_.terms);
  const bool runs_along_terms = product_.columns.runs_along_terms;
  runs_along_terms ? pack_right(product_.terms) : pack_across(product_.terms);
  if (interleaved_) pack_interleaved(product_.terms);
  const int64_t width = kernels_.columns;
  const ColumnsOfTerms columns{right_, runs_along_terms ? width : stride_,
                               runs_along_terms ? panel_ * width : width, columns_};
  const int64_t step = interleaved_ ? kernels_.step : 1;
  for (int64_t first = 0; first < rows_; first += height_) {
    const int64_t lines = std::min(height_, rows_ - first);
    if (!interleaved_) pack_rows(first, lines, product_.terms);
    round_rows(first, lines, [&](int64_t i, char* words) {
      const double* row = panel(first) + (i - first) * (interleaved_ ? 1 : kRow);
      int64_t doubts = 0;
      for (int64_t j = 0; j < columns_; j += kMostColumns) {
        const int64_t number = std::min(kMostColumns, columns_ - j);
        const ColumnsOfTerms some{columns.first + j / width * columns.panel, columns.step,
                                  columns.panel, number};
        int32_t* to = memory_.doubts.data() + doubts;
        const int64_t more = round_few(row, step, some, reinterpret_cast<double*>(words) + j, to);
        for (int64_t d = 0; d < more; ++d) to[d] += static_cast<int32_t>(j);
        doubts += more;
      }
      return doubts;
    });
  }
}

// Calls round(i, words) of rows, which writes the columns in doubt and returns their number.
template <typename Round>
void WideBlock::round_rows(int64_t first, int64_t lines, const Round& round) {
  char* buffer = reinterpret_cast<char*>(memory_.unused.data());
  for (int64_t i = first; i < first + lines; ++i) {
    const int64_t start = result_ + memory_.rows[i].result + first_result_;
    char* words = static_cast<char*>(output_.words) + size_ * start;
    const int64_t doubts = round(i, is_dense_ ? words : buffer);
    for (int64_t d = 0; d < doubts; ++d)
      memory_.doubtful.push_back({static_cast<int32_t>(i), memory_.doubts[d], 0});
    for (int64_t j = 0; j < columns_ && !is_dense_; ++j)
      std::memcpy(word(i, j), buffer + size_ * j, size_);
  }
}

// Rounds a row of sums.
int64_t WideBlock::round_row(const PairsOfRow& pairs, char* words) {
  if (output_.format == kFloat64)
    return wide_.round_pairs(columns_, pairs, reinterpret_cast<double*>(words),
                             memory_.doubts.data());
  int64_t doubts = 0;
  with_format(output_.format, [&](auto format) {
    auto* word = reinterpret_cast<typename decltype(format)::Word*>(words);
    for (int64_t j = 0; j < columns_; ++j)
      if (!is_decided<decltype(format)>(pairs.high[j], pairs.middle[j],
                                        pairs.lost[j] + pairs.constant, pairs.exponent, word + j))
        memory_.doubts[doubts++] = static_cast<int32_t>(j);
  });
  return doubts;
}

void WideBlock::compute() {
  if (is_long(product_, range_) || product_.terms == 0) {
    for (int64_t i = 0; i < rows_; ++i)
      for (int64_t j = 0; j < columns_; ++j) settle(i, j);
  } else if (has_few_terms(product_, output_)) {
    add_few_terms();
  } else {
    add_terms(true);
    if (static_cast<int64_t>(memory_.doubtful.size()) * kMostSettled > rows_ * columns_)
      add_terms(false);
  }
  const bool has_places = !reads_across(product_, output_);
  if (!has_places && (!memory_.doubtful.empty() || !product_.are_finite)) place_columns();
  for (const Doubtful& each : memory_.doubtful) settle(each.row, each.column);
  each_special([&](int64_t i, int64_t j) {
    const double sum = special_sum(product_, memory_.rows[i], memory_.columns[j]);
    write(word(i, j), [&](auto format) { return decltype(format)::narrow(sum); });
  });
}

// Calls use(left, right, count, from) of blocks of terms: `count` elements of each line.
template <typename Use>
void each_block(int64_t terms, Line* rows, Line* columns, const Use& use) {
  double left[kRow], right[kRow];
  for (int64_t from = 0; from < terms; from += kTerms) {
    const int64_t count = rows->load(from, left);
    columns->load(from, right);
    use(left, right, count, from);
  }
}

// Returns a sum with a bound of its error by norms.
MeasuredSum WideBlock::sum_of_pairs(int64_t i, int64_t j) const {
  const int64_t terms = product_.terms;
  Line rows(product_.rows, memory_.rows[i], terms, true);
  Line columns(product_.columns, memory_.columns[j], terms, true);
  PairSum pairs;
  MeasuredSum sum;
  auto add_lanes = [&] {
    for (int lane = 0; lane < 16; ++lane)
      for (double part : {pairs.high[lane], pairs.low[lane]}) sum.add(part);
    pairs = PairSum();
  };
  each_block(terms, &rows, &columns, [&](double* left, double* right, int64_t count, int64_t from) {
    wide_.add_pairs(left, right, count, &pairs);
    if ((from / kTerms + 1) % (kMostOfPairs / kTerms) == 0) add_lanes();
  });
  add_lanes();
  const double norms = std::sqrt(rows.squares()) * std::sqrt(columns.squares());
  sum.lost += scale_of_pairs(parts_of(std::min(terms, kMostOfPairs), 16)) * norms;
  return sum;
}

// Returns a sum of which all is known that was lost: nothing, as a rule.
MeasuredSum WideBlock::measured(int64_t i, int64_t j) const {
  const int64_t terms = product_.terms;
  Line rows(product_.rows, memory_.rows[i], terms, true);
  Line columns(product_.columns, memory_.columns[j], terms, true);
  MeasuredSum sum;
  each_block(terms, &rows, &columns, [&](double* left, double* right, int64_t count, int64_t) {
    double near, rest, lost;
    few_kernels().multiply_rows(up(count, 8), left, right, &near, &rest, &lost);
    sum.add(near);
    sum.add(rest);
    sum.lost += lost;
  });
  return sum;
}

// Rounds a sum. Returns whether what it may have lost decides that.
bool WideBlock::is_settled(const MeasuredSum& sum, void* word) const {
  double near = sum.near;
  const double rest = two_sum(&near, sum.rest);
  return with_format(output_.format, [&](auto format) {
    using R = decltype(format);
    typename R::Word bits;
    if (!is_decided<R>(near, rest, sum.lost + product_.lost, product_.exponent, &bits))
      return false;
    std::memcpy(word, &bits, sizeof bits);
    return true;
  });
}

// Rounds one element whose bound decides nothing, in ways of which each is slower.
void WideBlock::settle(int64_t i, int64_t j) const {
  void* word = this->word(i, j);
  if (is_long(product_, range_) && is_settled(sum_of_pairs(i, j), word)) return;
  if (is_settled(measured(i, j), word)) return;
  int64_t digits[WideAccumulator::kDigits];
  exact_digits(product_, memory_.rows[i], memory_.columns[j], digits);
  WideAccumulator exact;
  std::copy(digits, digits + WideAccumulator::kDigits, exact.digit);
  write(word, [&](auto format) { return rounded<decltype(format)>(exact); });
}

}  // namespace

void compute_wide_block(const LineProduct& product, const BlockRange& range,
                        const Output& output) {
  WideBlock block(product, range, output);
  block.compute();
}

}  // namespace samebits

// Products with a factor or a result of float64, whose terms float64 does not hold.
//
// The sums of a block have almost twice the bits of float64 (products_split.h), and most results are
// decided by their bounds. An element in doubt is added again in pairs of float64, whose errors are
// relative to 2**-106, and then exactly (wide_accumulator.h).
//
// Factors are scaled by a power of two, so nothing overflows or underflows. A factor that is far
// smaller than the greatest ones counts as one that is not quite as small, which is a part of the
// bound. A factor that is not finite counts as 0, and its results are added by IEEE 754 alone.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "numbers.h"
#include "products_split.h"
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

// The most rows that are not split, since each element of the columns is used for few products.
constexpr int64_t kFew = 2;
// The most terms that are added in pairs, and those after which a lane of 16 is added up.
constexpr int64_t kMostOfPairs = 1 << 13;

class WideBlock : public SplitBlock {
 public:
  WideBlock(const LineProduct& product, const BlockRange& range, const Output& output)
      : SplitBlock(product, range, true, range.rows <= kFew && product.terms <= kMostOfPairs,
                   false, !has_few_terms(product, output) && !is_long(product, range)),
        output_(output) {}
  void compute();

 private:
  // Whether results are rounded as they are added, or each of them is added along its terms.
  static bool has_few_terms(const LineProduct& product, const Output& output) {
    return product.terms > 0 && product.terms <= kFewTerms && output.format == kFloat64;
  }
  static bool is_long(const LineProduct& product, const BlockRange& range) {
    return range.rows * range.columns <= kFew && product.terms >= kTerms;
  }
  int64_t round_row(int64_t i, char* words);
  int64_t round_few_terms(int64_t i, char* words);
  void settle(int64_t i, int64_t j, void* word) const;
  // Writes a value, of which R::narrow takes two roundings for one.
  template <typename Write>
  void write(void* word, const Write& rounded) const {
    with_format(output_.format, [&](auto format) {
      const auto bits = rounded(format);
      std::memcpy(word, &bits, sizeof bits);
    });
  }

  const Output& output_;
};

// Rounds a row of results, and writes the columns of those in doubt. Returns their number.
int64_t WideBlock::round_row(int64_t i, char* words) {
  const int64_t from = i * stride_;
  const double of_row = row_norms_[i];
  const PairsOfRow pairs{high_ + from,
                         middle_ + from,
                         low_ + from,
                         lost_ + from,
                         column_norms_,
                         column_rests_,
                         are_few_ ? 0 : scale() * of_row,
                         are_few_ ? scale_of_pairs(product_.terms) * of_row : scale() * row_rests_[i],
                         product_.lost,
                         product_.exponent};
  int64_t doubts = 0;
  if (output_.format == kFloat64) {
    doubts = kernels_.round_pairs(columns_, pairs, reinterpret_cast<double*>(words),
                                  memory_.doubts.data());
  } else {
    with_format(output_.format, [&](auto format) {
      auto* word = reinterpret_cast<typename decltype(format)::Word*>(words);
      for (int64_t j = 0; j < columns_; ++j) {
        double middle = pairs.middle[j];
        const double lost = two_sum(&middle, pairs.low[j]);
        const double error = pairs.lost[j] + std::fabs(lost) + pairs.constant +
                             (pairs.norm * column_rests_[j] + pairs.rest * column_norms_[j]);
        if (!is_decided<decltype(format)>(pairs.high[j], middle, error, pairs.exponent, word + j))
          memory_.doubts[doubts++] = static_cast<int32_t>(j);
      }
    });
  }
  return doubts;
}

// The same where results are rounded as they are added.
int64_t WideBlock::round_few_terms(int64_t i, char* words) {
  const int64_t step = interleaved_ ? kernels_.step : 1, line = i % height_;
  const double* row = interleaved_ ? panel(i - line) + line : left_ + line * kRow;
  return kernels_.round_few_terms(product_.terms, row, step, right_, panel_ * kernels_.columns,
                                  columns_, scale_of_pairs(product_.terms), product_.lost,
                                  product_.exponent, reinterpret_cast<double*>(words),
                                  memory_.doubts.data());
}

void WideBlock::compute() {
  const int64_t size = bytes_of(output_.format);
  char* words = static_cast<char*>(output_.words);
  const bool is_dense = are_neighbours();
  const bool are_long = is_long(product_, range_);
  const bool are_few = has_few_terms(product_, output_);
  memory_.doubtful.clear();
  memory_.unused.resize(static_cast<size_t>(stride_));
  memory_.doubts.resize(columns_);
  char* buffer = reinterpret_cast<char*>(memory_.unused.data());
  if (are_few) {
    read_terms(0, product_.terms);
    pack_right(product_.terms);
    if (interleaved_) pack_interleaved(product_.terms);
  } else if (!are_long) {
    add_terms();
  }
  for (int64_t i = 0; i < rows_ && !are_long; ++i) {
    if (are_few && !interleaved_ && i % height_ == 0) {
      const int64_t lines = std::min(height_, rows_ - i);
      pack_rows(i, lines, product_.terms);
    }
    char* row = is_dense ? words + size * result(i, 0) : buffer;
    const int64_t doubts = are_few ? round_few_terms(i, row) : round_row(i, row);
    for (int64_t d = 0; d < doubts; ++d)
      memory_.doubtful.push_back({static_cast<int32_t>(i), memory_.doubts[d], 0});
    for (int64_t j = 0; j < columns_ && !is_dense; ++j)
      std::memcpy(words + size * result(i, j), buffer + size * j, size);
  }
  for (int64_t i = 0; i < rows_ && are_long; ++i)
    for (int64_t j = 0; j < columns_; ++j) settle(i, j, words + size * result(i, j));
  for (const Doubtful& each : memory_.doubtful)
    settle(each.row, each.column, words + size * result(each.row, each.column));
  each_special([&](int64_t i, int64_t j) {
    const double sum = special_sum(product_, memory_.rows[i], memory_.columns[j]);
    write(words + size * result(i, j),
          [&](auto format) { return decltype(format)::narrow(sum); });
  });
}

// Rounds one element whose bound decides nothing.
void WideBlock::settle(int64_t i, int64_t j, void* word) const {
  const int64_t terms = product_.terms;
  Line rows(product_.rows, memory_.rows[i], terms, true);
  Line columns(product_.columns, memory_.columns[j], terms, true);
  double left[kRow], right[kRow];
  PairSum sum;
  double near = 0, rest = 0, lost = 0;
  auto add_lanes = [&] {
    for (int lane = 0; lane < 16; ++lane)
      for (double part : {sum.high[lane], sum.low[lane]})
        lost += std::fabs(two_sum(&rest, two_sum(&near, part)));
    sum = PairSum();
  };
  for (int64_t from = 0; from < terms; from += kTerms) {
    const int64_t count = rows.load(from, left);
    columns.load(from, right);
    kernels_.add_wide_pairs(left, right, count, &sum);
    if ((from / kTerms + 1) % (kMostOfPairs / kTerms) == 0) add_lanes();
  }
  add_lanes();
  const double norms = std::sqrt(rows.squares()) * std::sqrt(columns.squares());
  const double scale = scale_of_pairs(parts_of(std::min(terms, kMostOfPairs), 16));
  const double error = scale * norms + lost + product_.lost;
  rest = two_sum(&near, rest);
  const bool is_done = with_format(output_.format, [&](auto format) {
    using R = decltype(format);
    typename R::Word bits;
    const bool is_done =
        is_decided<R>(near, rest, error, product_.exponent, &bits);
    if (is_done) std::memcpy(word, &bits, sizeof bits);
    return is_done;
  });
  if (is_done) return;
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

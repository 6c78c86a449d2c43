#include "products_block.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <cstring>
#include <vector>

#include "numbers.h"
#include "products_panels.h"
#include "wide_accumulator.h"

namespace samebits {
namespace {

constexpr int64_t kNoBit = INT64_MAX;

// The greatest q known so that all values are multiples of 2**q: the last bit that is set in any of
// them, in the least exponent.
int64_t last_of(const Bits& bits) {
  if (bits.least == ~0ull) return kNoBit;
  const uint64_t fractions = (bits.any & 0xfffffffffffffull) | (1ull << 52);
  return static_cast<int64_t>(bits.least >> 52) - 1075 + __builtin_ctzll(fractions);
}

int64_t last_bit_of(const Factor& factor, const Place& place, int64_t terms) {
  Line line(factor, place, terms);
  double values[kRow];
  Bits bits;
  for (int64_t from = 0; from < terms; from += kTerms) {
    const int64_t count = line.load(from, values);
    product_kernels().add_bits(values, count, &bits);
  }
  return last_of(bits);
}

// The power of two that divides all products of two lines.
double power(int64_t row, int64_t column) {
  if (row == kNoBit || column == kNoBit) return kGreatest;
  const int64_t field = row + column + 1023;  // of the exponent
  return double_of(static_cast<uint64_t>(field) << 52);
}

void add_exactly(const LineProduct& product, const Place& row, const Place& column,
                 Accumulator* sum) {
  Line rows(product.rows, row, product.terms), columns(product.columns, column, product.terms);
  double left[kRow], right[kRow];
  int64_t calls = 0;
  for (int64_t from = 0; from < product.terms; from += kTerms) {
    const int64_t count = rows.load(from, left);
    columns.load(from, right);
    for (int64_t k = 0; k < count; ++k) {
      const double term = left[k] * right[k];
      if (is_finite(term)) sum->add(term);
    }
    if ((calls += count) >= (1 << 29)) {
      sum->carry();
      calls = 0;
    }
  }
}

// The exact sum of products of float64, of which each device of a sum adds one infinity or NaN.
void add_exactly(const LineProduct& product, const Place& row, const Place& column,
                 WideAccumulator* sum) {
  Line rows(product.rows, row, product.terms), columns(product.columns, column, product.terms);
  double left[kRow], right[kRow];
  for (int64_t from = 0; from < product.terms; from += kTerms) {
    const int64_t count = rows.load(from, left);
    columns.load(from, right);
    for (int64_t k = 0; k < count; ++k)
      if (is_finite(left[k]) && is_finite(right[k])) sum->add_product(left[k], right[k]);
    sum->carry();
  }
  if (product.are_finite) return;
  const double special = special_sum(product, row, column);
  if (!is_finite(special)) sum->add_special(special);
}

bool has_bits(const std::vector<int64_t>& bits, int64_t line) {
  return !bits.empty() && bits[line] != INT64_MIN;
}

class Block : Panels {
 public:
  Block(const LineProduct& product, const BlockRange& range, const Output& output)
      : Panels(product, range, product.has_few_rows, size_of_sums(product, range, output)),
        output_(output),
        sums_(numbers_) {
    memory_.row_bits.clear();
    memory_.column_bits.clear();
    memory_.doubtful.clear();
  }
  void compute();

 private:
  static bool rounds_panels(const LineProduct& product, const BlockRange& range,
                            const Output& output) {
    return output.words != nullptr && range.splits == 1 && !product.has_few_rows;
  }
  static bool has_one_panel_of_sums(const LineProduct& product, const BlockRange& range,
                                    const Output& output) {
    return rounds_panels(product, range, output) && product.terms > 0 && product.terms <= kTerms;
  }
  static int64_t size_of_sums(const LineProduct& product, const BlockRange& range,
                              const Output& output) {
    const int64_t lines =
        has_one_panel_of_sums(product, range, output) ? product_kernels().rows : range.rows;
    return lines * up(range.columns, product_kernels().columns);
  }
  double* sums_of(int64_t row) const { return sums_ + (row - first_sum_) * stride_; }
  void multiply(bool adds, int64_t count, bool are_last);
  void add_terms(int64_t begin, int64_t end);
  bool add_partial_sums();
  double roundings() const;
  void multiply_few(int64_t count);
  void find_scale();
  // A bound of the sum of the magnitudes of the terms.
  double magnitudes(int64_t i, int64_t j) const {
    return row_norms_[i] * column_norms_[j] * (1 + 0x1p-10);
  }
  void round_rows(int64_t first, int64_t lines);
  void settle_all();
  void finish_bounds();
  void settle(int64_t i, int64_t j, double sum, void* word);
  double double_sum(int64_t i, int64_t j, double* error);
  void find_all_bits();
  double last_bit(int64_t i, int64_t j, int64_t count);
  int64_t bits_of_row(int64_t i);
  int64_t bits_of_column(int64_t j);

  const Output& output_;
  int64_t exact_sums_ = 0;  // elements in doubt that were not rounded
  bool has_all_bits_ = false;
  double scale_ = 0;  // of the errors, relative to the product of the norms
  double* sums_;
  int64_t first_sum_ = 0;  // the row of sums_
  const bool is_dense_ = are_neighbours();
  const bool rounds_panels_ = rounds_panels(product_, range_, output_);
  const bool has_one_panel_of_sums_ = has_one_panel_of_sums(product_, range_, output_);
};

// Adds the products of all panels. Rounds each panel after its last terms, while its sums are near.
void Block::multiply(bool adds, int64_t count, bool are_last) {
  const bool rounds = are_last && rounds_panels_;
  if (rounds) find_scale();
  const int64_t width = kernels_.columns;
  if (interleaved_) pack_interleaved(count);
  for (int64_t i = 0; i < rows_; i += height_) {
    const int64_t lines = std::min(height_, rows_ - i);
    if (!interleaved_) pack_rows(i, lines, count);
    if (has_one_panel_of_sums_) first_sum_ = i;
    for (int64_t j = 0; j < columns_; j += width)
      kernels_.multiply(interleaved_, lines, columns_ - j > width / 2 ? 2 : 1, count, panel(i),
                        right_ + j * panel_, sums_of(i) + j, stride_, adds);
    if (rounds) round_rows(i, lines);
  }
}

// Multiplies few rows, and reads the columns in place.
void Block::multiply_few(int64_t count) {
  const Factor &rows = product_.rows, &columns = product_.columns;
  const Part left{rows.data, &rows.edges, rows.inner_terms, memory_.rows.data(), rows_,
                  memory_.row_runs.data(), row_runs_, count};
  kernels_.pack_rows[rows.format](left, left_, kLong, row_norms_);
  const bool along_terms = columns.runs_along_terms;
  Run* runs = memory_.column_runs.data();
  Part right{columns.data, &columns.edges, columns.inner_terms, memory_.columns.data(), columns_,
             runs, column_runs_, count};
  if (!along_terms) {
    right.inner = columns.inner_free;
    right.singles = memory_.column_terms.data();
    right.single_count = count;
    right.run_count = columns.runs(false, range_.first_column, columns_, column_start_, runs);
    right.run_length = columns_;
  }
  kernels_.multiply_few[columns.format](along_terms, rows_, right, left_, sums_, stride_,
                                      column_norms_);
}

// Adds the products of terms to the sums, in blocks.
void Block::add_terms(int64_t begin, int64_t end) {
  const bool are_few = product_.has_few_rows;
  if (begin == end || are_few) std::fill(sums_, sums_ + rows_ * stride_, 0.0);
  for (int64_t from = begin; from < end; from += block_terms_) {
    const int64_t count = std::min(block_terms_, end - from);
    read_terms(from, count);
    if (are_few) {
      multiply_few(count);
    } else {
      pack_right(count);
      multiply(from > begin, count, from + count == end);
    }
  }
}

// Writes the sums of a part of the terms. Returns whether all parts are done, and adds them then.
bool Block::add_partial_sums() {
  const int64_t numbers = rows_ * stride_ + stride_ + rows_;
  double* partial = range_.partial + range_.split * range_.partial_size;
  std::copy(sums_, sums_ + numbers, partial);
  if (range_.done->fetch_add(1, std::memory_order_acq_rel) + 1 < range_.splits) return false;
  for (int64_t split = 0; split < range_.splits; ++split) {
    if (split == range_.split) continue;
    const double* other = range_.partial + split * range_.partial_size;
    for (int64_t i = 0; i < numbers; ++i) sums_[i] += other[i];
  }
  return true;
}

// Returns a bound of the roundings that a term goes through.
double Block::roundings() const {
  const int64_t terms = parts_of(product_.terms, range_.splits);
  auto blocks_of = [&](int64_t size) { return parts_of(terms, size); };
  // One for each term of its block, one for each block, and two for each part.
  int64_t chain = std::min(terms, block_terms_) + blocks_of(block_terms_);
  const Inner& inner = product_.columns.inner_terms;
  if (product_.has_few_rows && !product_.columns.runs_along_terms) {
    chain = std::min(terms, kAtOnce) + blocks_of(kAtOnce);
  } else if (product_.has_few_rows && inner.length == product_.terms && inner.unit == 1) {
    // Each lane has a chain; fewer than 32 terms are added after them.
    const int64_t lanes = kernels_.columns / 2;
    chain = std::min(terms, block_terms_ / lanes + 64) + blocks_of(block_terms_);
  }
  return static_cast<double>(chain + 2 * (range_.splits - 1));
}

// Makes norms of the sums of squares of the columns, and finds the scale of the errors.
void Block::find_scale() {
  for (int64_t j = 0; j < columns_; ++j) column_norms_[j] = std::sqrt(column_norms_[j]);
  double chain = product_.terms <= 1 ? 0 : roundings();
  // Sums of several devices go through up to parts - 1 additions more, whose errors are at most
  // (parts - 1) u / (1 - (parts - 1) u) times the sum of their magnitudes, and a magnitude is at
  // most (1 + scale) times the product of its device's norms.
  if (output_.bounds.parts > 1) chain += static_cast<double>(output_.bounds.parts + 1);
  scale_ = of_chain(chain);
}

void Block::compute() {
  const int64_t terms = product_.terms;
  const int64_t begin = terms * range_.split / range_.splits;
  add_terms(begin, terms * (range_.split + 1) / range_.splits);
  if (range_.splits > 1 && !add_partial_sums()) return;
  if (!rounds_panels_ || terms == 0) {
    find_scale();
    if (output_.words == nullptr) return finish_bounds();
    round_rows(0, rows_);
  }
  settle_all();
}

// Rounds rows whose sums are complete, and keeps the elements in doubt for `settle_all`, which
// reads panels of its own.
void Block::round_rows(int64_t first, int64_t lines) {
  const std::vector<Place>& columns = memory_.columns;
  memory_.doubts.resize(columns_);
  memory_.words.resize(columns_);
  const int64_t size = bytes_of(output_.format);
  char* words = static_cast<char*>(output_.words);
  char* buffer = reinterpret_cast<char*>(memory_.words.data());
  for (int64_t i = first; i < first + lines; ++i) {
    row_norms_[i] = std::sqrt(row_norms_[i]);
    const int64_t start = result_ + memory_.rows[i].result;
    char* row = is_dense_ ? words + size * (start + columns[0].result) : buffer;
    const double* sums = sums_of(i);
    const int64_t doubts =
        kernels_.round[output_.format](columns_, sums, column_norms_, row_norms_[i] * scale_, row,
                                     memory_.doubts.data());
    const size_t before = memory_.doubtful.size();
    memory_.doubtful.resize(before + static_cast<size_t>(doubts));
    for (int64_t d = 0; d < doubts; ++d)
      memory_.doubtful[before + d] = {static_cast<int32_t>(i), memory_.doubts[d],
                                      sums[memory_.doubts[d]]};
    if (is_dense_) continue;
    for (int64_t j = 0; j < columns_; ++j)
      std::memcpy(words + size * (start + columns[j].result), buffer + size * j, size);
  }
}

void Block::settle_all() {
  const int64_t size = bytes_of(output_.format);
  with_format(output_.format, [&](auto format) {
    for (const Doubtful& each : memory_.doubtful) {
      const int64_t i = each.row, j = each.column;
      const int64_t at = result_ + memory_.rows[i].result + memory_.columns[j].result;
      char* word = static_cast<char*>(output_.words) + size * at;
      // Once `find_all_bits` has run, this is the first way of `settle`.
      if (has_all_bits_ && magnitudes(i, j) <= 0x1p53 * power(memory_.row_bits[i],
                                                              memory_.column_bits[j])) {
        const auto rounded = decltype(format)::narrow(each.sum);
        std::memcpy(word, &rounded, sizeof rounded);
      } else {
        settle(i, j, each.sum, word);
      }
    }
  });
}

void Block::finish_bounds() {
  const std::vector<Place>& columns = memory_.columns;
  for (int64_t i = 0; i < rows_; ++i) {
    row_norms_[i] = std::sqrt(row_norms_[i]);
    const int64_t start = result_ + memory_.rows[i].result;
    const double* sums = sums_of(i);
    // The norms are off by less than 2**-11, and so is their product.
    const double scale = row_norms_[i] * scale_ * (1 + 0x1p-10);
    const int64_t step = is_dense_ ? columns_ : 1;
    for (int64_t j = 0; j < columns_; j += step) {
      const int64_t to = start + columns[j].result;
      kernels_.bound(step, sums + j, column_norms_ + j, scale, output_.bounds.sums + to,
                     output_.bounds.errors + to);
    }
  }
}

int64_t Block::bits_of_row(int64_t i) {
  std::vector<int64_t>& bits = memory_.row_bits;
  if (bits.empty()) bits.assign(rows_, INT64_MIN);
  if (!has_bits(bits, i))
    bits[i] = last_bit_of(product_.rows, memory_.rows[i], product_.terms);
  return bits[i];
}

int64_t Block::bits_of_column(int64_t j) {
  std::vector<int64_t>& bits = memory_.column_bits;
  if (bits.empty()) bits.assign(columns_, INT64_MIN);
  if (!has_bits(bits, j))
    bits[j] = last_bit_of(product_.columns, memory_.columns[j], product_.terms);
  return bits[j];
}

// Returns the sum as the nearest float64 to a sum of two, whose rest is `error`.
double Block::double_sum(int64_t i, int64_t j, double* error) {
  Line rows(product_.rows, memory_.rows[i], product_.terms);
  Line columns(product_.columns, memory_.columns[j], product_.terms);
  double left[kRow], right[kRow];
  PairSum sum;
  for (int64_t from = 0; from < product_.terms; from += kTerms) {
    const int64_t count = rows.load(from, left);
    columns.load(from, right);
    kernels_.add_pairs(left, right, count, &sum);
  }
  for (int lane = 1; lane < 16; ++lane) {
    sum.low[0] += sum.low[lane];
    sum.low[0] += two_sum(&sum.high[0], sum.high[lane]);
  }
  *error = two_sum(&sum.high[0], sum.low[0]);
  return sum.high[0];
}

// Finds the last bits of all rows and columns at once, from panels, which are read faster than
// single lines.
void Block::find_all_bits() {
  const int64_t width = kernels_.columns, step = kernels_.step;
  memory_.unused.assign(static_cast<size_t>(stride_ + rows_ + 32), 0);
  memory_.bits.assign(static_cast<size_t>(stride_ + rows_ + 32), Bits());
  Bits *of_columns = memory_.bits.data(), *of_rows = of_columns + stride_;
  double *column_norms = column_norms_, *row_norms = row_norms_;
  column_norms_ = memory_.unused.data();
  row_norms_ = column_norms_ + stride_;
  for (int64_t from = 0; from < product_.terms; from += block_terms_) {
    const int64_t count = std::min(block_terms_, product_.terms - from);
    read_terms(from, count);
    pack_right(count);
    for (int64_t j = 0; j < columns_; j += width)
      kernels_.add_lane_bits(right_ + j * panel_, count, width, width, of_columns + j);
    if (interleaved_) pack_interleaved(count);
    for (int64_t i = 0; i < rows_; i += height_) {
      const int64_t lines = std::min(height_, rows_ - i);
      if (!interleaved_) pack_rows(i, lines, count);
      for (int64_t line = 0; line < (interleaved_ ? 0 : lines); ++line)
        kernels_.add_bits(left_ + line * kRow, count, of_rows + i + line);
      if (interleaved_)
        kernels_.add_lane_bits(panel(i), count, lines, step, of_rows + i);
    }
  }
  column_norms_ = column_norms;
  row_norms_ = row_norms;
  for (int64_t i = 0; i < rows_; ++i) memory_.row_bits[i] = last_of(of_rows[i]);
  for (int64_t j = 0; j < columns_; ++j) memory_.column_bits[j] = last_of(of_columns[j]);
  has_all_bits_ = true;
}

// The greatest power of two known to divide all terms of the sum of a row and a column, by their
// first `count` terms: fewer terms give a greater power.
double Block::last_bit(int64_t i, int64_t j, int64_t count) {
  const bool are_all = count == product_.terms;
  const int64_t row =
      are_all ? bits_of_row(i) : last_bit_of(product_.rows, memory_.rows[i], count);
  const int64_t column =
      are_all ? bits_of_column(j) : last_bit_of(product_.columns, memory_.columns[j], count);
  return power(row, column);
}

// Rounds one element whose bound decides nothing, in ways of which each is slower.
void Block::settle(int64_t i, int64_t j, double sum, void* word) {
  auto write = [&](double value) {
    with_format(output_.format, [&](auto format) {
      const auto rounded = decltype(format)::narrow(value);
      std::memcpy(word, &rounded, sizeof rounded);
    });
  };
  // All partial sums are multiples of the last bit, and those up to 2**53 times it are float64, so
  // nothing was rounded. A few terms tell that most sums are longer.
  const double most = magnitudes(i, j);
  const int64_t few = std::min<int64_t>(product_.terms, 64);
  const bool is_known = has_bits(memory_.row_bits, i) && has_bits(memory_.column_bits, j);
  if ((is_known || most <= 0x1p53 * last_bit(i, j, few)) &&
      most <= 0x1p53 * last_bit(i, j, product_.terms)) {
    // Where some sums are ties, others are.
    if (++exact_sums_ == 4 && !product_.has_few_rows) find_all_bits();
    return write(sum);
  }
  // Pairs of float64: the errors of the first words add up to at most n u times the magnitudes, and
  // adding these errs by at most n u times that (Ogita, Rump and Oishi 2005, Sum2).
  double error;
  const double near = double_sum(i, j, &error);
  const double chain = of_chain(static_cast<double>(product_.terms + 32));
  const double errors = chain * most;
  const bool is_decided = with_format(output_.format, [&](auto format) {
    using Format = decltype(format);
    auto rounded = [&](double shift) {
      double sum = near;
      const double rest = two_sum(&sum, error + shift);
      return Format::narrow(to_odd(sum, rest));
    };
    // error + slack is rounded, by less than the second term.
    const double slack = chain * errors * (1 + 0x1p-10) + std::fabs(error) * 0x1p-51;
    const auto low = rounded(-slack);
    std::memcpy(word, &low, sizeof low);
    return low == rounded(slack);
  });
  if (is_decided) return;
  // The errors are multiples of the last bit too.
  if (errors <= 0x1p53 * last_bit(i, j, product_.terms)) return write(to_odd(near, error));
  Accumulator exact;
  add_exactly(product_, memory_.rows[i], memory_.columns[j], &exact);
  write(exact.to_odd());
}

}  // namespace

int64_t partial_size(int64_t rows, int64_t columns) {
  const int64_t stride = up(columns, product_kernels().columns);
  return up(rows * stride + stride + rows, 16);
}

void compute_block(const LineProduct& product, const BlockRange& range, const Output& output) {
  if (output.states) return add_block(product, range, output);
  if (product.is_wide) return compute_wide_block(product, range, output);
  Block(product, range, output).compute();
}

void exact_digits(const LineProduct& product, const Place& row, const Place& column,
                  int64_t* digits) {
  auto write = [&](auto sum) {
    add_exactly(product, row, column, &sum);
    sum.carry();
    std::copy(sum.digit, sum.digit + sum.kDigits, digits);
  };
  if (product.is_wide) return write(WideAccumulator());
  write(Accumulator());
}

void exact_digits(const LineProduct& product, int64_t batch, int64_t row, int64_t column,
                  int64_t* digits) {
  Place at_row = product.rows.line(row), at_column = product.columns.line(column);
  const BatchPlace place = batch_place(product, batch);
  at_row.offset += place.rows;
  at_column.offset += place.columns;
  exact_digits(product, at_row, at_column, digits);
}

double special_sum(const LineProduct& product, const Place& row, const Place& column) {
  auto kind = [](double value) {
    return is_finite(value) ? static_cast<double>((value > 0) - (value < 0)) : value;
  };
  Line rows(product.rows, row, product.terms), columns(product.columns, column, product.terms);
  double left[kRow], right[kRow], sum = 0;
  for (int64_t from = 0; from < product.terms && sum == sum; from += kTerms) {
    const int64_t count = rows.load(from, left);
    columns.load(from, right);
    for (int64_t k = 0; k < count; ++k) sum += kind(left[k]) * kind(right[k]);
  }
  return sum;
}

bool is_finite_line(const Factor& factor, const Place& place, int64_t terms) {
  Line values(factor, place, terms);
  double block[kRow];
  for (int64_t from = 0; from < terms; from += kTerms) {
    const int64_t count = values.load(from, block);
    for (int64_t k = 0; k < count; ++k)
      if (!is_finite(block[k])) return false;
  }
  return true;
}

bool is_finite_line(const Factor& factor, int64_t batch_offset, int64_t line) {
  int64_t terms = 1;
  for (const Axis& axis : factor.terms) terms *= axis.size;
  Place place = factor.line(line);
  place.offset += batch_offset;
  return is_finite_line(factor, place, terms);
}

}  // namespace samebits

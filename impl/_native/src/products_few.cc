// One product of few elements: each term and each sum is a pair of float64, whose lost bits are
// measured, so the sum is exact as a rule.
#include "products_few.h"

#include <algorithm>
#include <cstring>

#include "calls.h"
#include "products_plan.h"
#include "sums.h"
#include "threads.h"

namespace samebits {
namespace {

using Longs = xla::ffi::Span<const int64_t>;

// The most lines and terms, the most elements of a factor, and the most multiplications.
constexpr int64_t kMostLines = 64, kMostTerms = 256;
constexpr int64_t kMostElements = 1024;
constexpr int64_t kMostWork = 8192;
// The lanes of the widest vector.
constexpr int64_t kWidth = 8;

// The distances of the indices of some axes, in row-major order. An axis has its size, and its
// strides in kArrays arrays.
template <int kArrays, int64_t kMost>
struct Distances {
  int64_t count = 1;
  int64_t of[kArrays][kMost];

  // Returns whether there are as few.
  bool take(Longs axes) {
    for (int64_t (&each)[kMost] : of) each[0] = 0;
    for (size_t at = 0; at < axes.size(); at += kArrays + 1) {
      const int64_t size = axes.begin()[at];
      if (size == 1) continue;
      if (size == 0 || size > kMost || count * size > kMost) return false;
      for (int array = 0; array < kArrays; ++array) {
        const int64_t stride = axes.begin()[at + 1 + static_cast<size_t>(array)];
        for (int64_t i = count - 1; i >= 0; --i)
          for (int64_t k = size - 1; k >= 0; --k) of[array][i * size + k] = of[array][i] + k * stride;
      }
      count *= size;
    }
    return true;
  }
};

// Writes elements of a factor as float64.
struct Packing {
  const int64_t *lines, *terms;
  int64_t line_count, term_count;
  int64_t line_step, term_step;

  void of(Operand operand, int64_t offset, double* to) const {
    with_format(operand.format, [&](auto format) {
      const auto* from = static_cast<const typename decltype(format)::Term*>(operand.data) + offset;
      for (int64_t i = 0; i < line_count; ++i)
        for (int64_t k = 0; k < term_count; ++k)
          to[i * line_step + k * term_step] = loaded(from[lines[i] + terms[k]]);
    });
  }

 private:
  // What is not fit stays so.
  static double loaded(double value) { return value; }
  template <typename T>
  static double loaded(T value) {
    return widen(value);
  }
};

Operand operand_of(const xla::ffi::AnyBuffer& buffer) {
  return {buffer.untyped_data(), format_of(buffer), static_cast<int64_t>(buffer.element_count())};
}

// The most multiplications of elements where they lie.
constexpr int64_t kMostInPlace = 512;

// Computes a product of float64 with few axes; returns whether it did.
bool compute_in_place(const Frame& frame) {
  const auto data = [](const xla::ffi::AnyBuffer& buffer) {
    const bool is_double = buffer.element_type() == xla::ffi::DataType::F64;
    return static_cast<double*>(is_double ? buffer.untyped_data() : nullptr);
  };
  FewDoubles of;
  of.left = data(frame.operand(0)), of.right = data(frame.operand(1)), of.to = data(frame.result(0));
  if (of.left == nullptr || of.right == nullptr || of.to == nullptr) return false;
  const auto take = [&](int64_t attribute, int64_t* size, int64_t* first, int64_t* second) {
    const Longs axes = frame.array<int64_t>(attribute);
    const bool is_one = axes.size() == 3;
    *size = is_one ? axes[0] : 1;
    *first = is_one ? axes[1] : 0;
    *second = is_one ? axes[2] : 0;
    return is_one || axes.size() == 0;
  };
  if (frame.array<int64_t>(0).size() != 0 || !take(3, &of.rows, &of.left_row, &of.to_row) ||
      !take(1, &of.columns, &of.right_column, &of.to_column) ||
      !take(4, &of.terms, &of.left_term, &of.right_term))
    return false;
  if (std::max({of.rows, of.columns, of.terms}) > kMostInPlace || of.terms == 0 ||
      of.rows * of.columns * of.terms > kMostInPlace)
    return false;
  // Lanes have the longer side of a result.
  if (of.rows > of.columns)
    of = {of.right, of.left, of.to, of.columns, of.rows, of.terms,
          of.right_column, of.right_term, of.left_row, of.left_term, of.to_column, of.to_row};
  return few_kernels().round_in_place(of);
}

// Computes a product of elements that it copies first; returns whether it did.
__attribute__((noinline)) bool compute_copied(const Frame& frame) {
  const Operand lhs = operand_of(frame.operand(0)), rhs = operand_of(frame.operand(1));
  const Format to = format_of(frame.result(0));
  char* words = static_cast<char*>(frame.result(0).untyped_data());
  if (lhs.format == kFormats || rhs.format == kFormats || to == kFormats ||
      lhs.elements > kMostElements || rhs.elements > kMostElements)
    return false;
  Distances<3, kMostLines> batch;
  Distances<2, kMostLines> lines, columns;
  Distances<2, kMostTerms> terms;
  if (!batch.take(frame.array<int64_t>(0)) || !lines.take(frame.array<int64_t>(3)) ||
      !columns.take(frame.array<int64_t>(1)) || !terms.take(frame.array<int64_t>(4)))
    return false;
  // Lanes have the longer side of a result, or the terms of a single one.
  const bool is_turned = lines.count > columns.count;
  const auto &rows = is_turned ? columns : lines, &others = is_turned ? lines : columns;
  const bool is_dot = others.count == 1;
  const int64_t width = is_dot ? kWidth : up(others.count, kWidth);
  const int64_t steps = is_dot ? parts_of(terms.count, kWidth) : terms.count;
  const int64_t results = rows.count * width;
  if (batch.count * results * steps > kMostWork || results > kTile ||
      rows.count * terms.count > kMostElements)
    return false;

  alignas(64) double left[kMostElements + kWidth], right[kMostWork + kWidth];
  alignas(64) double rounded[kTile];
  Packing of_rows{rows.of[0], terms.of[is_turned ? 1 : 0], rows.count, terms.count, terms.count, 1};
  Packing of_others{others.of[0], terms.of[is_turned ? 0 : 1], others.count, terms.count, 1, width};
  if (is_dot) of_others.term_step = 1;
  const int64_t row_size = rows.count * terms.count, other_size = steps * width;
  std::fill(left + row_size, left + up(row_size, kWidth), 0);
  if (others.count < width) std::fill(right, right + other_size, 0);
  const Operand &row_factor = is_turned ? rhs : lhs, &other_factor = is_turned ? lhs : rhs;
  const int64_t size = bytes_of(to);
  const FewKernels& kernels = few_kernels();
  Ieee scope;
  for (int64_t b = 0; b < batch.count; ++b) {
    of_rows.of(row_factor, batch.of[is_turned ? 1 : 0][b], left);
    of_others.of(other_factor, batch.of[is_turned ? 0 : 1][b], right);
    if (!kernels.are_fit(left, up(row_size, kWidth)) || !kernels.are_fit(right, other_size))
      return false;
    const bool is_rounded =
        to == kFloat64 &&
        (is_dot ? kernels.round_product(other_size, left, right, rounded)
                : kernels.round_products(rows.count, width, steps, left, right, rounded));
    if (!is_rounded) {
      Tile tile;
      uint8_t in_doubt[kTile];
      if (is_dot) {
        kernels.multiply_rows(other_size, left, right, tile.near, tile.rest, tile.error);
      } else {
        kernels.multiply(rows.count, width, steps, left, right, tile.near, tile.rest, tile.error);
      }
      if (sum_kernels().decide[to](tile, 0, is_dot ? 1 : results, 1, rounded, in_doubt)) return false;
    }
    for (int64_t i = 0; i < rows.count; ++i)
      for (int64_t j = 0; j < others.count; ++j)
        std::memcpy(words + size * (batch.of[2][b] + rows.of[1][i] + others.of[1][j]),
                    reinterpret_cast<const char*>(rounded) + size * (i * width + j), size);
  }
  return true;
}

}  // namespace

bool compute_few(const Frame& frame) {
  return frame.runs(1, 6) && frame.operands() == 2 && !frame.number<bool>(2) &&
         (compute_in_place(frame) || compute_copied(frame));
}

}  // namespace samebits

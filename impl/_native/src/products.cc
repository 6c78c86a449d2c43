// Products of matrices and convolutions: the exact sum of the products of two factors' terms,
// rounded once, as calls of XLA.
//
// A tile of results is added in float64 (products_kernels.cc), where each term is exact. If no term
// goes through more than n roundings, the error of a sum is at most n u / (1 - n u) times the sum
// of magnitudes (Higham 2002, section 4.2), which is at most the product of the norms of both lines
// (Cauchy and Schwarz). Where both ends of that interval round alike, the element is decided, and
// elsewhere it is added again (products_block.cc).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "calls.h"
#include "numbers.h"
#include "products_block.h"
#include "products_division.h"
#include "products_doubles.h"
#include "products_few.h"
#include "threads.h"
#include "wide_accumulator.h"
#include "xla/ffi/api/ffi.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;
using Longs = ffi::Span<const int64_t>;

void compute(ffi::ThreadPool& pool, const std::vector<LineProduct>& products,
             const Output& output) {
  const Division division(products, threads_of(pool), output);
  parallel(pool, division.tasks(), [&](int64_t task) { division.run(task, output); });
}

// Makes the results of kernels with a NaN or an infinity NaN: a library may or may not multiply a
// kernel by the zeros of a padding.
void fill_special(const Attributes& attributes, Operand kernel, const Output& output) {
  if (product_kernels().are_finite[kernel.format](kernel.data, kernel.elements)) return;
  const KernelLines lines = kernel_lines(attributes, kernel);
  for (int64_t batch = 0; batch < lines.batches; ++batch) {
    const Place start = lines.batch.line(batch);
    for (int64_t line = 0; line < lines.columns; ++line) {
      if (is_finite_line(lines.kernel, start.offset, line)) continue;
      const int64_t first = start.result + lines.kernel.line(line).result;
      for (int64_t i = 0; i < lines.results; ++i) {
        const int64_t at = first + lines.result.line(i).result;
        if (output.states) {
          output.states.add(at, std::numeric_limits<double>::quiet_NaN(), 0, 0);
        } else if (output.words == nullptr) {
          output.bounds.put(at, std::numeric_limits<double>::quiet_NaN(), 0);
        } else if (output.format == kFloat64) {
          static_cast<uint64_t*>(output.words)[at] = 0x7ff8000000000000u;
        } else if (output.format == kFloat32) {
          static_cast<uint32_t*>(output.words)[at] = 0x7fc00000u;
        } else {
          static_cast<uint16_t*>(output.words)[at] = output.format == kBFloat16 ? 0x7fc0u : 0x7e00u;
        }
      }
    }
  }
}

bool operand_of(ffi::AnyBuffer buffer, Operand* operand) {
  operand->data = buffer.untyped_data();
  operand->elements = static_cast<int64_t>(buffer.element_count());
  operand->format = format_of(buffer);
  return operand->format != kFormats;
}

ffi::Error unknown_dtype() {
  return ffi::Error::InvalidArgument("samebits takes floats of 16 to 64 bits");
}

// The axes of a call, as XLA has them.
struct Spans {
  Longs batch, lines, columns, terms, window;
  bool is_convolution;

  Attributes attributes() const {
    auto copy = [](Longs span) { return std::vector<int64_t>(span.begin(), span.end()); };
    return {copy(batch), copy(lines),  copy(columns),
            copy(terms), copy(window), is_convolution};
  }
};

// Returns the products of a call. A thread keeps the plans of its calls, since a program has the
// same calls in each step, and a plan takes as long as a product of a thousand terms. A plan serves
// one call at a time: a thread starts none before its last one ends.
std::vector<LineProduct>& planned(const Spans& spans, Operand lhs, Operand rhs,
                                  bool reads_few_rows = true) {
  constexpr uint64_t kPlans = 128;
  struct Plan {
    std::vector<int64_t> key;
    std::vector<LineProduct> products;
  };
  static thread_local Plan plans[kPlans];
  static thread_local std::vector<int64_t> key;
  key.assign({lhs.format, rhs.format, lhs.elements, rhs.elements, spans.is_convolution,
              reads_few_rows});
  for (Longs span : {spans.batch, spans.lines, spans.columns, spans.terms, spans.window}) {
    key.push_back(static_cast<int64_t>(span.size()));
    key.insert(key.end(), span.begin(), span.end());
  }
  uint64_t hash = 0;
  for (int64_t word : key) hash = (hash ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15ull;
  Plan& known = plans[(hash >> 32) % kPlans];
  if (known.key != key) {
    known.key.clear();  // In case that there is no memory for a plan.
    known.products = plan(spans.attributes(), lhs, rhs);
    for (LineProduct& each : known.products) each.has_few_rows &= reads_few_rows;
    known.key = key;
  }
  for (LineProduct& each : known.products)
    for (Factor* factor : {&each.rows, &each.columns})
      factor->data = factor->operand == 0 ? lhs.data : rhs.data;
  for (LineProduct& each : known.products)
    each.is_wide = each.rows.is_wide = each.columns.is_wide = false;
  return known.products;
}

// The greatest element of an operand that is not scaled is at least this: what counts as
// kLeastFactor is far smaller than its products.
constexpr double kLeastUnscaled = 0x1p-300;

// How an operand of a wide product is scaled, and what the scale says of it.
struct Scaling {
  int exponent = 0;  // of the scale
  bool are_finite = true;
  bool has_least = false;  // elements that count as greater ones
  double greatest = 0;     // after the scaling

  Scaling(ffi::ThreadPool& pool, Operand operand) {
    if (operand.format != kFloat64) {
      are_finite = product_kernels().are_finite[operand.format](operand.data, operand.elements);
      greatest = 0x1p129;
      return;
    }
    constexpr int64_t kPart = 1 << 15;
    const int64_t parts = parts_of(operand.elements, kPart);
    std::vector<Magnitudes> each(static_cast<size_t>(parts));
    parallel(pool, parts, [&](int64_t part) {
      const double* from = static_cast<const double*>(operand.data) + part * kPart;
      doubles_kernels().find_magnitudes(from, std::min(kPart, operand.elements - part * kPart),
                                        &each[part]);
    });
    Magnitudes all;
    for (const Magnitudes& part : each) {
      all.least = std::min(all.least, part.least);
      all.greatest = std::max(all.greatest, part.greatest);
      all.are_finite &= part.are_finite;
    }
    are_finite = all.are_finite;
    if (all.greatest == 0) return;
    // The greatest element becomes as great as a factor may be, so that few count as greater ones.
    if (all.greatest > kMostFactor || all.greatest < kLeastUnscaled)
      exponent = std::min(std::ilogb(kMostFactor) - 1 - std::ilogb(all.greatest), 1000);
    greatest = std::ldexp(all.greatest, exponent);
    has_least = std::ldexp(all.least, exponent) < kLeastFactor;
  }
};

// Prepares the products of a call with a factor or a result of float64.
void widen(ffi::ThreadPool& pool, Operand left, Operand right,
           std::vector<LineProduct>* products) {
  const Scaling of_left(pool, left), of_right(pool, right);
  for (LineProduct& each : *products) {
    each.is_wide = true;
    each.are_finite = of_left.are_finite && of_right.are_finite;
    each.exponent = -(of_left.exponent + of_right.exponent);
    each.lost = 0;
    // A factor that counts as kLeastFactor is less than that.
    if (of_left.has_least || of_right.has_least)
      each.lost = static_cast<double>(each.terms) * (2 * kLeastFactor) *
                  (of_left.greatest + of_right.greatest + 2 * kLeastFactor);
    for (Factor* factor : {&each.rows, &each.columns}) {
      const Scaling& scaling = factor->operand == 0 ? of_left : of_right;
      factor->scale = std::ldexp(1, scaling.exponent);
      factor->is_wide = !scaling.are_finite || scaling.exponent != 0 || scaling.has_least;
    }
  }
}

ffi::Error run(ffi::ThreadPool& pool, ffi::AnyBuffer lhs, ffi::AnyBuffer rhs, const Spans& spans,
               const Output& output) {
  Operand left, right;
  if (!operand_of(lhs, &left) || !operand_of(rhs, &right)) return unknown_dtype();
  const bool is_wide =
      left.format == kFloat64 || right.format == kFloat64 || output.format == kFloat64;
  std::vector<LineProduct>& products = planned(spans, left, right, !is_wide);
  if (is_wide) widen(pool, left, right, &products);
  compute(pool, products, output);
  if (spans.is_convolution) fill_special(spans.attributes(), right, output);
  return ffi::Error::Success();
}

ffi::Error product(ffi::ThreadPool pool, ffi::AnyBuffer lhs, ffi::AnyBuffer rhs,
                   ffi::Result<ffi::AnyBuffer> result, Longs batch, Longs lines, Longs columns,
                   Longs terms, Longs window, bool is_convolution) {
  Output output;
  output.words = result->untyped_data();
  output.format = format_of(*result);
  if (output.format == kFormats) return unknown_dtype();
  return run(pool, lhs, rhs, {batch, lines, columns, terms, window, is_convolution}, output);
}

ffi::Error bounds(ffi::ThreadPool pool, ffi::AnyBuffer lhs, ffi::AnyBuffer rhs, SumsOfDevices sums,
                  ErrorsOfDevices errors, Longs batch, Longs lines, Longs columns, Longs terms,
                  Longs window, bool is_convolution, int64_t parts) {
  Output output;
  output.bounds = Bounds(sums, errors, parts);
  return run(pool, lhs, rhs, {batch, lines, columns, terms, window, is_convolution}, output);
}

// Calls use(digits) of the exact sum at a position of the result: zeros at -1. There are as many as
// the products ask for.
template <typename Use>
void with_digits(const std::vector<LineProduct>& products, int64_t position, const Use& use) {
  int64_t digits[WideAccumulator::kDigits] = {};
  ResultIndex index;
  for (const LineProduct& each : products)
    if (position >= 0 && find(each, position, &index)) {
      exact_digits(each, index.batch, index.row, index.column, digits);
      break;
    }
  use(digits);
}

// The results of which a task computes the digits.
constexpr int64_t kEach = 16;

ffi::Error digits(ffi::ThreadPool pool, ffi::AnyBuffer positions, ffi::AnyBuffer lhs,
                  ffi::AnyBuffer rhs, ffi::Result<ffi::AnyBuffer> result, Longs batch, Longs lines,
                  Longs columns, Longs terms, Longs window, bool is_convolution) {
  Operand left, right;
  if (!operand_of(lhs, &left) || !operand_of(rhs, &right)) return unknown_dtype();
  if (positions.element_type() != ffi::DataType::S64 ||
      result->element_type() != ffi::DataType::S64)
    return ffi::Error::InvalidArgument("positions and digits are int64");
  std::vector<LineProduct>& products =
      planned({batch, lines, columns, terms, window, is_convolution}, left, right);
  const int64_t number = static_cast<int64_t>(positions.element_count());
  const int64_t size =
      number == 0 ? 0 : static_cast<int64_t>(result->element_count()) / number;
  if (size == WideAccumulator::kDigits) widen(pool, left, right, &products);
  const int64_t* at = static_cast<const int64_t*>(positions.untyped_data());
  int64_t* to = static_cast<int64_t*>(result->untyped_data());
  parallel(pool, parts_of(number, kEach), [&](int64_t task) {
    for (int64_t i = task * kEach; i < std::min(number, (task + 1) * kEach); ++i)
      with_digits(products, at[i], [&](const int64_t* digit) {
        std::copy(digit, digit + size, to + i * size);
      });
  });
  return ffi::Error::Success();
}

ffi::Error state(ffi::ThreadPool pool, States::Level level, States::Words before,
                 ffi::AnyBuffer lhs, ffi::AnyBuffer rhs, States::Result after, Longs batch,
                 Longs lines, Longs columns, Longs terms, Longs window, bool is_convolution) {
  Operand left, right;
  if (!operand_of(lhs, &left) || !operand_of(rhs, &right)) return unknown_dtype();
  const Spans spans{batch, lines, columns, terms, window, is_convolution};
  Output output;
  output.states = States(before, after);
  const int64_t of = *level.typed_data();
  output.has_pairs = of == -1;
  std::vector<LineProduct>& products = planned(spans, left, right, of >= 0);
  const bool is_wide = left.format == kFloat64 || right.format == kFloat64;
  if (is_wide) widen(pool, left, right, &products);
  if (of < 0) {
    auto are_finite = [](Operand each) {
      return product_kernels().are_finite[each.format](each.data, each.elements);
    };
    output.are_finite = are_finite(left) && are_finite(right);
    compute(pool, products, output);
    if (is_convolution) fill_special(spans.attributes(), right, output);
    return ffi::Error::Success();
  }
  const int64_t count = output.states.count();
  parallel(pool, parts_of(count, kEach), [&](int64_t task) {
    for (int64_t at = task * kEach; at < std::min(count, (task + 1) * kEach); ++at)
      with_digits(products, at, [&](const int64_t* digit) {
        if (is_wide) return output.states.add_level<WideAccumulator>(at, of, digit);
        output.states.add_level<Accumulator>(at, of, digit);
      });
  });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace samebits

#define SAMEBITS_PRODUCT_ATTRIBUTES    \
  Attr<samebits::Longs>("batch")       \
      .Attr<samebits::Longs>("lines")   \
      .Attr<samebits::Longs>("columns") \
      .Attr<samebits::Longs>("terms")   \
      .Attr<samebits::Longs>("window")  \
      .Attr<bool>("is_convolution")

SAMEBITS_CALL_WITH(samebits::compute_few, samebits_product, samebits::product,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::AnyBuffer>()
                  .SAMEBITS_PRODUCT_ATTRIBUTES);
SAMEBITS_CALL(samebits_product_bounds, samebits::bounds,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::Buffer<xla::ffi::F64>>()
                  .Ret<xla::ffi::Buffer<xla::ffi::F32>>()
                  .SAMEBITS_PRODUCT_ATTRIBUTES.Attr<int64_t>("parts"));
SAMEBITS_CALL(samebits_product_digits, samebits::digits,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::AnyBuffer>()
                  .SAMEBITS_PRODUCT_ATTRIBUTES);
SAMEBITS_CALL(samebits_product_state, samebits::state,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<samebits::States::Level>()
                  .Arg<samebits::States::Words>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<samebits::States::Words>()
                  .SAMEBITS_PRODUCT_ATTRIBUTES);

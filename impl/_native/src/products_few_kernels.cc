// The inner loop of products of few elements.

#include "products_few.h"

#include <algorithm>

#include "products_vectors.h"

#define SAMEBITS_JOIN_(a, b) a##_##b
#define SAMEBITS_JOIN(a, b) SAMEBITS_JOIN_(a, b)

namespace samebits {
namespace {

// Whether a product of two elements is not exact as two float64, or sums of them are not finite.
SAMEBITS_INLINE Longs unfit(Vector value) {
  const Vector size = magnitude(value);
  return ~((Longs)(size >= kLeastFactor) & (Longs)(size <= 0x1p300)) & (Longs)(value != 0);
}

SAMEBITS_INLINE bool has_none(Longs lanes) {
  return !any_of(__builtin_convertvector(lanes, Ints));
}

bool are_fit(const double* values, int64_t count) {
  Longs found{};
  for (int64_t i = 0; i < count; i += kLanes) found |= unfit(at(values + i));
  return has_none(found);
}

// A sum of products near + rest, and the sum of magnitudes.
template <typename V>
struct PlainSum {
  V near{}, rest{}, size{};

  SAMEBITS_INLINE void add_product(V a, V b) {
    const V product = a * b;
    rest += product_error(a, b, product) + two_sum(&near, product);
    size += magnitude(product);
  }
};

// The error of a sum of this many products relative to the sum of magnitudes, as `settle` of
// products_doubles.cc has it; that of one product is 0.
double scale_of(int64_t terms) {
  const double chain = of_chain(2 * static_cast<double>(terms) + 16);
  return terms == 1 ? 0 : chain * chain * (1 + 0x1p-10);
}

// Returns a sum rounded, and adds the lanes that are in doubt.
SAMEBITS_INLINE Vector rounded(const PlainSum<Vector>& sum, Vector scale, Longs* differ) {
  const Vector slack = sum.size * scale, wider = slack + magnitude(sum.rest) * 0x1p-51;
  const Vector wide = (Vector)((Longs)wider & (Longs)(slack != 0));
  const Vector low = sum.near + (sum.rest - wide);
  *differ |= (Longs)(low != sum.near + (sum.rest + wide));
  return low;
}

// Writes the sum of the lanes, rounded. Returns whether it is not in doubt.
SAMEBITS_INLINE bool round_lanes(const PlainSum<Vector>& lanes, int64_t terms, double* to) {
  double near = 0, rest = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    rest += samebits::two_sum(&near, lanes.near[lane]) + lanes.rest[lane];
  const double slack = sum_of(lanes.size) * (scale_of(terms + kLanes) * (1 + 0x1p-10));
  const double wide = slack == 0 ? 0 : slack + __builtin_fabs(rest) * 0x1p-51;
  *to = near + (rest - wide);
  return *to == near + (rest + wide);
}

bool round_products(int64_t rows, int64_t width, int64_t terms, const double* left,
                    const double* right, double* to) {
  const Vector scale = all(scale_of(terms) * (1 + 0x1p-10));
  Longs differ{};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; j += kLanes) {
      PlainSum<Vector> sum;
      for (int64_t k = 0; k < terms; ++k)
        sum.add_product(all(left[i * terms + k]), at(right + k * width + j));
      put(to + i * width + j, rounded(sum, scale, &differ));
    }
  return has_none(differ);
}

bool round_product(int64_t terms, const double* left, const double* right, double* to) {
  PlainSum<Vector> lanes;
  for (int64_t k = 0; k < terms; k += kLanes) lanes.add_product(at(left + k), at(right + k));
  return round_lanes(lanes, terms, to);
}

// The first lanes of a vector, from elements that are `step` apart, and zeros for the others.
SAMEBITS_INLINE Vector first_lanes(const double* from, int64_t count, int64_t step) {
#if defined(__AVX512F__)
  const __mmask8 mask = static_cast<__mmask8>(count >= kLanes ? 0xff : (1 << count) - 1);
  if (step == 1) return (Vector)_mm512_maskz_loadu_pd(mask, from);
  const __m512i places = (__m512i)(Longs{0, 1, 2, 3, 4, 5, 6, 7} * step);
  return (Vector)_mm512_mask_i64gather_pd(_mm512_setzero_pd(), mask, places, from, 8);
#else
  if (step == 1 && count >= kLanes) return at(from);
  double lanes[kLanes] = {};
  for (int64_t i = 0; i < std::min<int64_t>(count, kLanes); ++i) lanes[i] = from[i * step];
  return at(lanes);
#endif
}

bool round_in_place(const FewDoubles& of) {
  Longs bad{};
  if (of.rows == 1 && of.columns == 1 && of.left_term == 1 && of.right_term == 1) {
    PlainSum<Vector> lanes;
    for (int64_t k = 0; k < of.terms; k += kLanes) {
      const Vector a = first_lanes(of.left + k, of.terms - k, 1);
      const Vector b = first_lanes(of.right + k, of.terms - k, 1);
      bad |= unfit(a) | unfit(b);
      lanes.add_product(a, b);
    }
    return round_lanes(lanes, of.terms, of.to) && has_none(bad);
  }
  const Vector scale = all(scale_of(of.terms) * (1 + 0x1p-10));
  for (int64_t i = 0; i < of.rows; ++i)
    for (int64_t j = 0; j < of.columns; j += kLanes) {
      const int64_t count = std::min<int64_t>(kLanes, of.columns - j);
      PlainSum<Vector> sum;
      for (int64_t k = 0; k < of.terms; ++k) {
        const Vector a = all(of.left[i * of.left_row + k * of.left_term]);
        const Vector b = first_lanes(of.right + j * of.right_column + k * of.right_term, count,
                                     of.right_column);
        bad |= unfit(a) | unfit(b);
        sum.add_product(a, b);
      }
      const Vector low = rounded(sum, scale, &bad);
      double* const to = of.to + i * of.to_row + j * of.to_column;
      for (int64_t lane = 0; lane < count; ++lane) to[lane * of.to_column] = low[lane];
    }
  return has_none(bad);
}

// The same, and the magnitudes that adding to the rest lost.
struct ExactSum {
  Vector near{}, rest{}, error{};

  SAMEBITS_INLINE void add_product(Vector a, Vector b) {
    const Vector product = a * b, lost = two_sum(&near, product);
    const Vector first = two_sum(&rest, product_error(a, b, product));
    error += magnitude(first) + magnitude(two_sum(&rest, lost));
  }
};

void multiply(int64_t rows, int64_t width, int64_t terms, const double* left, const double* right,
              double* near, double* rest, double* error) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; j += kLanes) {
      ExactSum sum;
      for (int64_t k = 0; k < terms; ++k)
        sum.add_product(all(left[i * terms + k]), at(right + k * width + j));
      put(near + i * width + j, sum.near);
      put(rest + i * width + j, sum.rest);
      put(error + i * width + j, sum.error);
    }
}

void multiply_rows(int64_t terms, const double* left, const double* right, double* near,
                   double* rest, double* error) {
  ExactSum sum;
  for (int64_t k = 0; k < terms; k += kLanes) sum.add_product(at(left + k), at(right + k));
  *near = *rest = *error = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const double lost = samebits::two_sum(near, sum.near[lane]);
    const double first = samebits::two_sum(rest, sum.rest[lane]);
    const double second = samebits::two_sum(rest, lost);
    *error += sum.error[lane] + (__builtin_fabs(first) + __builtin_fabs(second));
  }
}

}  // namespace

extern const FewKernels SAMEBITS_JOIN(few_kernels, SAMEBITS_UNIT);
const FewKernels SAMEBITS_JOIN(few_kernels, SAMEBITS_UNIT) = {
    round_in_place, are_fit, round_products, round_product, multiply, multiply_rows};

}  // namespace samebits

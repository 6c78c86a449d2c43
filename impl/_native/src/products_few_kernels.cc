// The inner loop of products of few elements.

#include "products_few.h"
#include "products_vectors.h"

#define SAMEBITS_JOIN_(a, b) a##_##b
#define SAMEBITS_JOIN(a, b) SAMEBITS_JOIN_(a, b)

namespace samebits {
namespace {

// Whether a product of two elements is exact as two float64, and sums of them are finite.
bool are_fit(const double* values, int64_t count) {
  Longs unfit{};
  for (int64_t i = 0; i < count; i += kLanes) {
    const Vector value = at(values + i), size = magnitude(value);
    unfit |= ~((Longs)(size >= kLeastFactor) & (Longs)(size <= kMostFactor)) & (Longs)(value != 0);
  }
  return !any_of(__builtin_convertvector(unfit, Ints));
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

bool round_products(int64_t rows, int64_t width, int64_t terms, const double* left,
                    const double* right, double* to) {
  const Vector scale = all(scale_of(terms) * (1 + 0x1p-10));
  Longs differ{};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; j += kLanes) {
      PlainSum<Vector> sum;
      for (int64_t k = 0; k < terms; ++k)
        sum.add_product(all(left[i * terms + k]), at(right + k * width + j));
      const Vector slack = sum.size * scale, wider = slack + magnitude(sum.rest) * 0x1p-51;
      const Vector wide = (Vector)((Longs)wider & (Longs)(slack != 0));
      const Vector low = sum.near + (sum.rest - wide);
      differ |= (Longs)(low != sum.near + (sum.rest + wide));
      put(to + i * width + j, low);
    }
  return !any_of(__builtin_convertvector(differ, Ints));
}

bool round_product(int64_t terms, const double* left, const double* right, double* to) {
  PlainSum<Vector> lanes;
  for (int64_t k = 0; k < terms; k += kLanes) lanes.add_product(at(left + k), at(right + k));
  double near = 0, rest = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    rest += samebits::two_sum(&near, lanes.near[lane]) + lanes.rest[lane];
  const double slack = sum_of(lanes.size) * (scale_of(terms + kLanes) * (1 + 0x1p-10));
  const double wide = slack == 0 ? 0 : slack + __builtin_fabs(rest) * 0x1p-51;
  *to = near + (rest - wide);
  return *to == near + (rest + wide);
}

void multiply(int64_t rows, int64_t width, int64_t terms, int64_t step, const double* left,
              const double* right, double* near, double* rest, double* error) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; j += kLanes) {
      ExactSum sum;
      for (int64_t k = 0; k < terms; ++k)
        sum.add_product(all(left[i * terms + k]), at(right + k * step + j));
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
const FewKernels SAMEBITS_JOIN(few_kernels, SAMEBITS_UNIT) = {are_fit, round_products, round_product,
                                                              multiply, multiply_rows};

}  // namespace samebits

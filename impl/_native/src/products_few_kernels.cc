// The inner loop of products of few elements.

#include "products_few.h"
#include "products_vectors.h"

#define SAMEBITS_JOIN_(a, b) a##_##b
#define SAMEBITS_JOIN(a, b) SAMEBITS_JOIN_(a, b)

namespace samebits {
namespace {

// A sum of products near + rest, and the magnitudes that adding to the rest lost.
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
const FewKernels SAMEBITS_JOIN(few_kernels, SAMEBITS_UNIT) = {multiply, multiply_rows};

}  // namespace samebits

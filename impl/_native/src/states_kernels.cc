// The loop of states of sums, compiled for each vector unit.
#include "planes.h"
#include "products_vectors.h"

namespace samebits {
namespace {

typedef uint64_t Bits64 __attribute__((vector_size(8 * kLanes)));

SAMEBITS_INLINE Vector get(const uint32_t* upper, int64_t plane) {
  Words high, low;
  std::memcpy(&high, upper, sizeof high);
  std::memcpy(&low, upper + plane, sizeof low);
  return (Vector)(__builtin_convertvector(high, Bits64) << 32 |
                  __builtin_convertvector(low, Bits64));
}

SAMEBITS_INLINE void put(uint32_t* upper, int64_t plane, Vector value) {
  const Words high = __builtin_convertvector((Bits64)value >> 32, Words);
  const Words low = __builtin_convertvector((Bits64)value, Words);
  std::memcpy(upper, &high, sizeof high);
  std::memcpy(upper + plane, &low, sizeof low);
}

// As States::add, of the elements of a vector. No slack is so small that a device may take it for 0.
SAMEBITS_INLINE void add_vector(uint32_t* words, int64_t plane, Vector high, Vector low,
                                Vector slack) {
  const Vector before = get(words, plane);
  Vector sum = before, middle = get(words + 2 * plane, plane);
  const Vector rest = two_sum(&sum, high);
  const Vector lost = two_sum(&middle, rest), more = two_sum(&middle, low);
  Vector error = (get(words + 4 * plane, plane) + slack) + (magnitude(lost) + magnitude(more));
  error += (Vector)((Longs)all(0x1p-1000) & (Longs)(error != 0));
  // The difference of an infinity or a NaN from itself is a NaN.
  const Longs has_sum = (Longs)(sum - sum == 0);
  const Longs is_beyond = ~has_sum & (Longs)(before - before == 0) & (Longs)(high - high == 0);
  put(words, plane, (Vector)((Longs)sum & ~is_beyond));
  put(words + 2 * plane, plane, (Vector)((Longs)middle & has_sum));
  put(words + 4 * plane, plane,
      (Vector)(((Longs)error & has_sum) | ((Longs)all(__builtin_nan("")) & is_beyond)));
}

void add(int64_t count, uint32_t* words, int64_t plane, const double* high, const double* low,
         const double* slack) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    add_vector(words + i, plane, at(high + i), at(low + i), at(slack + i));
  if (i == count) return;
  uint32_t some[6 * kLanes] = {};
  double terms[3][kLanes] = {};
  const size_t rest = static_cast<size_t>(count - i);
  for (int p = 0; p < 6; ++p)
    std::memcpy(some + p * kLanes, words + i + p * plane, rest * sizeof(uint32_t));
  std::memcpy(terms[0], high + i, rest * sizeof(double));
  std::memcpy(terms[1], low + i, rest * sizeof(double));
  std::memcpy(terms[2], slack + i, rest * sizeof(double));
  add_vector(some, kLanes, at(terms[0]), at(terms[1]), at(terms[2]));
  for (int p = 0; p < 6; ++p)
    std::memcpy(words + i + p * plane, some + p * kLanes, rest * sizeof(uint32_t));
}

}  // namespace

#define SAMEBITS_JOINED(a, b) a##b
#define SAMEBITS_TABLE(name, unit) SAMEBITS_JOINED(name, unit)
extern const StateKernels SAMEBITS_TABLE(state_kernels_, SAMEBITS_UNIT) = {add};

}  // namespace samebits

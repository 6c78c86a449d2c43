// Powers of floats, with the operations of impl/_exact/elementary/powers.py, one by one.
//
// x**y is exp(y * log(x)), computed as pairs of float64 and rounded once. A power that is nearly a
// number of 25 bits becomes this number, since only such a power can be the middle of two floats.

#include "powers.h"

#include "pairs.h"
#include "running.h"

namespace samebits {
namespace {

constexpr double kInfinity = __builtin_inf();
// A power with a greater logarithm is infinity, and one with a lesser logarithm than -kLimit is 0.
constexpr double kLimit = 150.0;
// The distance to a number of 25 bits below which a power counts as that number.
constexpr double kNearly = 0x1p-60;
constexpr int64_t kSignBit = ~0x7fffffffffffffffll;

// Brings a value between -limit and limit. A NaN becomes one of both: its power is replaced later.
SAMEBITS_INLINE Doubles clamped(Doubles value, double limit) {
  value = selected(is_above(value, -limit), value, constant(-limit));
  return selected(is_below(value, limit), value, constant(limit));
}

// A power, or the number of 25 bits that it is nearly equal to.
SAMEBITS_INLINE Pairs with_exact_value(const Pairs& power, Longs may_be_exact) {
  Doubles nearest = shorten<25>(power.high);
  Doubles rest = (power.high - nearest) + power.low;
  Longs is_exact = is_below(magnitude(rest), kNearly) & may_be_exact;
  return selected(is_exact, Pairs{nearest, Doubles{}}, power);
}

// x**y for a positive, finite x.
SAMEBITS_INLINE Doubles usual_power(Doubles x, Doubles y) {
  Longs k = (raw(x) - raw(constant(0.7071067811865476))) >> 52;
  Doubles m = reinterpret_cast<Doubles>(raw(x) - (k << 52));
  Pairs logarithm = pair_log(m, of_integer(k));
  // A product of infinity and log(1) = 0 would be NaN.
  Doubles bounded = clamped(y, 1e30);
  Pairs scaled = two_product(logarithm.high, bounded);
  scaled = fast_two_sum(scaled.high, scaled.low + logarithm.low * bounded);
  Doubles low = selected(is_below(magnitude(scaled.high), kLimit), scaled.low, Doubles{});
  Doubles n;
  Pairs power = pair_exp({clamped(scaled.high, kLimit), low}, &n);
  // Only multiples of 1/64 have exact powers of 25 bits.
  Longs may_be_exact = is_equal(nearest_integer(y * 64.0), y * 64.0);
  return rounded_to_odd(with_exact_value(power, may_be_exact)) * power_of_two(n);
}

// x**y as a float64 that rounds to 24 bits or fewer as x**y does. `is_whole` says that y is an
// integer or infinite, and `is_odd` that it is an odd integer.
SAMEBITS_INLINE Doubles power_of(Doubles x, Doubles y, Longs is_whole, Longs is_odd) {
  const Doubles one = constant(1), infinity = constant(kInfinity);
  const Doubles size = magnitude(x);
  const Longs is_usual = is_above(size, 0) & is_below(size, kInfinity);
  Doubles result = usual_power(selected(is_usual, size, one), y);
  // A power of zero or infinity is zero or infinity, by the signs of log(x) and y.
  const Longs grows = ~(is_above(size, 1) ^ is_above(y, 0));
  result = selected(is_usual, result, selected(grows, infinity, Doubles{}));
  const Longs sign = raw(x) & is_odd & kSignBit;
  result = reinterpret_cast<Doubles>(raw(result) ^ sign);
  const Longs has_no_value = is_below(x, 0) & ~is_whole & is_usual;
  const Longs is_nan = ~(is_equal(x, x) & is_equal(y, y));
  result = selected(has_no_value | is_nan, constant(__builtin_nan("")), result);
  return selected(is_equal(x, one) | is_equal(y, Doubles{}), one, result);
}

// kLanes floats with zeros of their sign for subnormal numbers, on every processor.
SAMEBITS_INLINE Words signs(const float* at) { return load_as<Words>(at) & 0x80000000u; }
template <typename T>
SAMEBITS_INLINE Words signs(const T* at) {
  return (load_words(at) << 16) & 0x80000000u;
}
template <typename T>
SAMEBITS_INLINE Doubles load_signed(const T* at) {
  return to_doubles(
      reinterpret_cast<Floats>(reinterpret_cast<Words>(load_floats(at)) | signs(at)));
}

template <typename T>
SAMEBITS_INLINE Doubles raised(const T* x, const T* exponents) {
  const Doubles y = load_signed(exponents);
  const Longs is_whole = is_equal(nearest_integer(y), y);
  const Doubles half = y * 0.5;
  const Longs is_odd = is_whole & ~is_equal(nearest_integer(half), half);
  return power_of(load_signed(x), y, is_whole, is_odd);
}
template <typename T>
SAMEBITS_INLINE Doubles raised(const T* x, const int32_t* exponents) {
  const Longs y = __builtin_convertvector(load_as<Ints>(exponents), Longs);
  return power_of(load_signed(x), of_integer(y), ~Longs{}, -(y & 1));
}
template <typename T>
SAMEBITS_INLINE Doubles raised(const T* x, const int64_t* exponents) {
  const Longs y = load_as<Longs>(exponents);
  return power_of(load_signed(x), __builtin_convertvector(y, Doubles), ~Longs{}, -(y & 1));
}

// Raises kLanes floats.
template <typename T, typename Y>
SAMEBITS_INLINE void raise_lanes(const T* x, const Y* y, typename FormatOf<T>::Result::Word* out) {
  using R = typename FormatOf<T>::Result;
  constexpr int kShift = 64 - 8 * sizeof(typename R::Word);
  double values[kLanes], sizes[kLanes];
  const Doubles result = raised(x, y);
  store_as(result, values);
  store_as(magnitude(result), sizes);
  narrow_all<R>(sizes, kLanes, out);
  // `narrow` drops the sign of a zero.
  for (int lane = 0; lane < kLanes; ++lane)
    out[lane] |= static_cast<typename R::Word>((bits_of(values[lane]) >> 63 << 63) >> kShift);
}

template <typename T, typename Y>
void raise(const void* bases, const void* exponents, int64_t first, int64_t last, void* out) {
  using Word = typename FormatOf<T>::Result::Word;
  const T* x = static_cast<const T*>(bases);
  const Y* y = static_cast<const Y*>(exponents);
  Word* results = static_cast<Word*>(out);
  for (int64_t i = first; i < last; i += kLanes) {
    if (last - i >= kLanes) {
      raise_lanes(x + i, y + i, results + i);
      continue;
    }
    const size_t count = static_cast<size_t>(last - i);
    T some_x[kLanes] = {};
    Y some_y[kLanes] = {};
    Word some[kLanes];
    __builtin_memcpy(some_x, x + i, count * sizeof(T));
    __builtin_memcpy(some_y, y + i, count * sizeof(Y));
    raise_lanes(some_x, some_y, some);
    __builtin_memcpy(results + i, some, count * sizeof(Word));
  }
}

}  // namespace

SAMEBITS_TABLE(PowerKernels, power_kernels) = {
    {raise<float, float>, raise<bfloat16, bfloat16>, raise<float16, float16>},
    {raise<float, int32_t>, raise<bfloat16, int32_t>, raise<float16, int32_t>},
    {raise<float, int64_t>, raise<bfloat16, int64_t>, raise<float16, int64_t>}};

}  // namespace samebits

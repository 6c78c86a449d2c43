// Tests of numbers.h and of `Ieee` in threads.h: each result equals one by integers of 128 bits.
//
// It prints what is wrong and exits with 1, with 0 if nothing is, and with 77 if this processor
// lacks the instructions that it was compiled for.
#include "numbers.h"

#include <cstdio>
#include <initializer_list>
#include <limits>

#include "threads.h"
#include "wide_accumulator.h"

namespace samebits {
namespace {

using Wide = unsigned __int128;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

int failures = 0;

void expect(bool is_right, const char* what, double value, uint64_t got, uint64_t right) {
  if (is_right || ++failures > 20) return;
  std::printf("%s of %a: %llx, but %llx is right\n", what, value,
              static_cast<unsigned long long>(got), static_cast<unsigned long long>(right));
}

// Numbers without a pattern, the same in each run: splitmix64 (Steele, Lea and Flood 2014).
uint64_t draw() {
  static uint64_t state = 54;
  uint64_t word = state += 0x9e3779b97f4a7c15ull;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ull;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebull;
  return word ^ (word >> 31);
}
int64_t draw(int64_t low, int64_t high) {
  return low + static_cast<int64_t>(draw() % static_cast<uint64_t>(high - low + 1));
}

// A format by its numbers, as in spec/oracles/nearest.py. A float32 is flushed after it has been
// rounded to 24 bits, a bfloat16 before it is rounded, and a float16 never.
struct Format {
  const char* name;
  int bits;
  int least;
  int greatest;
  uint64_t sign;
  enum { kAfter, kBefore, kNever } flushed;
};
template <typename R>
constexpr Format kFormat = {};
template <>
constexpr Format kFormat<Float32> = {"float32", 24, -126, 127, 1u << 31, Format::kAfter};
template <>
constexpr Format kFormat<BFloat16> = {"bfloat16", 8, -126, 127, 1u << 15, Format::kBefore};
template <>
constexpr Format kFormat<Float16> = {"float16", 11, -14, 15, 1u << 15, Format::kNever};
template <>
constexpr Format kFormat<Float64> = {"float64", 53, -1022, 1023, 1ull << 63, Format::kBefore};

// The number of bits up to the first 1.
int length(Wide magnitude) {
  int bits = 0;
  for (; magnitude != 0; magnitude >>= 1) ++bits;
  return bits;
}

// The bits of magnitude * 2**exponent, rounded once.
uint64_t rounded(const Format& format, bool is_negative, Wide magnitude, int exponent) {
  const int fraction = format.bits - 1;
  const int size = length(magnitude);
  const uint64_t infinity = static_cast<uint64_t>(format.greatest - format.least + 2) << fraction;
  const uint64_t sign = is_negative ? format.sign : 0;
  // The value is at least 2**first.
  const int first = exponent + size - 1;
  if (magnitude == 0 || (format.flushed == Format::kBefore && first < format.least)) return 0;
  int last = first - fraction;
  if (format.flushed == Format::kNever && first < format.least) last = format.least - fraction;
  const int dropped = last - exponent;
  Wide units = magnitude;
  if (dropped > size + 1) {
    units = 0;
  } else if (dropped > 0) {
    const Wide rest = magnitude & ((Wide{1} << dropped) - 1);
    const Wide half = Wide{1} << (dropped - 1);
    units = magnitude >> dropped;
    units += rest > half || (rest == half && (units & 1) != 0) ? 1 : 0;
  } else {
    units <<= -dropped;
  }
  if (length(units) > format.bits) {
    units >>= 1;
    ++last;
  }
  if (units == 0) return 0;
  if (last + fraction > format.greatest) return sign | infinity;
  if (length(units) < format.bits) return sign | static_cast<uint64_t>(units);  // Subnormal.
  if (last + fraction < format.least) return 0;
  const uint64_t field = static_cast<uint64_t>(last + fraction - format.least + 1);
  return sign | (field << fraction) | (static_cast<uint64_t>(units) & ((1ull << fraction) - 1));
}

// The bits of a float64, rounded once.
uint64_t rounded(const Format& format, double value) {
  int exponent;
  const double significand = std::frexp(std::fabs(value), &exponent);
  return rounded(format, std::signbit(value), static_cast<Wide>(std::ldexp(significand, 53)),
                 exponent - 53);
}

template <typename R>
void check_narrow(double value) {
  for (double each : {value, -value}) {
    const uint64_t right = rounded(kFormat<R>, each);
    const uint64_t got = R::narrow(each);
    expect(got == right, kFormat<R>.name, each, got, right);
  }
}

// Rounds a float64, its neighbours, and the middles between it and the next float of the format.
template <typename R>
void check_around(double value) {
  const int exponent = std::ilogb(value);
  const bool is_subnormal = exponent < kFormat<R>.least;
  const double unit =
      std::ldexp(1.0, (is_subnormal ? kFormat<R>.least : exponent) - kFormat<R>.bits + 1);
  for (double center : {value, value + unit / 2, value - unit / 2, value + unit / 4}) {
    if (!(center > 0) || center == kInfinity) continue;
    check_narrow<R>(center);
    check_narrow<R>(std::nextafter(center, kInfinity));
    check_narrow<R>(std::nextafter(center, 0.0));
  }
}

template <typename R>
void test_narrow() {
  const Format format = kFormat<R>;
  // Every exponent, from below the least subnormal number to above infinity.
  for (int exponent = format.least - format.bits - 3; exponent <= format.greatest + 2; ++exponent) {
    const int count = format.bits == 24 ? 1500 : 1 << (format.bits - 1);
    for (int i = 0; i < count; ++i) {
      // All significands of 16 bits; of float32, the ends and others.
      const int64_t last = (int64_t{1} << (format.bits - 1)) - 1;
      const int64_t fraction =
          format.bits != 24 ? i : (i < 10 ? i : (i < 20 ? last - (i - 10) : draw(0, last)));
      const double significand = static_cast<double>(last + 1 + fraction);
      check_around<R>(std::ldexp(significand, exponent - format.bits + 1));
    }
  }
  for (int i = 0; i < 200000; ++i) {
    check_narrow<R>(std::ldexp(static_cast<double>(draw() >> 11),
                               static_cast<int>(draw(format.least - 80, format.greatest - 48))));
  }
  for (double value : {0.0, 0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp-1023, kGreatest}) {
    check_narrow<R>(value);
  }
  const uint64_t infinity = rounded(format, kGreatest);
  for (double sign : {1.0, -1.0}) {
    const uint64_t right = rounded(format, sign * kGreatest);
    const uint64_t got = R::narrow(sign * kInfinity);
    expect(got == right, format.name, sign * kInfinity, got, right);
  }
  const uint64_t nan = R::narrow(kNan);
  expect((nan & infinity) == infinity && nan != infinity, format.name, kNan, nan, infinity);
}

// All floats of 16 bits, and the float32 with the same first half.
void test_widen() {
  for (uint32_t word = 0; word < 0x10000; ++word) {
    const uint16_t bits = static_cast<uint16_t>(word);
    const double sign = (word & 0x8000) != 0 ? -1 : 1;
    const int of_half = static_cast<int>(word >> 10) & 31;
    const double fraction = word & 0x3ff;
    double right = of_half == 0 ? std::ldexp(fraction, -24)
                                : std::ldexp(1024 + fraction, of_half - 25);
    if (of_half == 31) right = fraction == 0 ? kInfinity : kNan;
    const double half = widen(float16{bits});
    expect(half == sign * right || (right != right && half != half), "widen(float16)", word,
           bits_of(half), bits_of(sign * right));
    const float single = float_of(word << 16);
    const bool is_subnormal = (word & 0x7f80) == 0;
    const double wide = is_subnormal ? 0 : static_cast<double>(single);
    for (double got : {widen(bfloat16{bits}), widen(single)}) {
      expect(got == wide || (wide != wide && got != got), "widen(bfloat16)", word, bits_of(got),
             bits_of(wide));
    }
  }
}

// A sum of terms significand * 2**exponent, by integers of 128 bits.
struct Sum {
  __int128 units = 0;
  static constexpr int kLast = -60;

  void add(int64_t significand, int exponent) {
    units += static_cast<__int128>(significand) * (static_cast<__int128>(1) << (exponent - kLast));
  }
  bool is_negative() const { return units < 0; }
  Wide magnitude() const { return static_cast<Wide>(units < 0 ? -units : units); }
};

// A float64 that stands for an exact sum is right if each format rounds both alike.
void check_odd(const char* what, double odd, const Sum& sum) {
  for (const Format& format : {kFormat<Float32>, kFormat<BFloat16>, kFormat<Float16>}) {
    const uint64_t right = rounded(format, sum.is_negative(), sum.magnitude(), Sum::kLast);
    const uint64_t got = rounded(format, odd);
    expect(got == right, what, odd, got, right);
  }
}

void test_two_sum_and_to_odd() {
  for (int i = 0; i < 300000; ++i) {
    Sum sum;
    double term[2];
    for (double& each : term) {
      // The middle of two floats of a format, and a term far below it, in half of the sums.
      const bool is_middle = i % 2 == 0 && &each == term;
      const int64_t significand =
          is_middle ? (draw(1, 127) << draw(1, 20)) + 1 : draw(1, 7) << draw(0, 45);
      const int exponent = static_cast<int>(is_middle ? draw(0, 10) : draw(-60, 10));
      const int64_t sign = draw() % 2 == 0 ? 1 : -1;
      each = std::ldexp(static_cast<double>(sign * significand), exponent);
      sum.add(sign * significand, exponent);
    }
    double near = term[0];
    const double error = two_sum(&near, term[1]);
    expect(near == term[0] + term[1], "two_sum", term[0], bits_of(near),
           bits_of(term[0] + term[1]));
    if (near != 0) check_odd("to_odd", to_odd(near, error), sum);
  }
}

void test_accumulator() {
  for (int i = 0; i < 20000; ++i) {
    Sum sum;
    Accumulator all, part[2];
    const int shift = static_cast<int>(draw(-200, 150));
    const int64_t count = draw(1, 40);
    Accumulator scaled;
    WideAccumulator wide;
    for (int64_t j = 0; j < count; ++j) {
      int64_t significand = draw(0, int64_t{1} << draw(1, 48));
      if (draw() % 2 == 0) significand = -significand;
      const int exponent = static_cast<int>(draw(-60, 10));
      // Half of the terms come twice, with opposite signs.
      for (int64_t sign = 1; sign >= (j % 2 == 0 ? -1 : 1); sign -= 2) {
        const double term = std::ldexp(static_cast<double>(sign * significand), exponent);
        sum.add(sign * significand, exponent);
        all.add(term);
        scaled.add(std::ldexp(term, shift));
        wide.add_product(std::ldexp(term, 900), 0x1p-900);
        for (double each : {term, -term}) wide.add_product(each * 0x1p900, 0x1.23456789abcdep1000);
        part[draw() % 2].add(term);
      }
    }
    check_odd("Accumulator", all.to_odd(), sum);
    const double right = std::ldexp(all.to_odd(), shift);
    expect(scaled.to_odd() == right, "Accumulator, scaled", right, bits_of(scaled.to_odd()),
           bits_of(right));
    check_odd("WideAccumulator", wide.to_odd(), sum);
    const double nearest = wide.to_nearest();
    const uint64_t nearest_bits =
        rounded(kFormat<Float64>, sum.is_negative(), sum.magnitude(), Sum::kLast);
    expect(bits_of(nearest) == nearest_bits, "WideAccumulator", nearest, bits_of(nearest),
           nearest_bits);
    // The digits of parts add up.
    part[0].carry();
    for (int digit = 0; digit < Accumulator::kDigits; ++digit) {
      part[0].digit[digit] += part[1].digit[digit];
    }
    expect(part[0].to_odd() == all.to_odd(), "Accumulator, in parts", right,
           bits_of(part[0].to_odd()), bits_of(all.to_odd()));
  }
  Accumulator ends;
  for (double term : {0x1p259, 0x1p-299, -0x1p259}) ends.add(term);
  expect(ends.to_odd() == 0x1p-299, "Accumulator", 0x1p259, bits_of(ends.to_odd()), 0);
  // As many terms as may be added before a carry, by their digits.
  Accumulator many;
  many.add(-0x1.fffffffffffffp20);
  for (int64_t& digit : many.digit) digit *= 1 << 30;
  const double of_many = many.to_odd();
  expect(of_many == -0x1.fffffffffffffp50, "Accumulator, of 2**30 terms", of_many, 0, 0);
  // Infinities among terms whose digits are negative.
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (double term : {kInfinity, -kInfinity, kInfinity - kInfinity}) {
    Accumulator special;
    special.add(-0x1p259);
    special.carry();
    special.add_special(term);
    for (int64_t& digit : special.digit) digit *= 1 << 12;
    const double sum = special.to_odd();
    expect(sum == term || (sum != sum && term != term), "Accumulator, not finite", sum, 0, 0);
  }
}

template <typename R>
void test_is_decided() {
  const Format format = kFormat<R>;
  int decided = 0;
  for (int i = 0; i < 200000; ++i) {
    // A value near a middle of two floats, and an error of about its distance.
    const int64_t least = int64_t{1} << (format.bits - 1);
    const int64_t middle = (2 * draw(least, 2 * least - 1) + 1) << (52 - format.bits);
    const int64_t significand = middle + draw(-4096, 4096);
    const int64_t error = draw(0, 4096);
    const double value = static_cast<double>(significand);
    typename R::Word word;
    if (!is_decided<R>(value, static_cast<double>(error), &word)) continue;
    ++decided;
    for (int64_t sign : {-1, 0, 1}) {
      const Wide exact = static_cast<Wide>(significand + sign * error);
      const uint64_t right = rounded(format, false, exact, 0);
      expect(word == right, "is_decided", value, word, right);
    }
  }
  expect(decided > 50000, "is_decided, too seldom", decided, 0, 0);
}

void test_last_bit() {
  for (int i = 0; i < 100000; ++i) {
    const int exponent = static_cast<int>(draw(-300, 300));
    const double odd = static_cast<double>(draw() >> 12 | 1);
    for (double value : {std::ldexp(odd, exponent), -std::ldexp(odd, exponent)}) {
      expect(last_bit(value) == exponent, "last_bit", value, 0, 0);
    }
  }
}

// A product of float32 that is subnormal, which `volatile` leaves to the processor.
float subnormal() {
  volatile float least = 0x1p-126f;
  volatile float half = 0.5f;
  return least * half;
}

void test_ieee() {
#if defined(__x86_64__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);
#elif defined(__aarch64__)
  uint64_t before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  __asm__ volatile("msr fpcr, %0" : : "r"(before | (uint64_t{1} << 24)));
#endif
  const float outside = subnormal();
  float inside;
  {
    Ieee scope;
    inside = subnormal();
  }
  const float after = subnormal();
#if defined(__x86_64__)
  _mm_setcsr(before);
#elif defined(__aarch64__)
  __asm__ volatile("msr fpcr, %0" : : "r"(before));
#endif
#if defined(__x86_64__) || defined(__aarch64__)
  expect(bits_of(outside) == 0, "outside of Ieee", outside, bits_of(outside), 0);
  expect(bits_of(after) == 0, "after Ieee", after, bits_of(after), 0);
#else
  (void)outside;
  (void)after;
#endif
  expect(bits_of(inside) == 0x400000u, "Ieee", inside, bits_of(inside), 0x400000u);
}

int run() {
#if defined(__AVX512F__)
  if (!__builtin_cpu_supports("avx512bw")) return 77;
#elif defined(__AVX2__)
  if (!__builtin_cpu_supports("avx2")) return 77;
#endif
  test_narrow<Float32>();
  test_narrow<BFloat16>();
  test_narrow<Float16>();
  test_widen();
  test_two_sum_and_to_odd();
  test_accumulator();
  test_is_decided<Float32>();
  test_is_decided<BFloat16>();
  test_is_decided<Float16>();
  test_last_bit();
  test_ieee();
  if (failures != 0) std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace samebits

int main() { return samebits::run(); }

// The steps of a program, on vectors of a block.

#include "functions.h"

#include <iterator>
#include <utility>
#include <vector>

#include "lanes.h"

#include "compiled.h"

namespace samebits {
namespace {

// Vectors of the unit's own width: GCC compares the lanes of a wider one one by one.
namespace unit {

#if defined(__AVX2__)
constexpr int kWidth = kLanes;
#else
constexpr int kWidth = 2;
#endif

using Doubles = double __attribute__((vector_size(8 * kWidth)));
using Longs = int64_t __attribute__((vector_size(8 * kWidth)));
using Unsigned = uint64_t __attribute__((vector_size(8 * kWidth)));
using Floats = float __attribute__((vector_size(4 * kWidth)));
using Ints = int32_t __attribute__((vector_size(4 * kWidth)));

SAMEBITS_INLINE Longs raw(Doubles value) { return reinterpret_cast<Longs>(value); }
SAMEBITS_INLINE Doubles of_raw(Longs value) { return reinterpret_cast<Doubles>(value); }
SAMEBITS_INLINE Doubles constant(double value) { return Doubles{} + value; }
SAMEBITS_INLINE Doubles widened(Floats value) {
#if defined(__AVX2__)
  return to_doubles(value);
#else
  return __builtin_convertvector(value, Doubles);
#endif
}

SAMEBITS_INLINE Longs selected(Longs first, Longs a, Longs b) { return (a & first) | (b & ~first); }
SAMEBITS_INLINE Doubles selected(Longs first, Doubles a, Doubles b) {
  return of_raw(selected(first, raw(a), raw(b)));
}

constexpr int64_t kSignBit = ~0x7fffffffffffffffll;
SAMEBITS_INLINE Doubles with_sign(Doubles size, Doubles sign) {
  return of_raw(raw(size) | (raw(sign) & kSignBit));
}

// Rounds the significand of a float64 to the bits before the last `dropped` ones, ties to even.
SAMEBITS_INLINE Doubles cut(Doubles value, int dropped) {
  const Longs bits = raw(value);
  const int64_t last = 1ll << dropped;
  return of_raw((bits + (last / 2 - 1) + ((bits >> dropped) & 1)) & -last);
}

// What a step does. Vectors of float64 and of int64 are the operands and the result.
namespace step {

SAMEBITS_INLINE Doubles add(Doubles a, Doubles b) { return a + b; }
SAMEBITS_INLINE Doubles subtract(Doubles a, Doubles b) { return a - b; }
SAMEBITS_INLINE Doubles multiply(Doubles a, Doubles b) { return a * b; }
// Two roundings: nothing here is contracted (CMakeLists.txt).
SAMEBITS_INLINE Doubles multiply_add(Doubles a, Doubles b, Doubles c) { return a * b + c; }
SAMEBITS_INLINE Doubles divide(Doubles a, Doubles b) { return a / b; }
// A NaN of either operand is the result.
SAMEBITS_INLINE Doubles greatest(Doubles a, Doubles b) {
  return selected((b < a) | (a != a), a, b);
}
SAMEBITS_INLINE Doubles least(Doubles a, Doubles b) {
  return selected((a < b) | (a != a), a, b);
}
SAMEBITS_INLINE Longs is_below(Doubles a, Doubles b) { return a < b; }
SAMEBITS_INLINE Longs is_at_most(Doubles a, Doubles b) { return a <= b; }
SAMEBITS_INLINE Longs is_equal(Doubles a, Doubles b) { return a == b; }
SAMEBITS_INLINE Longs differs(Doubles a, Doubles b) { return a != b; }
SAMEBITS_INLINE Doubles negated(Doubles a) { return of_raw(raw(a) ^ kSignBit); }
SAMEBITS_INLINE Doubles magnitude(Doubles a) { return of_raw(raw(a) & ~kSignBit); }
SAMEBITS_INLINE Doubles root(Doubles a) {
#if defined(__AVX512F__)
  return reinterpret_cast<Doubles>(_mm512_sqrt_pd(reinterpret_cast<__m512d>(a)));
#elif defined(__AVX2__)
  return reinterpret_cast<Doubles>(_mm256_sqrt_pd(reinterpret_cast<__m256d>(a)));
#else
  for (int lane = 0; lane < kWidth; ++lane) a[lane] = __builtin_sqrt(a[lane]);
  return a;
#endif
}
// Ties to even: 2**52 leaves no bits for a fraction.
SAMEBITS_INLINE Doubles nearest_integer(Doubles a) {
  const Doubles size = magnitude(a);
  const Doubles rounded = with_sign((size + 0x1p52) - 0x1p52, a);
  return selected(size < 0x1p52, rounded, a);
}
SAMEBITS_INLINE Doubles integer_below(Doubles a) {
  const Doubles nearest = nearest_integer(a);
  return selected(a < nearest, nearest - 1.0, nearest);
}
SAMEBITS_INLINE Doubles sign(Doubles a) {
  const Longs has_none = (a == Doubles{}) | (a != a);
  return selected(has_none, a, with_sign(constant(1), a));
}
SAMEBITS_INLINE Longs is_finite(Doubles a) {
  return magnitude(a) <= kGreatest;
}
SAMEBITS_INLINE Doubles to_float32(Doubles a) {
  return widened(__builtin_convertvector(a, Floats));
}
// A float32 that is not subnormal, as the nearest bfloat16.
SAMEBITS_INLINE Doubles to_bfloat16(Doubles a) {
  const Doubles rounded = cut(a, 45);
  const Doubles infinity = with_sign(constant(__builtin_inf()), a);
  const Doubles finite = selected(magnitude(rounded) < 0x1p128, rounded, infinity);
  return selected(is_finite(a), finite, a);
}
// A float32 as the nearest float16: subnormal numbers are multiples of 2**-24.
SAMEBITS_INLINE Doubles to_float16(Doubles a) {
  const Doubles size = magnitude(a);
  const Doubles tiny = with_sign((size + 0x1p28) - 0x1p28, a);
  const Doubles normal = cut(a, 42);
  const Doubles rounded = selected(size < 0x1p-14, tiny, normal);
  const Doubles infinity = with_sign(constant(__builtin_inf()), a);
  const Doubles finite = selected(magnitude(rounded) < 0x1p16, rounded, infinity);
  return selected(is_finite(a), finite, a);
}
SAMEBITS_INLINE Longs to_integer(Doubles a) { return __builtin_convertvector(a, Longs); }
SAMEBITS_INLINE Longs bits_of_float32(Doubles a) {
  return __builtin_convertvector(reinterpret_cast<Ints>(__builtin_convertvector(a, Floats)),
                                 Longs);
}

// Integers wrap around, as only unsigned ones may in C++.
SAMEBITS_INLINE Unsigned bits(Longs a) { return reinterpret_cast<Unsigned>(a); }
SAMEBITS_INLINE Longs of_bits(Unsigned a) { return reinterpret_cast<Longs>(a); }
SAMEBITS_INLINE Longs integer_add(Longs a, Longs b) { return of_bits(bits(a) + bits(b)); }
SAMEBITS_INLINE Longs integer_subtract(Longs a, Longs b) { return of_bits(bits(a) - bits(b)); }
SAMEBITS_INLINE Longs integer_multiply(Longs a, Longs b) { return of_bits(bits(a) * bits(b)); }
SAMEBITS_INLINE Longs integer_greatest(Longs a, Longs b) { return selected(b < a, a, b); }
SAMEBITS_INLINE Longs integer_least(Longs a, Longs b) { return selected(a < b, a, b); }
SAMEBITS_INLINE Longs integer_is_below(Longs a, Longs b) { return a < b; }
SAMEBITS_INLINE Longs integer_is_at_most(Longs a, Longs b) { return a <= b; }
SAMEBITS_INLINE Longs integer_is_equal(Longs a, Longs b) { return a == b; }
SAMEBITS_INLINE Longs integer_differs(Longs a, Longs b) { return a != b; }
// A distance of 64 or more leaves no bits, but for copies of the sign.
SAMEBITS_INLINE Longs is_short(Longs distance) { return (distance & ~63ll) == 0; }
SAMEBITS_INLINE Longs shift_left(Longs a, Longs b) {
  return of_bits(bits(a) << bits(b & 63)) & is_short(b);
}
SAMEBITS_INLINE Longs shift_right(Longs a, Longs b) {
  return a >> selected(is_short(b), b, Longs{} + 63);
}
SAMEBITS_INLINE Longs shift_right_logical(Longs a, Longs b) {
  return of_bits(bits(a) >> bits(b & 63)) & is_short(b);
}
// The last 32 bits, with their sign.
SAMEBITS_INLINE Longs to_int32(Longs a) { return of_bits(bits(a) << 32) >> 32; }
SAMEBITS_INLINE Doubles to_double(Longs a) { return __builtin_convertvector(a, Doubles); }
SAMEBITS_INLINE Doubles float32_of_bits(Longs a) {
  return widened(reinterpret_cast<Floats>(__builtin_convertvector(a, Ints)));
}
SAMEBITS_INLINE Longs bitwise_and(Longs a, Longs b) { return a & b; }
SAMEBITS_INLINE Longs bitwise_or(Longs a, Longs b) { return a | b; }
SAMEBITS_INLINE Longs bitwise_xor(Longs a, Longs b) { return a ^ b; }
SAMEBITS_INLINE Longs bitwise_not(Longs a) { return ~a; }
// A truth value as 0 or 1.
SAMEBITS_INLINE Longs is_true(Longs a) { return a & 1; }
SAMEBITS_INLINE Longs select(Longs first, Longs a, Longs b) { return selected(first, a, b); }

}  // namespace step

// Applies a step to a block. A bit of `constants` says that an operand is one number.
using Apply = void (*)(const double* const* operands, int64_t count, double* out);

template <typename V>
SAMEBITS_INLINE V operand_of(const double* at, bool is_constant, int64_t i) {
  if (!is_constant) return load_as<V>(at + i);
  return reinterpret_cast<V>(Longs{} + load_as<int64_t>(at));
}

template <auto function, int constants, typename R, typename... A, size_t... number>
SAMEBITS_INLINE void apply_each(const double* const* operands, int64_t count, double* out,
                                std::index_sequence<number...>, R (*)(A...)) {
  auto element = [&](int64_t i) {
    const R result = function(operand_of<A>(operands[number], constants >> number & 1, i)...);
    __builtin_memcpy(out + i, &result, sizeof result);
  };
  for (int64_t i = 0; i < count; i += 4 * kWidth) {
    element(i);
    element(i + kWidth);
    element(i + 2 * kWidth);
    element(i + 3 * kWidth);
  }
}

template <typename R, typename... A>
constexpr int arity(R (*)(A...)) {
  return sizeof...(A);
}

template <auto function, int constants>
void apply(const double* const* operands, int64_t count, double* out) {
  apply_each<function, constants>(operands, count, out,
                                  std::make_index_sequence<arity(function)>(), function);
}

// The ways to apply a step, by the bits of its constants; bits beyond its operands mean nothing.
struct Ways {
  Apply of[8];
};
template <auto function, int... bits>
constexpr Ways ways(std::integer_sequence<int, bits...>) {
  return {{apply<function, bits & ((1 << arity(function)) - 1)>...}};
}
constexpr Ways kWays[] = {
#define SAMEBITS_WAYS(name) ways<&step::name>(std::make_integer_sequence<int, 8>()),
    SAMEBITS_STEPS(SAMEBITS_WAYS)
#undef SAMEBITS_WAYS
};

// ---------------------------------------------------------------- Programs that are compiled

template <int64_t name>
struct Function;
#define SAMEBITS_FUNCTION(name)                               \
  template <>                                                 \
  struct Function<static_cast<int64_t>(StepName::k_##name)> { \
    [[maybe_unused]] static constexpr auto of = &step::name;  \
  };
SAMEBITS_STEPS(SAMEBITS_FUNCTION)
#undef SAMEBITS_FUNCTION

template <typename V, typename P, int64_t operand>
SAMEBITS_INLINE V known_operand(const Longs* registers) {
  if constexpr (operand >= kFirstConstant) {
    return reinterpret_cast<V>(Longs{} + P::constants[operand - kFirstConstant]);
  } else {
    return reinterpret_cast<V>(registers[operand]);
  }
}

template <typename P, int64_t word, auto function, typename R, typename... A, size_t... number>
SAMEBITS_INLINE void take(Longs* registers, std::index_sequence<number...>, R (*)(A...)) {
  const R result = function(known_operand<A, P, Step{word}.operand(number)>(registers)...);
  registers[Step{word}.result()] = reinterpret_cast<Longs>(result);
}

// Takes all steps of a program on one vector. Its registers are the unit's own ones, since all of
// their numbers are known here.
template <typename P, size_t... k>
SAMEBITS_INLINE Doubles taken(Doubles operand, std::index_sequence<k...>) {
  Longs registers[P::registers] = {raw(operand)};
  (take<P, P::steps[k], Function<Step{P::steps[k]}.name()>::of>(
       registers,
       std::make_index_sequence<arity(Function<Step{P::steps[k]}.name()>::of)>(),
       Function<Step{P::steps[k]}.name()>::of),
   ...);
  return of_raw(registers[P::result]);
}

template <typename P>
void evaluate_known(const void* operand, int64_t count, void* out) {
  using Word = typename P::Format::Word;
  const Word* from = static_cast<const Word*>(operand);
  Word* to = static_cast<Word*>(out);
  for (int64_t i = 0; i < count; i += kWidth) {
    const Word* at = from + i;
    Word* result = to + i;
    Word last[kWidth] = {};
    const size_t rest = sizeof(Word) * static_cast<size_t>(count - i);
    const bool is_last = count - i < kWidth;
    if (is_last) {
      __builtin_memcpy(last, at, rest);
      at = result = last;
    }
    Floats operands;
    if constexpr (sizeof(Word) == 4) {
      operands = load_as<Floats>(at);
    } else {
      using Halves = uint16_t __attribute__((vector_size(2 * kWidth)));
      const Ints bits = __builtin_convertvector(load_as<Halves>(at), Ints);
      operands = reinterpret_cast<Floats>(bits << 16);
    }
    const Doubles value =
        taken<P>(widened(operands), std::make_index_sequence<std::size(P::steps)>());
    const Ints bits = reinterpret_cast<Ints>(__builtin_convertvector(value, Floats));
    for (int lane = 0; lane < kWidth; ++lane)
      result[lane] = static_cast<Word>(bits[lane] >> (32 - 8 * static_cast<int>(sizeof(Word))));
    if (is_last) __builtin_memcpy(to + i, last, rest);
  }
}

// ---------------------------------------------------------------- Programs that are interpreted

// A step with the addresses of its operands and of its result.
struct Placed {
  Apply apply;
  const double* operands[3];
  double* out;
};

Placed placed(const Step& step, const Program& program, double* registers) {
  Placed at;
  int constants = 0;
  for (int number = 0; number < 3; ++number) {
    const int64_t operand = step.operand(number);
    const bool is_constant = operand >= kFirstConstant;
    constants |= static_cast<int>(is_constant) << number;
    at.operands[number] = is_constant ? program.constants + (operand - kFirstConstant)
                                      : registers + operand * kBlockElements;
  }
  at.apply = kWays[step.name()].of[constants];
  at.out = registers + step.result() * kBlockElements;
  return at;
}

// The float64 or the int64 of an operand.
SAMEBITS_INLINE double loaded(float value) { return value; }
SAMEBITS_INLINE double loaded(bfloat16 value) {
  return float_of(static_cast<uint32_t>(value.bits) << 16);
}
SAMEBITS_INLINE double loaded(float16 value) { return as_float(value); }
SAMEBITS_INLINE double loaded(int64_t value) { return double_of(static_cast<uint64_t>(value)); }
SAMEBITS_INLINE double loaded(int32_t value) { return loaded(int64_t{value}); }

template <typename T>
void load_block(const void* data, int64_t first, int64_t count, double* out) {
  const T* at = static_cast<const T*>(data) + first;
  for (int64_t i = 0; i < count; ++i) out[i] = loaded(at[i]);
}
constexpr void (*kLoad[kTypes])(const void*, int64_t, int64_t, double*) = {
    load_block<float>, load_block<bfloat16>, load_block<float16>, load_block<int32_t>,
    load_block<int64_t>};

// The bits of a float64 that the format has.
template <typename R>
SAMEBITS_INLINE typename R::Word stored(double value) {
  if (std::is_same<R, Float16>::value) {
    const uint64_t sign = bits_of(value) >> 48 & 0x8000u;
    return static_cast<typename R::Word>(Float16::narrow(value) | sign);
  }
  return static_cast<typename R::Word>(bits_of(static_cast<float>(value)) >>
                                       (32 - 8 * sizeof(typename R::Word)));
}

template <typename R>
void evaluate(const Program& program, int64_t elements, double* registers, void* out) {
  using Word = typename R::Word;
  std::vector<Placed> steps;
  steps.reserve(static_cast<size_t>(program.length));
  for (int64_t k = 0; k < program.length; ++k)
    steps.push_back(placed(program.steps[k], program, registers));
  for (int64_t i = 0; i < elements; i += kBlockElements) {
    const int64_t count = elements - i < kBlockElements ? elements - i : kBlockElements;
    for (int64_t k = 0; k < program.count; ++k) {
      const Argument& operand = program.operands[k];
      kLoad[operand.type](operand.data, i, count, registers + k * kBlockElements);
    }
    for (const Placed& step : steps) step.apply(step.operands, count, step.out);
    const double* results = registers + program.result * kBlockElements;
    Word* words = static_cast<Word*>(out) + i;
    for (int64_t k = 0; k < count; ++k) words[k] = stored<R>(results[k]);
  }
}

}  // namespace unit
}  // namespace

#define SAMEBITS_KNOWN(P)                                                              \
  {P::steps, std::size(P::steps), P::constants, std::size(P::constants), P::format, \
   unit::evaluate_known<P>},
constexpr KnownProgram kKnown[] = {SAMEBITS_COMPILED(SAMEBITS_KNOWN)};

SAMEBITS_TABLE(FunctionKernels, function_kernels) = {
    {unit::evaluate<Float32>, unit::evaluate<BFloat16>, unit::evaluate<Float16>},
    kKnown,
    std::size(kKnown)};

}  // namespace samebits

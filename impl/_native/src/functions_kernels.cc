// The steps of a program, on vectors of a block.

#include "functions.h"

#include <iterator>
#include <utility>
#include <vector>

#include "compiled.h"
#include "formats.h"
#include "lanes.h"

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

SAMEBITS_INLINE Longs selected(Longs first, Longs a, Longs b) { return first ? a : b; }
SAMEBITS_INLINE Doubles selected(Longs first, Doubles a, Doubles b) { return first ? a : b; }

#if defined(__AVX2__)
constexpr int kToNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
constexpr int kBelow = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
#endif

constexpr int64_t kSignBit = ~0x7fffffffffffffffll;
SAMEBITS_INLINE Doubles with_sign(Doubles size, Doubles sign) {
  return of_raw(raw(size) | (raw(sign) & kSignBit));
}

// The larger or the smaller operand. b if they are equal, or if one is a NaN.
SAMEBITS_INLINE Doubles larger(Doubles a, Doubles b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Doubles>(
      _mm512_max_pd(reinterpret_cast<__m512d>(a), reinterpret_cast<__m512d>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Doubles>(
      _mm256_max_pd(reinterpret_cast<__m256d>(a), reinterpret_cast<__m256d>(b)));
#else
  return selected(b < a, a, b);
#endif
}
SAMEBITS_INLINE Doubles smaller(Doubles a, Doubles b) {
#if defined(__AVX512F__)
  return reinterpret_cast<Doubles>(
      _mm512_min_pd(reinterpret_cast<__m512d>(a), reinterpret_cast<__m512d>(b)));
#elif defined(__AVX2__)
  return reinterpret_cast<Doubles>(
      _mm256_min_pd(reinterpret_cast<__m256d>(a), reinterpret_cast<__m256d>(b)));
#else
  return selected(a < b, a, b);
#endif
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
// a * b + c, rounded once if the unit can do so, for quick programs alone.
SAMEBITS_INLINE Doubles add_product(Doubles a, Doubles b, Doubles c) {
#if defined(__AVX512F__)
  return reinterpret_cast<Doubles>(_mm512_fmadd_pd(reinterpret_cast<__m512d>(a),
                                                   reinterpret_cast<__m512d>(b),
                                                   reinterpret_cast<__m512d>(c)));
#elif defined(__AVX2__)
  return reinterpret_cast<Doubles>(_mm256_fmadd_pd(reinterpret_cast<__m256d>(a),
                                                   reinterpret_cast<__m256d>(b),
                                                   reinterpret_cast<__m256d>(c)));
#elif defined(__FP_FAST_FMA)
  for (int lane = 0; lane < kWidth; ++lane) c[lane] = __builtin_fma(a[lane], b[lane], c[lane]);
  return c;
#else
  return a * b + c;
#endif
}
SAMEBITS_INLINE Doubles subtract_product(Doubles a, Doubles b, Doubles c) {
#if defined(__AVX512F__)
  return reinterpret_cast<Doubles>(_mm512_fnmadd_pd(reinterpret_cast<__m512d>(a),
                                                    reinterpret_cast<__m512d>(b),
                                                    reinterpret_cast<__m512d>(c)));
#elif defined(__AVX2__)
  return reinterpret_cast<Doubles>(_mm256_fnmadd_pd(reinterpret_cast<__m256d>(a),
                                                    reinterpret_cast<__m256d>(b),
                                                    reinterpret_cast<__m256d>(c)));
#else
  return add_product(-a, b, c);
#endif
}
// a * b - near, where near is the float64 nearest to a * b. It is a float64, so both ways are exact.
SAMEBITS_INLINE Doubles product_error(Doubles a, Doubles b, Doubles near) {
#if defined(__AVX2__) || defined(__FP_FAST_FMA)
  return add_product(a, b, -near);
#else
  // Dekker's halves of 26 bits, whose products are exact.
  const auto half = [](Doubles value) { return of_raw((raw(value) + (1 << 26)) & -(1ll << 27)); };
  const Doubles a_high = half(a), b_high = half(b);
  const Doubles a_low = a - a_high, b_low = b - b_high;
  return (((a_high * b_high - near) + a_high * b_low) + b_high * a_low) + a_low * b_low;
#endif
}
// a + b - near, where near is the float64 nearest to a + b (numbers.h: two_sum).
SAMEBITS_INLINE Doubles sum_error(Doubles a, Doubles b, Doubles near) {
  const Doubles of_b = near - a;
  return (a - (near - of_b)) + (b - of_b);
}
// The same if b is not greater than a.
SAMEBITS_INLINE Doubles rest_of_sum(Doubles a, Doubles b, Doubles near) { return b - (near - a); }
// Entries of a table of constants.
struct Table {
  const void* at;
};
// The entry whose number is the integer below a, or the first one, or the last one.
SAMEBITS_INLINE Doubles entry(Doubles a, Table table) {
  const Doubles number = smaller(larger(a, Doubles{}), constant(kEntries - 1));
#if defined(__AVX512F__)
  return reinterpret_cast<Doubles>(
      _mm512_permutexvar_pd(_mm512_cvttpd_epi64(reinterpret_cast<__m512d>(number)),
                            load_as<__m512d>(table.at)));
#elif defined(__AVX2__)
  return reinterpret_cast<Doubles>(
      _mm256_i32gather_pd(static_cast<const double*>(table.at),
                          _mm256_cvttpd_epi32(reinterpret_cast<__m256d>(number)), 8));
#else
  Doubles result;
  for (int lane = 0; lane < kWidth; ++lane)
    result[lane] = load_as<double>(static_cast<const double*>(table.at) +
                                   static_cast<int64_t>(number[lane]));
  return result;
#endif
}
SAMEBITS_INLINE Doubles divide(Doubles a, Doubles b) { return a / b; }
// A NaN of either operand is the result.
SAMEBITS_INLINE Doubles greatest(Doubles a, Doubles b) { return selected(a != a, a, larger(a, b)); }
SAMEBITS_INLINE Doubles least(Doubles a, Doubles b) { return selected(a != a, a, smaller(a, b)); }
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
#if defined(__AVX512F__)
  return reinterpret_cast<Doubles>(_mm512_roundscale_pd(reinterpret_cast<__m512d>(a), kToNearest));
#elif defined(__AVX2__)
  return reinterpret_cast<Doubles>(_mm256_round_pd(reinterpret_cast<__m256d>(a), kToNearest));
#else
  const Doubles size = magnitude(a);
  const Doubles rounded = with_sign((size + 0x1p52) - 0x1p52, a);
  return selected(size < 0x1p52, rounded, a);
#endif
}
SAMEBITS_INLINE Doubles integer_below(Doubles a) {
#if defined(__AVX512F__)
  return reinterpret_cast<Doubles>(_mm512_roundscale_pd(reinterpret_cast<__m512d>(a), kBelow));
#elif defined(__AVX2__)
  return reinterpret_cast<Doubles>(_mm256_round_pd(reinterpret_cast<__m256d>(a), kBelow));
#else
  const Doubles nearest = nearest_integer(a);
  return selected(a < nearest, nearest - 1.0, nearest);
#endif
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
  if constexpr (std::is_same<V, step::Table>::value) {
    return {at};
  } else {
    if (!is_constant) return load_as<V>(at + i);
    return reinterpret_cast<V>(Longs{} + load_as<int64_t>(at));
  }
}

template <auto function, int constants, typename R, typename... A, size_t... number>
SAMEBITS_INLINE void apply_each(const double* const* operands, int64_t count, double* out,
                                std::index_sequence<number...>, R (*)(A...)) {
  // Addresses that no result overwrites, and all results of a turn before the first is stored: nothing
  // is read again or waits.
  const double* const at[] = {operands[number]...};
  auto element = [&](int64_t i) {
    return function(operand_of<A>(at[number], constants >> number & 1, i)...);
  };
  for (int64_t i = 0; i < count; i += 4 * kWidth) {
    const R first = element(i), second = element(i + kWidth);
    const R third = element(i + 2 * kWidth), fourth = element(i + 3 * kWidth);
    __builtin_memcpy(out + i, &first, sizeof first);
    __builtin_memcpy(out + i + kWidth, &second, sizeof second);
    __builtin_memcpy(out + i + 2 * kWidth, &third, sizeof third);
    __builtin_memcpy(out + i + 3 * kWidth, &fourth, sizeof fourth);
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
  if constexpr (std::is_same<V, step::Table>::value) {
    return {&P::constants[operand - kFirstConstant]};
  } else if constexpr (operand >= kFirstConstant) {
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

template <typename P, int64_t word>
SAMEBITS_INLINE void take(Longs* registers) {
  constexpr auto function = Function<Step{word}.name()>::of;
  take<P, word, function>(registers, std::make_index_sequence<arity(function)>(), function);
}

// The words of a type.
template <Type type>
using WordOf = typename std::conditional<
    type == kOfFloat64, uint64_t,
    typename std::conditional<type == kOfFloat32, uint32_t, uint16_t>::type>::type;

// kWidth floats as float64.
template <Type type>
SAMEBITS_INLINE Longs load_words(const WordOf<type>* at) {
  if constexpr (type == kOfFloat64) {
    return load_as<Longs>(at);
  } else if constexpr (type == kOfFloat32) {
    return raw(widened(load_as<Floats>(at)));
  } else {
    static_assert(type == kOfBFloat16, "a float16 is not compiled");
    using Halves = uint16_t __attribute__((vector_size(2 * kWidth)));
    const Ints bits = __builtin_convertvector(load_as<Halves>(at), Ints);
    return raw(widened(reinterpret_cast<Floats>(bits << 16)));
  }
}

template <Type type>
SAMEBITS_INLINE void store_words(Longs value, WordOf<type>* at) {
  if constexpr (type == kOfFloat64) {
    __builtin_memcpy(at, &value, sizeof value);
  } else {
    const Ints bits = reinterpret_cast<Ints>(__builtin_convertvector(of_raw(value), Floats));
    for (int lane = 0; lane < kWidth; ++lane)
      at[lane] = static_cast<WordOf<type>>(bits[lane] >> (32 - 8 * static_cast<int>(sizeof *at)));
  }
}

// The elements that take all steps together: two vectors, since a step often waits for the one before.
constexpr int kTogether = 2 * kWidth;

// Takes all steps of a program. Its registers are the unit's own ones, since all of their numbers are
// known here.
template <typename P, size_t... operand, size_t... k, size_t... result>
SAMEBITS_INLINE void take_all(const WordOf<P::type>* const* operands,
                              WordOf<P::type>* const* results,
                              std::index_sequence<operand...>, std::index_sequence<k...>,
                              std::index_sequence<result...>) {
  Longs first[P::registers] = {load_words<P::type>(operands[operand])...};
  Longs second[P::registers] = {load_words<P::type>(operands[operand] + kWidth)...};
  ((take<P, P::steps[k]>(first), take<P, P::steps[k]>(second)), ...);
  (store_words<P::type>(first[P::results[result]], results[result]), ...);
  (store_words<P::type>(second[P::results[result]], results[result] + kWidth), ...);
}

template <typename P>
void evaluate_known(const Argument* operands, int64_t first, int64_t count, void* const* out) {
  using Word = WordOf<P::type>;
  constexpr size_t arity = P::count, number = std::size(P::results);
  for (int64_t i = 0; i < count; i += kTogether) {
    const Word* from[arity];
    Word* to[number];
    for (size_t k = 0; k < arity; ++k)
      from[k] = static_cast<const Word*>(operands[k].data) + first + i;
    for (size_t k = 0; k < number; ++k) to[k] = static_cast<Word*>(out[k]) + i;
    Word last[arity][kTogether] = {}, results[number][kTogether];
    const int64_t rest = count - i;
    if (rest < kTogether) {
      for (size_t k = 0; k < arity; ++k) {
        for (int64_t lane = 0; lane < rest; ++lane) last[k][lane] = from[k][lane];
        from[k] = last[k];
      }
      for (size_t k = 0; k < number; ++k) to[k] = results[k];
    }
    take_all<P>(from, to, std::make_index_sequence<arity>(),
                std::make_index_sequence<std::size(P::steps)>(),
                std::make_index_sequence<number>());
    if (rest >= kTogether) continue;
    for (size_t k = 0; k < number; ++k)
      for (int64_t lane = 0; lane < rest; ++lane)
        static_cast<Word*>(out[k])[i + lane] = results[k][lane];
  }
}

// ---------------------------------------------------------------- Programs that are interpreted

// A step with the addresses of its operands and of its result.
struct Placed {
  Apply apply;
  const double* operands[3];
  double* out;
};

// The float64 or the int64 of an operand.
SAMEBITS_INLINE double loaded(double value) { return value; }
SAMEBITS_INLINE double loaded(float value) { return value; }
SAMEBITS_INLINE double loaded(bfloat16 value) {
  return float_of(static_cast<uint32_t>(value.bits) << 16);
}
SAMEBITS_INLINE double loaded(float16 value) { return as_float(value); }
SAMEBITS_INLINE double loaded(int64_t value) { return double_of(static_cast<uint64_t>(value)); }
SAMEBITS_INLINE double loaded(int32_t value) { return loaded(int64_t{value}); }

template <typename T>
void load_block(const void* data, const Elements& elements, double* out) {
  const T* at = static_cast<const T*>(data);
  if (elements.positions == nullptr) {
    for (int64_t i = 0; i < elements.count; ++i) out[i] = loaded(at[elements.first + i]);
  } else {
    for (int64_t i = 0; i < elements.count; ++i) out[i] = loaded(at[elements.positions[i]]);
  }
}
constexpr void (*kLoad[kTypes])(const void*, const Elements&, double*) = {
    load_block<float>,  load_block<bfloat16>, load_block<float16>,
    load_block<double>, load_block<int32_t>,  load_block<int64_t>};

// The bits of a float64 that the type has.
template <Type type>
SAMEBITS_INLINE WordOf<type> stored(double value) {
  if constexpr (type == kOfFloat64) {
    return bits_of(value);
  } else if constexpr (type == kOfFloat16) {
    const uint64_t sign = bits_of(value) >> 48 & 0x8000u;
    return static_cast<WordOf<type>>(Float16::narrow(value) | sign);
  } else {
    return static_cast<WordOf<type>>(bits_of(static_cast<float>(value)) >>
                                     (32 - 8 * sizeof(WordOf<type>)));
  }
}

// The elements of a block whose registers stay in the nearest cache: a multiple of what `apply_each`
// has at once.
SAMEBITS_INLINE int64_t block_of(const Program& program) {
  constexpr int64_t least = 4 * kWidth, cache = 3072;
  const int64_t most = cache / program.registers / least * least;
  return most < 2 * least ? 2 * least : most > kBlockElements ? kBlockElements : most;
}

// Calls `store` with the elements of each block, and with the registers, whose block is `block`.
template <typename Store>
SAMEBITS_INLINE void take_blocks(const Program& program, const Elements& all, double* registers,
                                 const Store& store) {
  const int64_t block = block_of(program);
  std::vector<Placed> steps(static_cast<size_t>(program.length));
  for (int64_t k = 0; k < program.length; ++k) {
    const Step& step = program.steps[k];
    Placed& at = steps[static_cast<size_t>(k)];
    int constants = 0;
    for (int number = 0; number < 3; ++number) {
      const int64_t operand = step.operand(static_cast<size_t>(number));
      const bool is_constant = operand >= kFirstConstant;
      constants |= static_cast<int>(is_constant) << number;
      at.operands[number] = is_constant ? program.constants + (operand - kFirstConstant)
                                        : registers + operand * block;
    }
    at.apply = kWays[step.name()].of[constants];
    at.out = registers + step.result() * block;
  }
  for (int64_t i = 0; i < all.count; i += block) {
    const int64_t count = all.count - i < block ? all.count - i : block;
    const Elements elements = {all.first + i, count, all.positions ? all.positions + i : nullptr};
    for (int64_t k = 0; k < program.count; ++k) {
      const Argument& operand = program.operands[k];
      kLoad[operand.type](operand.data, elements, registers + k * block);
    }
    for (const Placed& step : steps) step.apply(step.operands, count, step.out);
    store(elements, block);
  }
}

template <Type type>
void evaluate(const Program& program, Elements all, double* registers, void* out) {
  WordOf<type>* words = static_cast<WordOf<type>*>(out);
  take_blocks(program, all, registers, [&](const Elements& elements, int64_t block) {
    const double* results = registers + program.results[0] * block;
    const int64_t* at = elements.positions;
    for (int64_t k = 0; k < elements.count; ++k)
      words[at == nullptr ? elements.first + k : at[k]] = stored<type>(results[k]);
  });
}

// Returns whether any bit of some is 1.
SAMEBITS_INLINE bool has_bits(Longs some) {
#if defined(__AVX512F__)
  return _mm512_test_epi64_mask(reinterpret_cast<__m512i>(some),
                                reinterpret_cast<__m512i>(some)) != 0;
#elif defined(__AVX2__)
  return !_mm256_testz_si256(reinterpret_cast<__m256i>(some), reinterpret_cast<__m256i>(some));
#else
  int64_t every = 0;
  for (int lane = 0; lane < kWidth; ++lane) every |= some[lane];
  return every != 0;
#endif
}

// Appends the positions, from `first` on, at which two ends of intervals differ, and are no NaNs.
int64_t find_doubts(const double* low, const double* high, int64_t first, int64_t count,
                    int64_t* positions, int64_t doubts) {
  const auto append = [&](int64_t i) {
    positions[doubts] = first + i;
    doubts += (bits_of(low[i]) != bits_of(high[i])) & ((low[i] == low[i]) | (high[i] == high[i]));
  };
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) {
    if (!has_bits(load_as<Longs>(low + i) ^ load_as<Longs>(high + i))) continue;
    for (int lane = 0; lane < kWidth; ++lane) append(i + lane);
  }
  for (; i < count; ++i) append(i);
  return doubts;
}

int64_t evaluate_quickly(const Program& program, const KnownProgram* known, Elements all,
                         double* registers, double* out, int64_t* positions, int64_t doubts) {
  if (known == nullptr) {
    take_blocks(program, all, registers, [&](const Elements& elements, int64_t block) {
      const double* low = registers + program.results[0] * block;
      const double* high = registers + program.results[1] * block;
      const size_t bytes = sizeof(double) * static_cast<size_t>(elements.count);
      __builtin_memcpy(out + elements.first, low, bytes);
      doubts = find_doubts(low, high, elements.first, elements.count, positions, doubts);
    });
    return doubts;
  }
  for (int64_t i = 0; i < all.count; i += kBlockElements) {
    const int64_t count = all.count - i < kBlockElements ? all.count - i : kBlockElements;
    const int64_t first = all.first + i;
    void* const ends[] = {out + first, registers};
    known->evaluate(program.operands, first, count, ends);
    doubts = find_doubts(out + first, registers, first, count, positions, doubts);
  }
  return doubts;
}

}  // namespace unit
}  // namespace

#define SAMEBITS_KNOWN(P)                                                              \
  {P::steps, std::size(P::steps), P::constants, std::size(P::constants), P::type, P::count, \
   unit::evaluate_known<P>},
constexpr KnownProgram kKnown[] = {
    SAMEBITS_COMPILED(SAMEBITS_KNOWN) SAMEBITS_COMPILED_DOUBLES(SAMEBITS_KNOWN)};

SAMEBITS_TABLE(FunctionKernels, function_kernels) = {
    {unit::evaluate<kOfFloat32>, unit::evaluate<kOfBFloat16>, unit::evaluate<kOfFloat16>,
     unit::evaluate<kOfFloat64>},
    unit::evaluate_quickly,
    kKnown,
    std::size(kKnown)};

}  // namespace samebits

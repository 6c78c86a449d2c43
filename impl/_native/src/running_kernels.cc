// The inner loops of running sums and of sums of parts; see running.h and lanes.h.

#include "running.h"

#include "lanes.h"

namespace samebits {
namespace {

static_assert(kLanes <= kMostLanes, "a kernel has a lane for each line");

template <typename T>
unsigned run(const Lines& lines, int64_t first, int64_t count, LineSums* sums) {
  using R = FormatOf<T>;
  using Word = typename R::Word;
  const T* x = static_cast<const T*>(lines.x);
  T terms[kSteps * kLanes] = {};
  alignas(64) double values[kSteps * kLanes];
  Word words[kSteps * kLanes];
  // The elements of a step become neighbours.
  if (lines.are_neighbours) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(terms + i * kLanes, x + lines.base[0] + (first + i) * lines.step,
                  kLanes * sizeof(T));
  } else {
    for (int lane = 0; lane < lines.lanes; ++lane) {
      const T* at = x + lines.base[lane] + first * lines.step;
      for (int64_t i = 0; i < count; ++i) terms[i * kLanes + lane] = at[i * lines.step];
    }
  }
  Exact<Doubles> sum = load_exact(sums->near, sums->rest, sums->error);
  const Exact<Doubles> before = sum;
  Longs are_lost{};
  for (int64_t i = 0; i < count; ++i) {
    sum.add(load(terms + i * kLanes));
    store_as(std::is_same<T, double>::value ? sum.near + sum.rest : to_odd(sum),
             values + i * kLanes);
  }
  are_lost = sum.error != 0;
  if (std::is_same<T, double>::value && any_of(are_lost)) {
    sum = before;
    are_lost = Longs{};
    for (int64_t i = 0; i < count; ++i) {
      sum.add(load(terms + i * kLanes));
      const Interval ends = interval<Float64>(sum, 1 + 0x1p-10);
      are_lost |= reinterpret_cast<Longs>(ends.low) ^ reinterpret_cast<Longs>(ends.high);
      store_as(ends.low, values + i * kLanes);
    }
    store_as(sum.error, sums->error);
  }
  store_as(sum.near, sums->near);
  store_as(sum.rest, sums->rest);
  narrow_all<R>(values, count * kLanes, words);
  Word* out = static_cast<Word*>(lines.out);
  if (lines.are_neighbours) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(out + lines.base[0] + (first + i) * lines.step, words + i * kLanes,
                  kLanes * sizeof(Word));
  } else {
    for (int lane = 0; lane < lines.lanes; ++lane) {
      Word* at = out + lines.base[lane] + first * lines.step;
      for (int64_t i = 0; i < count; ++i) at[i * lines.step] = words[i * kLanes + lane];
    }
  }
  unsigned lost = 0;
  for (int lane = 0; lane < lines.lanes; ++lane)
    if (are_lost[lane] != 0) lost |= 1u << lane;
  return lost;
}

// The words of -0, and of what counts as -0.
template <typename Word>
constexpr Word kLeastNormal = Word(sizeof(Word) == 8   ? 0x0010000000000000ull
                                   : sizeof(Word) == 4 ? 0x00800000ull
                                                       : 0x0080ull);

// The sums of parts of float64 that two coarse sums hold (`sum_of` of lanes.h), as values. Says for
// each vector whether it is another one. All terms are at least 2**-1022 or zeros, and the greatest
// of a sum is far greater, so nothing else here is subnormal.
void add_coarsely(const void* const* parts, int64_t count, int64_t first, int64_t n,
                  double* values, uint8_t* are_others) {
  Flushing scope(kFloat32);
  const Start start(count, log2_above(count), count);
  const double* const* x = reinterpret_cast<const double* const*>(parts);
  for (int64_t i = 0; i + kLanes <= n; i += kLanes) {
    Doubles most{};
    for (int64_t part = 0; part < count; ++part)
      most = greater(most, load_flushed(x[part] + first + i));
    const Doubles counted = greater(most, Doubles{} + 0x1p-800);
    Coarse<Doubles> high = {start.high(counted)}, low = {start.second(counted)};
    const Doubles from = high.high, second = low.high;
    Longs lost{};
    for (int64_t part = 0; part < count; ++part)
      lost |= reinterpret_cast<Longs>(
          low.add_high(high.add_high(load_flushed(x[part] + first + i))));
    const Longs is_far = (most > 0x1p900) | ((most < 0x1p-800) & (most != 0));
    // A zero may have a sign.
    are_others[i / kLanes] = any_of((lost << 1) | is_far);
    store_as((high.high - from) + (low.high - second), values + i);
  }
}

template <typename T>
bool add_parts(const void* const* parts, int64_t count, int64_t first, int64_t last, void* out,
               uint8_t* in_doubt) {
  using R = FormatOf<T>;
  using Word = typename R::Word;
  constexpr Word kSign = Word(1) << (8 * sizeof(Word) - 1);
  constexpr bool is_half = sizeof(T) == 2 && !std::is_same<T, bfloat16>::value;
  constexpr Word kLeast = is_half ? Word(1) : kLeastNormal<Word>;
  const int64_t n = last - first;
  const int64_t padded = (n + kLanes - 1) / kLanes * kLanes;
  alignas(64) double values[kTile], errors[kTile];
  alignas(64) Word words[kTile], are_minus[kTile];
  Range<T> range;
  for (int64_t part = 0; part < count; ++part)
    range.add(static_cast<const T*>(parts[part]) + first, n);
  const bool is_sure = range.is_exact(log2_above(count));
  const Start start(count, log2_above(count), count);
  uint8_t are_others[kTile / kLanes];
  const bool are_coarse = std::is_same<T, double>::value && count > 2;
  if (are_coarse) add_coarsely(parts, count, first, n, values, are_others);
  Longs any{};
  auto all = [&](int64_t i, auto load_one) {
    const T* const* x = reinterpret_cast<const T* const*>(parts);
    Exact<Doubles> sum;
    if (is_sure) {
      for (int64_t part = 0; part < count; ++part) sum.near += load_one(x[part] + first + i);
      store_as(sum.near, values + i);
    } else {
      const int64_t pair = std::is_same<T, double>::value && count > 2 ? 0 : count;
      if constexpr (std::is_same<T, double>::value) {
        if (pair == 0)
          sum = sum_of(count, start, [&](int64_t part) { return load_one(x[part] + first + i); });
      }
      if (pair > 0) sum.near = load_one(x[0] + first + i);
      if (pair > 1) sum.rest = two_sum(&sum.near, load_one(x[1] + first + i));
      if (pair > 0) sum.error = sum.rest - sum.rest;  // A NaN once a sum is not finite.
      for (int64_t part = 2; part < pair; ++part) sum.add(load_one(x[part] + first + i));
      if (!std::is_same<T, double>::value) {
        store_as(to_odd(sum), values + i);
      } else if (!any_of(sum.error != 0)) {
        store_as(sum.near + sum.rest, values + i);
      } else {
        const Interval ends = interval<Float64>(sum, 1 + 0x1p-10);
        store_as(ends.low, values + i);
        // Not 0 where the ends differ.
        sum.error = reinterpret_cast<Doubles>(reinterpret_cast<Longs>(Doubles{} + 1) &
                                              (reinterpret_cast<Longs>(ends.low) !=
                                               reinterpret_cast<Longs>(ends.high)));
      }
      any |= sum.error != 0;
    }
    store_as(sum.error, errors + i);
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    if (are_coarse && !are_others[i / kLanes]) {
      store_as(Doubles{}, errors + i);
    } else {
      all(i, [](const T* at) { return load(at); });
    }
  }
  if (i < n) all(i, [&](const T* at) { return load_some(at, n - i); });
  narrow_all<R>(values, padded, words);
  Word* results = static_cast<Word*>(out) + first;
  // A sum of zeros is -0 if each of them is.
  int has_zeros = 0;
  for (int64_t k = 0; k < n; ++k) {
    results[k] = words[k];
    has_zeros |= words[k] == 0;
  }
  if (has_zeros) {
    for (int64_t k = 0; k < n; ++k) are_minus[k] = kSign;
    for (int64_t part = 0; part < count; ++part) {
      const Word* raw = static_cast<const Word*>(parts[part]) + first;
      for (int64_t k = 0; k < n; ++k)
        are_minus[k] = Word(raw[k] ^ kSign) < kLeast ? are_minus[k] : Word(0);
    }
    for (int64_t k = 0; k < n; ++k) results[k] |= are_minus[k];
  }
  if (!any_of(any)) return false;
  for (int64_t k = 0; k < n; ++k) in_doubt[k] = !(errors[k] == 0);
  return true;
}

}  // namespace

SAMEBITS_TABLE(RunningKernels, running_kernels) = {
    kLanes, {run<float>, run<bfloat16>, run<float16>, run<double>}};
SAMEBITS_TABLE(PartsKernels, parts_kernels) = {
    {add_parts<float>, add_parts<bfloat16>, add_parts<float16>, add_parts<double>}};

}  // namespace samebits

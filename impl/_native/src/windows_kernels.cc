// The inner loops of sums over windows; see windows.h and lanes.h.

#include "windows.h"

#include "lanes.h"

namespace samebits {
namespace {

// The bits of a format as signed integers: of all numbers but the sign, of infinity, and of the NaN
// that results are, which XLA makes of a float32 with all bits.
template <typename T>
struct Keyed;
template <>
struct Keyed<float> {
  using Word = int32_t;
  static constexpr int32_t kMost = 0x7fffffff, kInfinity = 0x7f800000, kNan = kMost;
};
template <>
struct Keyed<bfloat16> {
  using Word = int16_t;
  static constexpr int32_t kMost = 0x7fff, kInfinity = 0x7f80, kNan = 0x7fc0;
};
template <>
struct Keyed<float16> {
  using Word = int16_t;
  static constexpr int32_t kMost = 0x7fff, kInfinity = 0x7c00, kNan = kMost;
};

SAMEBITS_INLINE void store_exact(const Exact<Doubles>& sum, int64_t at, Tile* tile) {
  store_as(sum.near, tile->near + at);
  store_as(sum.rest, tile->rest + at);
  store_as(sum.error, tile->error + at);
}

SAMEBITS_INLINE void add_one(double term, int64_t at, Tile* tile) {
  Exact<double> sum{tile->near[at], tile->rest[at], tile->error[at]};
  sum.add(term);
  tile->near[at] = sum.near;
  tile->rest[at] = sum.rest;
  tile->error[at] = sum.error;
}

template <typename T>
void add(const void* terms, int64_t count, int64_t step, int64_t first, int64_t apart,
         Tile* tile) {
  const T* x = static_cast<const T*>(terms);
  int64_t i = 0;
  if (apart == 1) {
    for (; i + kLanes <= count; i += kLanes) {
      const int64_t at = first + i;
      Exact<Doubles> sum = load_exact(tile->near + at, tile->rest + at, tile->error + at);
      sum.add(step == 1 ? load(x + i) : load_apart(x + i * step, step));
      store_exact(sum, at, tile);
    }
  }
  for (; i < count; ++i) add_one(widen(x[i * step]), first + i * apart, tile);
}

template <typename T>
bool is_sure(const void* const* rows, int64_t number, int64_t count, int log2_terms) {
  Range<T> range;
  for (int64_t row = 0; row < number; ++row) range.add(static_cast<const T*>(rows[row]), count);
  return range.is_exact(log2_terms);
}

// Adds the taps of `kVectors` vectors of sums; load_tap(tap, i) has the terms of sums from i on.
// `start` is that of sums of float64, of more than two terms.
template <int kVectors, typename Load>
SAMEBITS_INLINE void add_vectors(int64_t number, int64_t first, int64_t at, bool is_sure,
                                 const Start* start, Tile* tile, const Load& load_tap) {
  Exact<Doubles> sum[kVectors];
  for (int k = 0; k < kVectors; ++k) {
    const int64_t i = first + at + k * kLanes;
    sum[k] = load_exact(tile->near + i, tile->rest + i, tile->error + i);
  }
  if (start != nullptr) {
    for (int k = 0; k < kVectors; ++k) {
      const Exact<Doubles> part =
          sum_of(number, *start, [&](int64_t tap) { return load_tap(tap, at + k * kLanes); });
      sum[k].add(part.near);
      sum[k].add_to_rest(part.rest);
      sum[k].error += part.error;
    }
  } else if (is_sure) {
    Doubles sure[kVectors] = {};
    for (int64_t tap = 0; tap < number; ++tap)
      for (int k = 0; k < kVectors; ++k) sure[k] += load_tap(tap, at + k * kLanes);
    for (int k = 0; k < kVectors; ++k) sum[k].add(sure[k]);
  } else {
    for (int64_t tap = 0; tap < number; ++tap)
      for (int k = 0; k < kVectors; ++k) sum[k].add(load_tap(tap, at + k * kLanes));
  }
  for (int k = 0; k < kVectors; ++k) store_exact(sum[k], first + at + k * kLanes, tile);
}

template <typename T>
void add_taps(const void* const* taps, int64_t number, int64_t first, int64_t count, int64_t step,
              bool is_sure, Tile* tile) {
  const T* const* x = reinterpret_cast<const T* const*>(taps);
  const Start of_doubles(number, log2_above(number), number);
  const Start* start = std::is_same<T, double>::value && number > 2 ? &of_doubles : nullptr;
  int64_t i = 0;
  auto all = [&](auto load_tap, int64_t end) {
    for (; i + 4 * kLanes <= end; i += 4 * kLanes)
      add_vectors<4>(number, first, i, is_sure, start, tile, load_tap);
    for (; i + kLanes <= end; i += kLanes)
      add_vectors<1>(number, first, i, is_sure, start, tile, load_tap);
    if (i >= end || end < kLanes) return;
    // The last vector ends with the row, and adds zeros to the sums that have their terms already.
    const Longs others = last_lanes(end - i);
    auto load_rest = [&](int64_t tap, int64_t at) {
      return reinterpret_cast<Doubles>(reinterpret_cast<Longs>(load_tap(tap, at)) & others);
    };
    add_vectors<1>(number, first, end - kLanes, is_sure, start, tile, load_rest);
    i = end;
  };
  if (step == 1) {
    all([&](int64_t tap, int64_t at) { return load(x[tap] + at); }, count);
  } else if (step == 2) {
    // A vector reads the element after its last one.
    all([&](int64_t tap, int64_t at) { return load_even(x[tap] + 2 * at); }, count - 1);
  }
  all([&](int64_t tap, int64_t at) { return load_apart(x[tap] + at * step, step); }, count);
  for (; i < count; ++i)
    for (int64_t tap = 0; tap < number; ++tap) add_one(widen(x[tap][i * step]), first + i, tile);
}

// Maps the bits of numbers to integers in their order; it is its own inverse.
template <typename T>
SAMEBITS_INLINE int32_t in_order(int32_t bits) {
  return bits ^ ((bits >> 31) & Keyed<T>::kMost);
}

template <typename T>
void raise(const void* elements, int64_t count, int64_t step, int64_t apart, bool greatest,
           int32_t* keys) {
  using Word = typename Keyed<T>::Word;
  const Word* x = static_cast<const Word*>(elements);
  auto all = [&](int64_t step, int64_t apart, bool greatest) __attribute__((always_inline)) {
    auto key = [&](int64_t i) {
      const int32_t bits = x[i * step];
      const bool is_nan = (bits & Keyed<T>::kMost) > Keyed<T>::kInfinity;
      const int32_t number = greatest ? in_order<T>(bits) : ~in_order<T>(bits);
      return is_nan ? Keyed<T>::kNan : number;
    };
    if (apart == 0) {
      int32_t most = *keys;
      for (int64_t i = 0; i < count; ++i) most = std::max(most, key(i));
      *keys = most;
      return;
    }
    for (int64_t i = 0; i < count; ++i) keys[i * apart] = std::max(keys[i * apart], key(i));
  };
  auto with_steps = [&](bool greatest) {
    if (apart == 0 && step == 1) return all(1, 0, greatest);
    if (apart != 1 || step > 2) return all(step, apart, greatest);
    if (step == 1) return all(1, 1, greatest);
    all(2, 1, greatest);
  };
  if (greatest) return with_steps(true);
  with_steps(false);
}

template <typename T>
void write_keys(const int32_t* keys, int64_t count, bool greatest, int64_t spread, void* out) {
  using Word = typename Keyed<T>::Word;
  Word* result = static_cast<Word*>(out);
  auto all = [&](int64_t spread) {
    for (int64_t i = 0; i < count; ++i)
      result[i * spread] = static_cast<Word>(in_order<T>(greatest ? keys[i] : ~keys[i]));
  };
  if (spread == 1) return all(1);
  all(spread);
}

template <typename Best, typename T>
SAMEBITS_INLINE Best as_best(T value) {
  if constexpr (std::is_same<Best, double>::value) {
    return widen(value);
  } else {
    return as_float(value);
  }
}

template <typename T>
void offer(const void* elements, int64_t count, int64_t step, int64_t first, int64_t apart,
           int32_t tap, bool greatest, Choices* choices) {
  constexpr bool is_double = std::is_same<T, double>::value;
  using Best = typename std::conditional<is_double, double, float>::type;
  const T* x = static_cast<const T*>(elements);
  Best* best = reinterpret_cast<Best*>(choices->best) + first;
  int32_t* taps = choices->tap + first;
  auto all = [&](int64_t step, int64_t apart, auto stays) {
    for (int64_t i = 0; i < count; ++i) {
      const Best value = as_best<Best>(x[i * step]);
      const Best before = best[i * apart];
      const int32_t tap_before = taps[i * apart];
      const bool is_taken = !stays(before, value) | (tap_before < 0);
      best[i * apart] = is_taken ? value : before;
      taps[i * apart] = is_taken ? tap : tap_before;
    }
  };
  auto is_greater = [](Best a, Best b) { return a >= b; };
  auto is_less = [](Best a, Best b) { return a <= b; };
  auto with_steps = [&](auto stays) {
    if (step == 1 && apart == 1) return all(1, 1, stays);
    all(step, apart, stays);
  };
  if (greatest) return with_steps(is_greater);
  with_steps(is_less);
}

template <typename T>
void add_chosen(const void* terms, const int32_t* choices, int32_t tap, int64_t count,
                int64_t first, int64_t apart, Tile* tile) {
  using Choice = int32_t __attribute__((vector_size(4 * kLanes)));
  const T* x = static_cast<const T*>(terms);
  int64_t i = 0;
  if (apart == 1) {
    for (; i + kLanes <= count; i += kLanes) {
      const int64_t at = first + i;
      Longs chose = __builtin_convertvector(load_as<Choice>(choices + i) == tap, Longs);
      Exact<Doubles> sum = load_exact(tile->near + at, tile->rest + at, tile->error + at);
      sum.add(reinterpret_cast<Doubles>(reinterpret_cast<Longs>(load(x + i)) & chose));
      store_exact(sum, at, tile);
    }
  }
  for (; i < count; ++i)
    if (choices[i] == tap) add_one(widen(x[i]), first + i * apart, tile);
}

}  // namespace

SAMEBITS_TABLE(WindowKernels, window_kernels) = {
    {is_sure<float>, is_sure<bfloat16>, is_sure<float16>, is_sure<double>},
    {add_taps<float>, add_taps<bfloat16>, add_taps<float16>, add_taps<double>},
    {add<float>, add<bfloat16>, add<float16>, add<double>},
    {raise<float>, raise<bfloat16>, raise<float16>},
    {write_keys<float>, write_keys<bfloat16>, write_keys<float16>},
    {offer<float>, offer<bfloat16>, offer<float16>, offer<double>},
    {add_chosen<float>, add_chosen<bfloat16>, add_chosen<float16>, add_chosen<double>}};

}  // namespace samebits

// The inner loops of running sums and of sums of parts; see running.h and lanes.h.

#include "running.h"

#include "lanes.h"

namespace samebits {
namespace {

static_assert(kLanes <= kMostLanes, "a kernel has a lane for each line");

template <typename T>
unsigned run(const Lines& lines, int64_t first, int64_t count, double* near, double* rest) {
  using R = typename FormatOf<T>::Result;
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
  Exact<Doubles> sum = {load_as<Doubles>(near), load_as<Doubles>(rest), Doubles{}};
  for (int64_t i = 0; i < count; ++i) {
    sum.add(load(terms + i * kLanes));
    store_as(to_odd(sum), values + i * kLanes);
  }
  store_as(sum.near, near);
  store_as(sum.rest, rest);
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
    if (!(sum.error[lane] == 0)) lost |= 1u << lane;
  return lost;
}

// The words of -0, and of what counts as -0.
template <typename Word>
constexpr Word kLeastNormal = sizeof(Word) == 4 ? Word(0x00800000u) : Word(0x0080u);

template <typename T>
bool add_parts(const void* const* parts, int64_t count, int64_t first, int64_t last, void* out,
               uint8_t* in_doubt) {
  using R = typename FormatOf<T>::Result;
  using Word = typename R::Word;
  constexpr Word kSign = Word(1) << (8 * sizeof(Word) - 1);
  constexpr bool is_half = sizeof(T) == 2 && !std::is_same<T, bfloat16>::value;
  constexpr Word kLeast = is_half ? Word(1) : kLeastNormal<Word>;
  const int64_t n = last - first;
  const int64_t padded = (n + kLanes - 1) / kLanes * kLanes;
  alignas(64) double values[kTile], errors[kTile];
  alignas(64) Word words[kTile], are_minus[kTile];
  for (int64_t i = 0; i < padded; i += kLanes) {
    Exact<Doubles> sum;
    for (int64_t part = 0; part < count; ++part) {
      const T* at = static_cast<const T*>(parts[part]) + first + i;
      sum.add(i + kLanes <= n ? load(at) : load_some(at, n - i));
    }
    store_as(to_odd(sum), values + i);
    store_as(sum.error, errors + i);
  }
  narrow_all<R>(values, padded, words);
  // A sum of zeros is -0 if each of them is.
  for (int64_t i = 0; i < n; ++i) are_minus[i] = kSign;
  for (int64_t part = 0; part < count; ++part) {
    const Word* raw = static_cast<const Word*>(parts[part]) + first;
    for (int64_t i = 0; i < n; ++i)
      are_minus[i] = Word(raw[i] ^ kSign) < kLeast ? are_minus[i] : Word(0);
  }
  Word* results = static_cast<Word*>(out) + first;
  int any = 0;
  for (int64_t i = 0; i < n; ++i) {
    results[i] = words[i] | are_minus[i];
    in_doubt[i] = !(errors[i] == 0);
    any |= in_doubt[i];
  }
  return any != 0;
}

}  // namespace

SAMEBITS_TABLE(RunningKernels, running_kernels) = {
    kLanes, {run<float>, run<bfloat16>, run<float16>}};
SAMEBITS_TABLE(PartsKernels, parts_kernels) = {
    {add_parts<float>, add_parts<bfloat16>, add_parts<float16>}};

}  // namespace samebits

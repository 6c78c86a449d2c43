// The inner loops of sums over windows; see windows.h and lanes.h.

#include "windows.h"

#include "lanes.h"

namespace samebits {
namespace {

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
void offer(const void* elements, int64_t count, int64_t step, int64_t first, int64_t apart,
           int32_t tap, bool greatest, Choices* choices) {
  const T* x = static_cast<const T*>(elements);
  float* best = choices->best + first;
  int32_t* taps = choices->tap + first;
  auto all = [&](int64_t step, int64_t apart, auto stays) {
    for (int64_t i = 0; i < count; ++i) {
      const float value = as_float(x[i * step]);
      const float before = best[i * apart];
      const int32_t tap_before = taps[i * apart];
      const bool is_taken = !stays(before, value) | (tap_before < 0);
      best[i * apart] = is_taken ? value : before;
      taps[i * apart] = is_taken ? tap : tap_before;
    }
  };
  auto is_greater = [](float a, float b) { return a >= b; };
  auto is_less = [](float a, float b) { return a <= b; };
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
    {add<float>, add<bfloat16>, add<float16>},
    {offer<float>, offer<bfloat16>, offer<float16>},
    {add_chosen<float>, add_chosen<bfloat16>, add_chosen<float16>}};

}  // namespace samebits

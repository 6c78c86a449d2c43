// Calls on states of sums alone (states.h).
#include "states.h"

#include <algorithm>
#include <cmath>

#include "terms.h"
#include "threads.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;

// The elements of a task.
constexpr int64_t kTask = 1 << 15;

// The planes of the array `i` of arrays of states, which are read alone.
Planes planes(const States::Words& states, int64_t i, int64_t sums) {
  return {const_cast<uint32_t*>(states.typed_data()) + i * States::kPlanes * sums, sums};
}

// Adds several arrays of states to one.
ffi::Error merge(ffi::ThreadPool pool, States::Words before, States::Words others,
                 States::Result after) {
  const States states(before, after);
  const int64_t words = static_cast<int64_t>(before.element_count());
  const int64_t number = words == 0 ? 0 : static_cast<int64_t>(others.element_count()) / words;
  each_part(pool, threads_of(pool, states.count() < kTask), states.count(),
            [&](int64_t first, int64_t last) {
              for (int64_t i = 0; i < number; ++i)
                states.merge(first, last, planes(others, i, states.count()));
            });
  return ffi::Error::Success();
}

// The total of a sum over levels: a + b + c in units of 2**frame
// (`folded` of impl/_exact/unrounded/states.py).
struct Total {
  double a, b, c;
  int frame;

  // Adds the state of one more level, whose unit is 2**unit. Returns whether lower levels cannot
  // change how the sum is rounded.
  bool fold(double high, double low, double rests, int unit) {
    constexpr int kFrame = 500, kFloor = -900, kShort = 200;
    const int before = unit + 64 - frame;
    if (std::fabs(a) <= std::ldexp(1, std::clamp(before, kFloor, kFrame) + kShort)) {
      for (double* part : {&a, &b, &c}) *part = std::ldexp(*part, kFrame - before);
      frame += before - kFrame;
    }
    if (std::fabs(b) < 0x1p-600) {
      c += b;
      b = 0;
    }
    const int own = unit - frame, place = std::max(own, kFloor);
    double parts[5] = {std::ldexp(c, std::min(place - own, 64)), b, a};
    int size = 3;
    for (double rest : {std::ldexp(low, place), std::ldexp(high, place)}) {
      for (int i = 0; i < size; ++i) {
        double sum = rest;
        const double error = two_sum(&sum, parts[i]);
        parts[i] = error;
        rest = sum;
      }
      parts[size++] = rest;
    }
    for (int last = 4; last > 1; --last)
      for (int i = 0; i < last; ++i) parts[i] = two_sum(&parts[i + 1], parts[i]);
    a = rests <= 0x1p50 ? parts[4] : NAN;
    b = parts[3];
    c = parts[2];
    return a == a && (rests == 0 || std::fabs(c) > std::ldexp(rests, place));
  }

  template <typename R>
  typename R::Word rounded() const {
    double rest = b;
    const double error = two_sum(&rest, c);
    rest = to_odd(rest, error);
    double near = a;
    const double lost = two_sum(&near, rest);
    if constexpr (std::is_same_v<R, Float64>) {
      uint64_t word;
      is_scaled(near, frame, &word);
      return word;
    } else {
      return R::narrow(std::ldexp(to_odd(near, lost), frame));
    }
  }
};

// Rounds high + low once, within slack. Returns all ones where the slack decides.
template <typename R>
typename R::Word rounded(double high, double low, double slack) {
  using Word = typename R::Word;
  constexpr bool kIsLong = std::is_same_v<R, Float64>;
  const double wider = slack == 0 ? 0 : slack * (1 + 0x1p-10) + std::fabs(low) * (2 * kUnit);
  auto end = [&](double rest) {
    double near = high;
    rest = two_sum(&near, rest);
    return is_finite(high) ? (kIsLong ? near : to_odd(near, rest)) : high;
  };
  const double least = end(low - wider);
  const Word word = R::narrow(least);
  auto is_small = [](double value) { return value != 0 && std::fabs(value) < 0x1p-900; };
  const bool is_open = slack != slack || (kIsLong && (is_small(high) || is_small(least)));
  return word == R::narrow(end(low + wider)) && !is_open ? word : static_cast<Word>(-1);
}

// Counts all terms once more: the state of a level below 0 decides most words, and higher levels
// those in doubt. A count is the word of a sum, and the planes of its total.
template <typename R>
void count(int64_t at, int64_t level, const Planes& state, const Planes& counts) {
  using Word = typename R::Word;
  const double high = state.get(0, at), low = state.get(1, at), slack = state.get(2, at);
  Total total{};
  auto word = static_cast<Word>(bits_of(counts.get(0, at)));
  if (level < 0) {
    word = rounded<R>(high, low, slack);
  } else {
    total = {counts.get(1, at), counts.get(2, at), counts.get(3, at),
             static_cast<int>(counts.get(4, at))};
    using Sum = AccumulatorOf<typename R::Term>;
    const bool is_closed = total.fold(high, low, slack, States::unit<Sum>(level));
    if (is_closed && word == static_cast<Word>(-1)) word = total.template rounded<R>();
  }
  const double values[] = {double_of(word), total.a, total.b, total.c,
                           static_cast<double>(total.frame)};
  for (int i = 0; i < 5; ++i) counts.put(i, at, values[i]);
}

ffi::Error counted(ffi::ThreadPool pool, States::Level level, States::Words before,
                   States::Words state, States::Result after, int64_t format) {
  if (format < 0 || format >= kFormats)
    return ffi::Error::InvalidArgument("samebits: the sums have no such format");
  constexpr int64_t kCountPlanes = 10;
  const int64_t sums = static_cast<int64_t>(after->element_count()) / kCountPlanes;
  uint32_t* words = after->typed_data();
  if (words != before.typed_data()) std::memcpy(words, before.typed_data(), before.size_bytes());
  const Planes states = planes(state, 0, sums), counts(words, sums);
  const int64_t of = *level.typed_data();
  with_format(static_cast<Format>(format), [&](auto to) {
    each_part(pool, threads_of(pool, sums < kTask), sums, [&](int64_t first, int64_t end) {
      for (int64_t at = first; at < end; ++at)
        count<decltype(to)>(at, of, states, counts);
    });
  });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace samebits

SAMEBITS_CALL(samebits_counted, samebits::counted,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<samebits::States::Level>()
                  .Arg<samebits::States::Words>()
                  .Arg<samebits::States::Words>()
                  .Ret<samebits::States::Words>()
                  .Attr<int64_t>("format"));
SAMEBITS_CALL(samebits_merge, samebits::merge,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<samebits::States::Words>()
                  .Arg<samebits::States::Words>()
                  .Ret<samebits::States::Words>());

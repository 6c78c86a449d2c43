// Calls on states of sums alone (states.h).
#include "states.h"

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

// The total of a sum over levels: three float64, and a bound of what these lost.
struct Total {
  double parts[3];
  double lost;

  // Adds the state of one more level.
  void fold(double high, double low, double slack) {
    for (double rest : {high, low}) {
      for (double& part : parts) rest = two_sum(&part, rest);
      lost += std::fabs(rest);
    }
    for (int i : {1, 0, 1}) parts[i + 1] = two_sum(&parts[i], parts[i + 1]);
    lost += slack;
  }
};

// Rounds high + low once, within slack. Returns all ones where the slack decides.
template <typename R>
typename R::Word rounded(double high, double low, double slack) {
  using Word = typename R::Word;
  const double wider = slack == 0 ? 0 : slack * (1 + 0x1p-10) + std::fabs(low) * (2 * kUnit);
  auto end = [&](double rest) {
    double near = high;
    rest = two_sum(&near, rest);
    return R::narrow(is_finite(high) ? to_odd(near, rest) : high);
  };
  const Word least = end(low - wider);
  return least == end(low + wider) ? least : static_cast<Word>(-1);
}

// Counts all terms once more: the state of a level below 0 decides most words, and the last level
// those in doubt. A count is the word of a sum, and the planes of its total.
template <typename R>
void count(int64_t at, int64_t level, int64_t last, const Planes& state, uint32_t* words,
           const Planes& totals) {
  constexpr auto kInDoubt = static_cast<uint32_t>(static_cast<typename R::Word>(-1));
  const double high = state.get(0, at), low = state.get(1, at), slack = state.get(2, at);
  Total total{};
  if (level < 0) {
    words[at] = rounded<R>(high, low, slack);
  } else {
    total = {{totals.get(0, at), totals.get(1, at), totals.get(2, at)}, totals.get(3, at)};
    total.fold(high, low, slack);
    if (level >= last && words[at] == kInDoubt) {
      double rest = total.parts[1];
      const double error = two_sum(&rest, total.parts[2]);
      words[at] = rounded<R>(total.parts[0], to_odd(rest, error), total.lost);
    }
  }
  for (int i = 0; i < 3; ++i) totals.put(i, at, total.parts[i]);
  totals.put(3, at, total.lost);
}

ffi::Error counted(ffi::ThreadPool pool, States::Level level, States::Words before,
                   States::Words state, States::Result after, int64_t format, int64_t last) {
  constexpr int64_t kCountPlanes = 9;
  if (format < 0 || format >= kFloat64)
    return ffi::Error::InvalidArgument("samebits: the sums have no such format");
  const int64_t sums = static_cast<int64_t>(after->element_count()) / kCountPlanes;
  uint32_t* words = after->typed_data();
  if (words != before.typed_data()) std::memcpy(words, before.typed_data(), before.size_bytes());
  const Planes states = planes(state, 0, sums), totals(words + sums, sums);
  const int64_t of = *level.typed_data();
  with_format(static_cast<Format>(format), [&](auto to) {
    each_part(pool, threads_of(pool, sums < kTask), sums, [&](int64_t first, int64_t end) {
      for (int64_t at = first; at < end; ++at)
        count<decltype(to)>(at, of, last, states, words, totals);
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
                  .Attr<int64_t>("format")
                  .Attr<int64_t>("last"));
SAMEBITS_CALL(samebits_merge, samebits::merge,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<samebits::States::Words>()
                  .Arg<samebits::States::Words>()
                  .Ret<samebits::States::Words>());

// The call of running sums. Each result is the exact sum of its terms, rounded once.
//
// The terms of a line are added in one pass: the sum before an element is carried as two float64,
// and as an expansion where these do not hold it. Long lines are cut into segments, whose sums are
// added first, so that lanes and threads have a segment each:
//
//     line                 a b c d e f
//     sums of segments     a+b, c+d
//     a lane each          0 + a, b      (a+b) + c, d      (a+b+c+d) + e, f

#include "running.h"

#include <algorithm>
#include <vector>

#include "calls.h"
#include "threads.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;

// The exact sum of a line so far.
template <typename T>
using LineSum = std::conditional_t<std::is_same_v<T, double>, SumOfDoubles, Expansion>;

// The least length of a segment.
constexpr int64_t kSegment = 256;

// Lines of an array [outer, length, inner], and the segments that they are cut into.
struct Shape {
  int64_t outer, length, inner;
  bool reverse;
  Format format;
  const void* x;
  void* out;
  int64_t segments, segment;

  int64_t step() const { return reverse ? -inner : inner; }
  int64_t lines() const { return outer * inner; }
  // The place of element `i` of a line, in the order of its sums.
  int64_t place(int64_t line, int64_t i) const {
    return line / inner * length * inner + line % inner + (reverse ? length - 1 - i : i) * inner;
  }
};

template <typename T>
void run_exactly(const Lines& lines, int lane, int64_t first, int64_t count, LineSum<T>* sum) {
  using R = FormatOf<T>;
  const T* x = static_cast<const T*>(lines.x) + lines.base[lane];
  auto* out = static_cast<typename R::Word*>(lines.out) + lines.base[lane];
  for (int64_t i = first; i < first + count; ++i) {
    sum->add(widen(x[i * lines.step]));
    out[i * lines.step] = R::narrow(rounded(*sum));
  }
}

SAMEBITS_INLINE bool add_pair(double near, double rest, Expansion* sum) {
  sum->add(rest);
  sum->add(near);
  return true;
}

template <typename T>
void add_segment(const Shape& shape, int64_t line, int64_t segment, LineSum<T>* sum) {
  constexpr int64_t kTerms = 256;
  T block[kTerms];
  Tile tile;
  const T* x = static_cast<const T*>(shape.x) + shape.place(line, segment * shape.segment);
  for (int64_t first = 0; first < shape.segment; first += kTerms) {
    const int64_t n = std::min(kTerms, shape.segment - first);
    for (int64_t i = 0; i < n; ++i) block[i] = x[(first + i) * shape.step()];
    tile.clear(8);
    {
      Flushing scope(shape.format);
      sum_kernels().exact_rows[shape.format](block, 1, n, 0, &tile);
    }
    if (tile.error[0] == 0 && add_pair(tile.near[0], tile.rest[0], sum)) continue;
    for (int64_t i = 0; i < n; ++i) sum->add(widen(block[i]));
  }
}

// The lines of a kernel whose exact sums are needed now and then.
template <typename T>
class ExactLines {
 public:
  // Returns a bit for each lane whose sum LineSums do not hold.
  unsigned start(const Lines& lines, const Expansion* starts, LineSums* sums) {
    unsigned exactly = 0;
    for (int lane = 0; lane < lines.lanes && starts != nullptr; ++lane) {
      sum_[lane] = starts[lane];
      if (!sum_[lane].is_pair(&sums->near[lane], &sums->rest[lane])) exactly |= 1u << lane;
    }
    return exactly_ = exactly;
  }
  // Takes steps of a lane, whose sum before them is exact unless its bit is set.
  unsigned run(const Lines& lines, int lane, int64_t first, int64_t count, const LineSums& before,
               LineSums* sums) {
    if ((exactly_ >> lane & 1) == 0) sum_[lane] = Expansion(before.near[lane], before.rest[lane]);
    run_exactly<T>(lines, lane, first, count, &sum_[lane]);
    exactly_ |= 1u << lane;
    if (sum_[lane].is_pair(&sums->near[lane], &sums->rest[lane])) exactly_ &= ~(1u << lane);
    return exactly_;
  }

 private:
  Expansion sum_[kMostLanes];
  unsigned exactly_ = 0;  // The lanes whose sum is in `sum_`.
};

// The sums of float64 have errors, so an exact one starts with the first term, or where it was
// needed last.
template <>
class ExactLines<double> {
 public:
  unsigned start(const Lines& lines, const SumOfDoubles* starts, LineSums* sums) {
    for (int lane = 0; lane < lines.lanes && starts != nullptr; ++lane) {
      sum_[lane] = starts[lane];
      sum_[lane].split(&sums->near[lane], &sums->rest[lane], &sums->error[lane]);
    }
    return 0;
  }
  unsigned run(const Lines& lines, int lane, int64_t first, int64_t count, const LineSums&,
               LineSums* sums) {
    const double* x = static_cast<const double*>(lines.x) + lines.base[lane];
    for (; done_[lane] < first; ++done_[lane]) sum_[lane].add(widen(x[done_[lane] * lines.step]));
    run_exactly<double>(lines, lane, first, count, &sum_[lane]);
    done_[lane] = first + count;
    sum_[lane].carry();
    sum_[lane].split(&sums->near[lane], &sums->rest[lane], &sums->error[lane]);
    return 0;
  }

 private:
  SumOfDoubles sum_[kMostLanes];  // The sum of the first `done_` terms.
  int64_t done_[kMostLanes] = {};
};

template <typename T>
void run_lines(const Lines& lines, Format format, int64_t count, const LineSum<T>* starts) {
  LineSums sums;
  ExactLines<T> exact;
  unsigned exactly = exact.start(lines, starts, &sums);
  const Steps run = running_kernels().run[format];
  for (int64_t first = 0; first < count; first += kSteps) {
    const int64_t steps = std::min(kSteps, count - first);
    const LineSums before = sums;
    unsigned lost;
    {
      Flushing scope(format);
      lost = run(lines, first, steps, &sums) | exactly;
    }
    for (int lane = 0; lost >> lane != 0; ++lane)
      if ((lost >> lane & 1) != 0) exactly = exact.run(lines, lane, first, steps, before, &sums);
  }
}

template <typename T>
void run_all(ffi::ThreadPool& pool, const Shape& shape, int64_t threads) {
  const int lanes = running_kernels().lanes;
  const int64_t lines = shape.lines(), segments = shape.segments;
  std::vector<LineSum<T>> starts;
  if (segments > 1) {
    starts.resize(static_cast<size_t>(lines * segments));
    each_part(pool, threads, lines * (segments - 1), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i)
        add_segment<T>(shape, i % lines, i / lines, &starts[i + lines]);
    });
    Ieee scope;
    for (int64_t i = lines; i < lines * segments; ++i) starts[i].add(starts[i - lines]);
  }
  // Lanes take neighbours: lines, and if these are few, the segments of a line. Their number counts
  // the lines first, and the last segment may be shorter, so it has bundles of its own.
  auto bundle = [&](int64_t first, int64_t last, int64_t count) {
    Lines part = {shape.x, shape.out, static_cast<int>(last - first), false, {}, shape.step()};
    for (int64_t i = first; i < last; ++i)
      part.base[i - first] = shape.place(i % lines, i / lines * shape.segment);
    part.are_neighbours = last - first == lanes;
    for (int lane = 1; lane < part.lanes; ++lane)
      part.are_neighbours &= part.base[lane] == part.base[0] + lane;
    run_lines<T>(part, shape.format, count, starts.empty() ? nullptr : &starts[first]);
  };
  auto bundles = [&](int64_t first, int64_t last, int64_t count) {
    const int64_t number = parts_of(last - first, lanes);
    each_part(pool, threads, number, [&](int64_t from, int64_t to) {
      for (int64_t i = from; i < to; ++i)
        bundle(first + i * lanes, std::min(last, first + (i + 1) * lanes), count);
    });
  };
  const int64_t whole = lines * (segments - 1);
  const int64_t length_of_last = shape.length - (segments - 1) * shape.segment;
  if (length_of_last == shape.segment) return bundles(0, lines * segments, shape.segment);
  if (whole > 0) bundles(0, whole, shape.segment);
  bundles(whole, lines * segments, length_of_last);
}

ffi::Error running(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> result,
                   ffi::Span<const int64_t> sizes, bool reverse) {
  const Format format = format_of(x);
  if (format == kFormats || format_of(*result) != format || sizes.size() != 3)
    return ffi::Error::InvalidArgument("samebits: no such running sum is compiled");
  Shape shape = {sizes[0],         sizes[1], sizes[2], reverse, format, x.untyped_data(),
                 result->untyped_data(), 1,  sizes[1]};
  const int64_t all = shape.lines() * shape.length;
  if (static_cast<int64_t>(x.element_count()) != all ||
      static_cast<int64_t>(result->element_count()) != all)
    return ffi::Error::InvalidArgument("samebits: the sizes do not fit the arrays");
  if (all == 0) return ffi::Error::Success();
  const int64_t threads = threads_of(pool, all < kFewestTerms);
  const int64_t wanted = running_kernels().lanes * threads;
  if (shape.lines() < wanted && shape.length >= 2 * kSegment) {
    shape.segments = std::min(wanted / shape.lines(), shape.length / kSegment);
    shape.segment = parts_of(shape.length, shape.segments);
    shape.segments = parts_of(shape.length, shape.segment);
  }
  with_type(format, [&](auto type) { run_all<decltype(type)>(pool, shape, threads); });
  return ffi::Error::Success();
}

}  // namespace
}  // namespace samebits

SAMEBITS_CALL(samebits_running, samebits::running,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::AnyBuffer>()
                  .Attr<xla::ffi::Span<const int64_t>>("sizes")
                  .Attr<bool>("reverse"));

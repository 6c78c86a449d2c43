// The calls of scatters: each destination is the exact sum of its own value and of its updates.
//
// A thread has the sums of a block of destinations as pairs of float64, and reads the updates once
// for the block, so the memory of a call is a table of up to 2 MiB for each thread (3 MiB with the
// errors), and an accumulator for each of up to 4096 sums in doubt. What the pairs lose is
// measured: nothing, unless terms of a destination are more than 2**80 apart. Three ways follow one
// another, each for the sums that the way before leaves in doubt:
//
//     pairs                 exact if no sum of the block lost a bit
//     pairs and errors      a bound of what each sum lost decides nearly all results (Ziv 1991)
//     accumulators          integers (Kulisch 2013)
//
// If updates have few destinations, each thread adds its own updates to a table of its own.
//
// The results may have the memory of the operand. So what reads an element of the operand precedes
// what writes its result.

#include "scatters.h"

#include <atomic>
#include <numeric>

#include "calls.h"
#include "devices.h"
#include "scatters_sums.h"
#include "states.h"
#include "terms.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;

// The destinations of a block, whose table is in a cache of the processor.
constexpr int64_t kBlock = 1 << 16;
// The same if runs are short: each block reads all indices, so larger ones take less time.
constexpr int64_t kShortRun = 16, kBlockOfShortRuns = 1 << 17;
// The destinations of a task that adds up tables.
constexpr int64_t kMerged = 1 << 13;
// The accumulators of a block that are used at once.
constexpr int64_t kAccumulators = 1 << 12;


// Calls work(i) for each i below count, on this thread alone if the work is little.
template <typename Work>
void each_task(ffi::ThreadPool& pool, const Scatter& scatter, int64_t count, const Work& work) {
  if (scatter.windows.terms() + scatter.size >= kFewestTerms) return parallel(pool, count, work);
  Ieee scope;
  for (int64_t i = 0; i < count; ++i) work(i);
}

int64_t threads_for(ffi::ThreadPool& pool, const Scatter& scatter) {
  return threads_of(pool, scatter.windows.terms() + scatter.size < kFewestTerms);
}

// The most destinations of a block.
int64_t most_destinations(const Scatter& scatter) {
  return scatter.windows.run() < kShortRun ? kBlockOfShortRuns : kBlock;
}

// The number of destinations of a block.
int64_t block_size(const Scatter& scatter, int64_t threads) {
  const int64_t run = scatter.windows.run();
  const int64_t blocks = run < kShortRun ? threads : 4 * threads;
  const int64_t size = up(parts_of(scatter.size, blocks), Workspace::kChunk);
  const int64_t most = std::min(most_destinations(scatter), size);
  return run < most ? most / run * run : most;
}

// Rounds the sums of a block.
class Rounding {
 public:
  Rounding(const Scatter& scatter, void* out) : scatter_(scatter), out_(static_cast<char*>(out)) {}

  int64_t bytes() const { return bytes_of(scatter_.to); }

  // Sums that lost nothing.
  void exact(Block block, const Table& table) const {
    scatter_kernels().round[scatter_.to](table, block.size(), at(block.low));
  }
  void exact(Block block, Workspace* workspace) const {
    if (!is_sparse(scatter_)) return exact(block, workspace->table(false));
    const ScatterKernels& kernels = scatter_kernels();
    each_span(block, workspace, [&](int64_t first, int64_t count, bool is_loaded) {
      if (is_loaded) {
        kernels.round[scatter_.to](workspace->table(false, first), count, at(block.low + first));
      } else {
        round_operand(block.low + first, count);
      }
    });
  }

  // Sums with bounds of what they lost.
  void within_errors(Block block, const Table& table) const {
    std::vector<int64_t> positions;
    decide(block, 0, block.size(), table, &positions);
    settle(block, positions);
  }
  void within_errors(Block block, Workspace* workspace) const {
    if (!is_sparse(scatter_)) return within_errors(block, workspace->table(true));
    std::vector<int64_t> positions;
    each_span(block, workspace, [&](int64_t first, int64_t count, bool is_loaded) {
      if (!is_loaded) return round_operand(block.low + first, count);
      decide(block, first, count, workspace->table(true, first), &positions);
    });
    settle(block, positions);
  }

  // The operand alone.
  void round_operand(int64_t first, int64_t count) const {
    scatter_kernels().round_operand[scatter_.to](scatter_.operand + first * bytes(), count,
                                                 at(first));
  }

  // Calls work(first, count, is_loaded) for neighbouring chunks that are loaded, or that are not.
  template <typename Work>
  static void each_span(Block block, Workspace* workspace, const Work& work) {
    const uint8_t* marks = workspace->marks();
    const int64_t chunks = parts_of(block.size(), Workspace::kChunk);
    for (int64_t chunk = 0; chunk < chunks;) {
      const int64_t first = chunk;
      while (chunk < chunks && marks[chunk] == marks[first]) ++chunk;
      const int64_t begin = first * Workspace::kChunk;
      const int64_t end = std::min(chunk * Workspace::kChunk, block.size());
      work(begin, end - begin, marks[first] != 0);
    }
  }

  // Loads the chunks of a block that have no updates.
  void load_rest(Block block, Workspace* workspace) const {
    if (!is_sparse(scatter_)) return;
    each_span(block, workspace, [&](int64_t first, int64_t count, bool is_loaded) {
      if (is_loaded) return;
      scatter_kernels().load[scatter_.to](scatter_.operand + (block.low + first) * bytes(), count,
                                          workspace->table(true, first));
    });
  }

 private:
  char* at(int64_t position) const { return out_ + position * bytes(); }

  // Rounds `count` sums of a block, from element `first` on, and lists those in doubt.
  void decide(Block block, int64_t first, int64_t count, const Table& table,
              std::vector<int64_t>* positions) const {
    constexpr int64_t kSome = 512;
    uint8_t in_doubt[kSome];
    for (int64_t from = 0; from < count; from += kSome) {
      const int64_t some = std::min(kSome, count - from), place = block.low + first + from;
      const Table part = {table.near + from, table.rest + from, table.error + from};
      if (!scatter_kernels().decide[scatter_.to](part, some, at(place), in_doubt)) continue;
      for (int64_t i = 0; i < some; ++i)
        if (in_doubt[i]) positions->push_back(place + i);
    }
  }

  void settle(Block block, const std::vector<int64_t>& positions) const {
    if (positions.empty()) return;
    const auto list = std::make_unique<WindowList>();
    with_type(scatter_.to, [&](auto type) {
      using R = FormatOf<decltype(type)>;
      using Sum = AccumulatorOf<decltype(type)>;
      const int64_t count = static_cast<int64_t>(positions.size());
      for (int64_t first = 0; first < count; first += kAccumulators) {
        const int64_t some = std::min(kAccumulators, count - first);
        std::vector<Sum> sums(static_cast<size_t>(some));
        const int64_t* position = positions.data() + first;
        add_exactly(scatter_, block, position, some, sums.data()->digit, list.get());
        for (int64_t i = 0; i < some; ++i) {
          const typename R::Word word = R::narrow(rounded(sums[static_cast<size_t>(i)]));
          std::memcpy(at(position[i]), &word, sizeof word);
        }
      }
    });
  }

  const Scatter& scatter_;
  char* out_;
};

// Updates of which no two have one destination.
void scatter_once(ffi::ThreadPool& pool, const Scatter& scatter, const Rounding& rounding,
                  void* out) {
  each_task(pool, scatter, parts_of(scatter.size, kBlock), [&](int64_t task) {
    const int64_t first = task * kBlock;
    rounding.round_operand(first, std::min(kBlock, scatter.size - first));
  });
  const ScatterWindows& windows = scatter.windows;
  const int64_t of_window = windows.runs() * windows.run();
  const int64_t size = std::max<int64_t>(1, std::min(kPiece, kBlock / of_window));
  each_task(pool, scatter, parts_of(windows.count(), size), [&](int64_t task) {
    const auto list = std::make_unique<WindowList>();
    const int64_t first = task * size;
    windows.list(first, std::min(first + size, windows.count()), 0, scatter.size, list.get());
    windows.each_run(0, scatter.size, [&](int64_t to, int64_t from) {
      scatter_kernels().add_once[scatter.to](scatter.operand, scatter.updates,
                                             scatter.runs(*list, to, from, scatter.size), out);
    });
  });
}

// Whether the sums of all destinations are in one table, and each thread has one.
bool has_few_destinations(const Scatter& scatter, int64_t threads) {
  return scatter.size <= most_destinations(scatter) &&
         scatter.windows.terms() >= 4 * scatter.size * threads;
}

// The tables of the threads that add parts of the updates to all destinations.
using Parts = std::vector<std::unique_ptr<Workspace>>;

// Adds parts of the updates. Returns whether no sum lost a bit, or sums have errors.
bool add_parts(ffi::ThreadPool& pool, const Scatter& scatter, int64_t threads, bool with_error,
               Parts* parts) {
  const int64_t size = scatter.size, count = scatter.windows.count();
  const bool has_lanes = scatter.windows.run() == 1 && size * kScatterLanes <= kBlock &&
                         scatter.windows.terms() >= 4 * kScatterLanes * size * threads;
  const int64_t number = std::min(threads, count);
  parts->resize(static_cast<size_t>(number));
  std::atomic<bool> is_exact{true};
  each_task(pool, scatter, number, [&](int64_t part) {
    auto& workspace = (*parts)[static_cast<size_t>(part)];
    workspace = std::make_unique<Workspace>(size * (has_lanes ? kScatterLanes : 1));
    const int64_t first = count * part / number, last = count * (part + 1) / number;
    if (add_all(scatter, first, last, part == 0, has_lanes, with_error, workspace.get()))
      is_exact = false;
  });
  return is_exact || with_error;
}

// Adds windows to a block, and rounds its sums.
void scatter_block(const Scatter& scatter, Block block, const Rounding& rounding,
                   Workspace* workspace) {
  const int64_t count = scatter.windows.count();
  if (!add_block(scatter, block, 0, count, false, workspace))
    return rounding.exact(block, workspace);
  add_block(scatter, block, 0, count, true, workspace);
  rounding.within_errors(block, workspace);
}

// Adds up the tables of parts, and rounds the sums.
void round_parts(ffi::ThreadPool& pool, const Scatter& scatter, const Parts& parts,
                 bool with_error, const Rounding& rounding) {
  each_task(pool, scatter, parts_of(scatter.size, kMerged), [&](int64_t task) {
    const Block block = {task * kMerged, std::min((task + 1) * kMerged, scatter.size)};
    const Table sums = parts[0]->table(with_error, block.low);
    bool lost = false;
    for (size_t part = 1; part < parts.size(); ++part)
      lost |= scatter_kernels().add_table(parts[part]->table(with_error, block.low), block.size(),
                                          sums);
    if (with_error) return rounding.within_errors(block, sums);
    if (!lost) return rounding.exact(block, sums);
    Workspace workspace(block.size());
    scatter_block(scatter, block, rounding, &workspace);
  });
}

// Calls work(block, workspace) for all blocks.
template <typename Work>
void each_block(ffi::ThreadPool& pool, const Scatter& scatter, const Work& work) {
  const int64_t size = block_size(scatter, threads_for(pool, scatter));
  Workspaces workspaces(size);
  each_task(pool, scatter, parts_of(scatter.size, size), [&](int64_t task) {
    std::unique_ptr<Workspace> workspace = workspaces.take();
    work(Block{task * size, std::min(scatter.size, (task + 1) * size)}, workspace.get());
    workspaces.give_back(std::move(workspace));
  });
}

// Calls work(a scatter of the same sums). Each block reads all indices, so these become places.
template <typename Work>
void with_places(ffi::ThreadPool& pool, const Scatter& scatter, const Work& work) {
  const int64_t windows = scatter.windows.count();
  if (windows <= kPiece || !scatter.windows.may_be_flat()) return work(scatter);
  const Memory<int32_t> flat(windows);
  each_part(pool, threads_for(pool, scatter), windows, [&](int64_t first, int64_t last) {
    scatter.windows.flatten(first, last, flat.begin());
  });
  Scatter flattened = scatter;
  flattened.windows.be_flat(flat.begin());
  work(flattened);
}

void scatter_blocks(ffi::ThreadPool& pool, const Scatter& scatter, const Rounding& rounding) {
  const int64_t threads = threads_for(pool, scatter);
  if (has_few_destinations(scatter, threads)) {
    Parts parts;
    if (add_parts(pool, scatter, threads, false, &parts))
      return round_parts(pool, scatter, parts, false, rounding);
    // Sums of float64 lose bits more often.
    if (scatter.to == kFloat64) {
      add_parts(pool, scatter, threads, true, &parts);
      return round_parts(pool, scatter, parts, true, rounding);
    }
  }
  each_block(pool, scatter, [&](Block block, Workspace* workspace) {
    scatter_block(scatter, block, rounding, workspace);
  });
}

Format checked_format(const ffi::AnyBuffer& buffer, ffi::Error* error) {
  const Format format = format_of(buffer);
  if (format == kFormats) *error = ffi::Error::InvalidArgument("samebits: dtype of a scatter");
  return format;
}

using Numbers = ffi::Span<const int64_t>;

// Calls work(scatter).
template <typename Work>
ffi::Error with_scatter(const ffi::AnyBuffer& operand, const ffi::AnyBuffer& indices,
                        const ffi::AnyBuffer& updates, Numbers windows, Numbers batches,
                        Numbers coordinates, int64_t run, bool clip, bool subtract,
                        const Work& work) {
  ffi::Error error;
  const Format to = checked_format(operand, &error), from = checked_format(updates, &error);
  Scatter scatter{{indices, windows, batches, coordinates, run, clip},
                  static_cast<const char*>(operand.untyped_data()),
                  static_cast<const char*>(updates.untyped_data()),
                  to,
                  from,
                  static_cast<int64_t>(operand.element_count()),
                  subtract};
  if ((to == kFloat64) != (from == kFloat64))
    return ffi::Error::InvalidArgument("samebits: dtypes of a scatter");
  if (!scatter.windows.has_integer())
    return ffi::Error::InvalidArgument("samebits: dtype of indices");
  if (error.success()) work(scatter);
  return error;
}

ffi::Error nearest(ffi::ThreadPool pool, ffi::AnyBuffer operand, ffi::AnyBuffer indices,
                   ffi::AnyBuffer updates, ffi::Result<ffi::AnyBuffer> out, Numbers windows,
                   Numbers batches, Numbers coordinates, int64_t run, bool clip, bool subtract,
                   bool unique) {
  return with_scatter(operand, indices, updates, windows, batches, coordinates, run, clip, subtract,
                      [&](const Scatter& scatter) {
                        const Rounding rounding(scatter, out->untyped_data());
                        const bool is_once = unique || scatter.windows.depth() <= 1;
                        if (is_once && scatter.to == scatter.from) {
                          scatter_once(pool, scatter, rounding, out->untyped_data());
                        } else {
                          with_places(pool, scatter, [&](const Scatter& flat) {
                            scatter_blocks(pool, flat, rounding);
                          });
                        }
                      });
}

// The float64 nearest to each sum, and a bound of its error. The additions of the sums of `parts`
// devices, in any order, err by of_chain(parts) of the sum of their magnitudes (Higham 2002,
// section 4.2), of which each device has its own share in its bound. No bound is less than the
// error by more than `is_decided` allows, since the bounds are added in float64 too.
void bound_block(Block block, Workspace* workspace, const Bounds& bounds) {
  const Table table = workspace->table(true);
  const double of_parts = bounds.parts > 1 ? of_chain(static_cast<double>(bounds.parts)) : 0;
  for (int64_t i = 0; i < block.size(); ++i) {
    double near = table.near[i];
    const double rest = two_sum(&near, table.rest[i]);
    const bool is_sum = is_finite(table.near[i]);
    const double error = __builtin_fabs(rest) + table.error[i] + of_parts * __builtin_fabs(near);
    bounds.put(block.low + i, is_sum ? near : table.near[i], is_sum ? error : 0);
  }
}

ffi::Error bounds(ffi::ThreadPool pool, ffi::AnyBuffer operand, ffi::AnyBuffer indices,
                  ffi::AnyBuffer updates, SumsOfDevices sums, ErrorsOfDevices errors,
                  Numbers windows, Numbers batches, Numbers coordinates, int64_t run, bool clip,
                  bool subtract, int64_t parts) {
  return with_scatter(
      operand, indices, updates, windows, batches, coordinates, run, clip, subtract,
      [&](const Scatter& scatter) {
        const Rounding rounding(scatter, nullptr);
        const Bounds bounds(sums, errors, parts);
        each_block(pool, scatter, [&](Block block, Workspace* workspace) {
          add_block(scatter, block, 0, scatter.windows.count(), true, workspace);
          rounding.load_rest(block, workspace);
          bound_block(block, workspace, bounds);
        });
      });
}

ffi::Error digits(ffi::Buffer<ffi::S64> positions, ffi::AnyBuffer operand, ffi::AnyBuffer indices,
                  ffi::AnyBuffer updates, ffi::ResultBuffer<ffi::S64> out, Numbers windows,
                  Numbers batches, Numbers coordinates, int64_t run, bool clip, bool subtract) {
  return with_scatter(
      operand, indices, updates, windows, batches, coordinates, run, clip, subtract,
      [&](const Scatter& scatter) {
        Ieee scope;
        const int64_t* position = positions.typed_data();
        std::vector<int64_t> order;
        for (int64_t i = 0; i < static_cast<int64_t>(positions.element_count()); ++i)
          if (position[i] >= 0) order.push_back(i);
        std::sort(order.begin(), order.end(),
                  [&](int64_t a, int64_t b) { return position[a] < position[b]; });
        std::vector<int64_t> sorted;
        for (int64_t i : order)
          if (sorted.empty() || sorted.back() != position[i]) sorted.push_back(position[i]);
        const auto list = std::make_unique<WindowList>();
        std::memset(out->untyped_data(), 0, out->size_bytes());
        with_type(scatter.to, [&](auto type) {
          using Sum = AccumulatorOf<decltype(type)>;
          std::vector<Sum> sums(sorted.size() + 1);
          add_exactly(scatter, {0, scatter.size}, sorted.data(),
                      static_cast<int64_t>(sorted.size()), sums.data()->digit, list.get());
          const Sum* sum = sums.data();
          for (size_t i = 0; i < order.size(); ++i) {
            if (i > 0 && position[order[i]] != position[order[i - 1]]) ++sum;
            std::memcpy(out->typed_data() + order[i] * Sum::kDigits, sum->digit, sizeof sum->digit);
          }
        });
      });
}

// Adds a level of the exact sums of a block to states.
void add_level(const Scatter& scatter, Block block, int64_t level, WindowList* list,
               const States& states) {
  with_type(scatter.to, [&](auto type) {
    using Sum = AccumulatorOf<decltype(type)>;
    std::vector<int64_t> positions;
    std::vector<Sum> sums;
    for (int64_t first = block.low; first < block.high; first += kAccumulators) {
      const int64_t count = std::min(kAccumulators, block.high - first);
      positions.resize(static_cast<size_t>(count));
      std::iota(positions.begin(), positions.end(), first);
      sums.assign(static_cast<size_t>(count), Sum());
      add_exactly(scatter, block, positions.data(), count, sums.data()->digit, list);
      for (int64_t i = 0; i < count; ++i)
        states.add_level<Sum>(first + i, level, sums[static_cast<size_t>(i)].digit);
    }
  });
}

ffi::Error state(ffi::ThreadPool pool, States::Level level, States::Words before,
                 ffi::AnyBuffer operand, ffi::AnyBuffer indices, ffi::AnyBuffer updates,
                 States::Result after, Numbers windows, Numbers batches, Numbers coordinates,
                 int64_t run, bool clip, bool subtract) {
  return with_scatter(
      operand, indices, updates, windows, batches, coordinates, run, clip, subtract,
      [&](const Scatter& scatter) {
        const States states(before, after);
        const Rounding rounding(scatter, nullptr);
        const int64_t of = *level.typed_data();
        each_block(pool, scatter, [&](Block block, Workspace* workspace) {
          if (of >= 0) return add_level(scatter, block, of, workspace->list.get(), states);
          add_block(scatter, block, 0, scatter.windows.count(), true, workspace);
          rounding.load_rest(block, workspace);
          const Table table = workspace->table(true);
          for (int64_t i = 0; scatter.to == kFloat64 && i < block.size(); ++i) {
            if (is_finite(table.near[i])) continue;
            const int64_t position = block.low + i;
            SumOfDoubles sum;
            add_exactly(scatter, block, &position, 1, sum.digit, workspace->list.get());
            sum.as_state(table.near + i, table.rest + i, table.error + i);
          }
          states.add(block.low, block.size(), table.near, table.rest, table.error);
        });
      });
}

}  // namespace
}  // namespace samebits

#define SAMEBITS_SCATTER_ATTRIBUTES          \
  Attr<samebits::Numbers>("windows")         \
      .Attr<samebits::Numbers>("batches")    \
      .Attr<samebits::Numbers>("coordinates") \
      .Attr<int64_t>("run")                  \
      .Attr<bool>("clip")                    \
      .Attr<bool>("subtract")

SAMEBITS_CALL(samebits_scatter, samebits::nearest,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::AnyBuffer>()
                  .SAMEBITS_SCATTER_ATTRIBUTES.Attr<bool>("unique"));
SAMEBITS_CALL(samebits_scatter_bounds, samebits::bounds,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::Buffer<xla::ffi::F64>>()
                  .Ret<xla::ffi::Buffer<xla::ffi::F32>>()
                  .SAMEBITS_SCATTER_ATTRIBUTES.Attr<int64_t>("parts"));
SAMEBITS_CALL(samebits_scatter_digits, samebits::digits,
              xla::ffi::Ffi::Bind()
                  .Arg<xla::ffi::Buffer<xla::ffi::S64>>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::Buffer<xla::ffi::S64>>()
                  .SAMEBITS_SCATTER_ATTRIBUTES);
SAMEBITS_CALL(samebits_scatter_state, samebits::state,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<samebits::States::Level>()
                  .Arg<samebits::States::Words>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<samebits::States::Words>()
                  .SAMEBITS_SCATTER_ATTRIBUTES);

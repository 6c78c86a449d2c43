// Sums of scatters: see scatters_sums.h.

#include "scatters_sums.h"

#include "terms.h"

namespace samebits {
namespace {

// An accumulator takes 2**30 terms before it must carry.
constexpr int64_t kCarryAfter = 1 << 29;

// Destinations at positions, which are found by their places in a table of buckets.
class Places {
 public:
  Places(Block block, const int64_t* positions, int64_t count)
      : block_(block), positions_(positions), count_(count) {
    while (block.size() >> shift_ > std::max<int64_t>(64, 4 * count)) ++shift_;
    const int64_t buckets = (block.size() >> shift_) + 1;
    first_.resize(static_cast<size_t>(buckets));
    int64_t at = 0;
    for (int64_t bucket = 0; bucket < buckets; ++bucket) {
      while (at < count && positions[at] < block.low + (bucket << shift_)) ++at;
      first_[static_cast<size_t>(bucket)] = at;
    }
  }

  // Calls work(number, position) for each position in [low, high).
  template <typename Work>
  void each(int64_t low, int64_t high, const Work& work) const {
    low = std::max(low, block_.low);
    high = std::min(high, block_.high);
    if (low >= high) return;
    int64_t at = first_[static_cast<size_t>((low - block_.low) >> shift_)];
    while (at < count_ && positions_[at] < low) ++at;
    for (; at < count_ && positions_[at] < high; ++at) work(at, positions_[at]);
  }

 private:
  Block block_;
  const int64_t* positions_;
  int64_t count_;
  int shift_ = 0;
  std::vector<int64_t> first_;
};

void add_term(double term, Accumulator* sum) {
  if (is_finite(term)) sum->add(term);
}
void add_term(double term, SumOfDoubles* sum) { sum->add(term); }

void load(const Scatter& scatter, int64_t first, int64_t count, const Table& table) {
  scatter_kernels().load[scatter.to](scatter.operand + first * bytes_of(scatter.to), count, table);
}

// Loads the chunks of a block that runs have destinations in, and marks them.
void load_chunks(const Scatter& scatter, Block block, const Runs& runs, bool with_error,
                 Workspace* workspace) {
  for (int64_t i = 0; i < runs.count; ++i) {
    const int64_t begin = std::max<int64_t>(runs.target[i] + runs.to, 0);
    const int64_t end = std::min(runs.target[i] + runs.to + runs.length, runs.size);
    if (begin >= end) continue;
    for (int64_t chunk = begin / Workspace::kChunk; chunk <= (end - 1) / Workspace::kChunk;
         ++chunk) {
      if (workspace->marks()[chunk]) continue;
      workspace->marks()[chunk] = 1;
      const int64_t first = chunk * Workspace::kChunk;
      load(scatter, block.low + first, std::min(Workspace::kChunk, block.size() - first),
           workspace->table(with_error, first));
    }
  }
}

// Calls work(list of windows) for pieces of windows [first, last) that may touch a block, until it
// returns false.
template <typename Work>
void each_piece(const ScatterWindows& windows, Block block, int64_t first, int64_t last, WindowList* list,
                const Work& work) {
  for (; first < last; first += kPiece) {
    windows.list(first, std::min(first + kPiece, last), block.low, block.high, list);
    if (list->count > 0 && !work(*list)) return;
  }
}

// Adds up the lanes of each sum, which then has one place. Returns whether a sum lost bits.
bool add_lanes(const Table& table, int64_t size) {
  bool lost = false;
  for (int64_t i = 0; i < size; ++i) {
    double near = 0, rest = 0, errors = 0;
    for (int64_t at = i * kScatterLanes; at < (i + 1) * kScatterLanes; ++at) {
      const double error = two_sum(&near, table.near[at]);
      const double first = two_sum(&rest, error), second = two_sum(&rest, table.rest[at]);
      lost |= first != 0 || second != 0;
      if (table.error != nullptr) errors += table.error[at] + (std::fabs(first) + std::fabs(second));
    }
    table.near[i] = near;
    table.rest[i] = rest;
    if (table.error != nullptr) table.error[i] = errors;
  }
  return lost;
}

}  // namespace

bool add_block(const Scatter& scatter, Block block, int64_t first, int64_t last, bool with_error,
                 Workspace* workspace) {
  const Table table = workspace->table(with_error);
  const ScatterKernels& kernels = scatter_kernels();
  const AddRuns add = (with_error ? kernels.add_with_error : kernels.add)[scatter.from];
  const bool in_chunks = is_sparse(scatter);
  if (in_chunks) {
    std::memset(workspace->marks(), 0,
                static_cast<size_t>((block.size() - 1) / Workspace::kChunk + 1));
  } else {
    load(scatter, block.low, block.size(), table);
  }
  bool lost = false;
  each_piece(scatter.windows, block, first, last, workspace->list.get(), [&](WindowList& list) {
    scatter.windows.each_run(block.low, block.high, [&](int64_t to, int64_t from) {
      const Runs runs = scatter.runs(list, to - block.low, from, block.size());
      if (in_chunks) load_chunks(scatter, block, runs, with_error, workspace);
      lost |= add(scatter.updates, runs, table);
    });
    return with_error || !lost;
  });
  return lost;
}

bool add_all(const Scatter& scatter, int64_t first, int64_t last, bool has_operand, bool has_lanes,
             bool with_error, Workspace* workspace) {
  const Table table = workspace->table(with_error);
  const int64_t lanes = has_lanes ? kScatterLanes : 1, size = scatter.size * lanes;
  if (!has_operand || has_lanes) {
    for (double* array : {table.near, table.rest, table.error})
      if (array != nullptr) std::memset(array, 0, static_cast<size_t>(size) * sizeof(double));
  }
  if (has_operand && !has_lanes) load(scatter, 0, size, table);
  for (int64_t i = 0; has_operand && has_lanes && i < scatter.size; ++i)
    table.near[i * lanes] = element(scatter.operand, scatter.to, i);
  const ScatterKernels& kernels = scatter_kernels();
  const AddRuns add = (with_error ? kernels.add_with_error : kernels.add)[scatter.from];
  bool lost = false;
  const Block all = {0, scatter.size};
  each_piece(scatter.windows, all, first, last, workspace->list.get(), [&](WindowList& list) {
    scatter.windows.each_run(0, scatter.size, [&](int64_t to, int64_t from) {
      lost |= add(scatter.updates, scatter.runs(list, to, from, size, has_lanes), table);
    });
    return with_error || !lost;
  });
  if (has_lanes) lost |= add_lanes(table, scatter.size);
  return lost;
}

namespace {

template <typename Sum>
void add_to(Sum* sums, const Scatter& scatter, Block block, const int64_t* positions,
            int64_t count, WindowList* list) {
  const Places places(block, positions, count);
  for (int64_t i = 0; i < count; ++i)
    add_term(element(scatter.operand, scatter.to, positions[i]), &sums[i]);
  const double sign = scatter.subtract ? -1 : 1;
  const int64_t run = scatter.windows.run();
  int64_t windows = 0;
  auto carry = [&] {
    for (int64_t i = 0; i < count; ++i) sums[i].carry();
    windows = 0;
  };
  each_piece(scatter.windows, block, 0, scatter.windows.count(), list, [&](WindowList& piece) {
    windows += piece.count;
    if (windows > kCarryAfter) carry();
    scatter.windows.each_run(block.low, block.high, [&](int64_t to, int64_t from) {
      for (int64_t i = 0; i < piece.count; ++i) {
        const int64_t first = piece.target[i] + to;
        places.each(first, first + run, [&](int64_t number, int64_t position) {
          const int64_t at = piece.source[i] + from + (position - first);
          add_term(sign * element(scatter.updates, scatter.from, at), &sums[number]);
        });
      }
    });
    return true;
  });
  carry();
}

}  // namespace

void add_exactly(const Scatter& scatter, Block block, const int64_t* positions, int64_t count,
                 int64_t* digits, WindowList* list) {
  with_type(scatter.to, [&](auto type) {
    using Sum = AccumulatorOf<decltype(type)>;
    // An accumulator is its digits.
    static_assert(sizeof(Sum) == Sum::kDigits * sizeof(int64_t), "digits alone");
    auto* sums = reinterpret_cast<Sum*>(digits);
    std::fill(sums, sums + count, Sum());
    add_to(sums, scatter, block, positions, count, list);
  });
}

}  // namespace samebits

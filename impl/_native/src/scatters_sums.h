// The sums of a block of destinations of a scatter, and the exact ones at a few of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#include "numbers.h"
#include "scatters.h"
#include "scatters_windows.h"
#include "threads.h"

namespace samebits {

// What a scatter adds, and to what.
struct Scatter {
  Windows windows;
  const char *operand, *updates;
  Format to, from;  // The formats of the operand and of the updates.
  int64_t size;     // The number of destinations.
  bool subtract;

  Runs runs(const WindowList& list, int64_t to_block, int64_t from_start,
            int64_t block_size) const {
    return {list.target, list.source,   list.count, to_block, from_start, windows.run(),
            block_size,  subtract};
  }
};

// Destinations [low, high).
struct Block {
  int64_t low, high;
  int64_t size() const { return high - low; }
};

// The memory of a thread: sums of up to `capacity` destinations.
class Workspace {
 public:
  // The operand is loaded in chunks of destinations, if few of them have updates.
  static constexpr int64_t kChunk = 64;

  explicit Workspace(int64_t capacity)
      : list(new WindowList),
        capacity_(capacity),
        sums_(new double[static_cast<size_t>(2 * capacity)]),
        marks_(new uint8_t[static_cast<size_t>(capacity)]) {}

  // With the sums of blocks from their element `first` on.
  Table table(bool with_error, int64_t first = 0) {
    if (with_error && errors_ == nullptr)
      errors_.reset(new double[static_cast<size_t>(capacity_)]);
    double* error = with_error ? errors_.get() + first : nullptr;
    return {sums_.get() + first, sums_.get() + capacity_ + first, error};
  }
  // For each chunk whether it is loaded, or for each destination whether it is in doubt.
  uint8_t* marks() { return marks_.get(); }

  std::unique_ptr<WindowList> list;

 private:
  int64_t capacity_;
  std::unique_ptr<double[]> sums_, errors_;
  std::unique_ptr<uint8_t[]> marks_;
};

// As many workspaces as threads compute blocks at once.
class Workspaces {
 public:
  explicit Workspaces(int64_t capacity) : capacity_(capacity) {}

  std::unique_ptr<Workspace> take() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        std::unique_ptr<Workspace> workspace = std::move(free_.back());
        free_.pop_back();
        return workspace;
      }
    }
    return std::make_unique<Workspace>(capacity_);
  }
  void give_back(std::unique_ptr<Workspace> workspace) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  int64_t capacity_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> free_;
};

// Adds windows [first, last) to the sums of a block, which start with the operand. Returns the most
// that a sum lost at once, 0 as a rule: then near + rest of the table are the exact sums.
double add_block(const Scatter& scatter, Block block, int64_t first, int64_t last, bool with_error,
                 Workspace* workspace);

// Whether few destinations have updates. `add_block` then marks the chunks that it loaded.
inline bool is_sparse(const Scatter& scatter) {
  return scatter.windows.terms() < scatter.size / 4;
}

// Adds windows [first, last) to the sums of all destinations, which start with zeros. It has
// `copies` of each sum, of which each window takes one, since a processor waits for a sum before
// it adds to it again; then it adds up the copies. Returns what `add_block` does.
double add_all(const Scatter& scatter, int64_t first, int64_t last, int64_t copies,
               Workspace* workspace);

// Adds the sums of one table to those of another. Returns the most that a sum lost.
double add_table(const Table& from, int64_t size, const Table& to);

// Sets the digits of accumulators (numbers.h) to the sums of the destinations at `positions`, which
// are within the block and in order.
void add_exactly(const Scatter& scatter, Block block, const int64_t* positions, int64_t count,
                 int64_t* digits, WindowList* list);

}  // namespace samebits

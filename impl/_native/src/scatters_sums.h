// The sums of a block of destinations of a scatter, and the exact ones at a few of them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "numbers.h"
#include "scatters.h"
#include "scatters_windows.h"
#include "threads.h"

namespace samebits {

// What a scatter adds, and to what.
struct Scatter {
  ScatterWindows windows;
  const char *operand, *updates;
  Format to, from;  // The formats of the operand and of the updates.
  int64_t size;     // The number of destinations.
  bool subtract;

  Runs runs(const WindowList& list, int64_t to_block, int64_t from_start, int64_t block_size,
            bool has_lanes = false) const {
    return {list.target,   list.source, list.count,      to_block, from_start,
            windows.run(), block_size,  windows.terms(), subtract, has_lanes};
  }
};

// Destinations [low, high).
struct Block {
  int64_t low, high;
  int64_t size() const { return high - low; }
};

// Memory without values, from the start of a line of the cache on.
template <typename T>
class Memory {
 public:
  Memory() = default;
  explicit Memory(int64_t count)
      : begin_(static_cast<T*>(
            ::operator new(static_cast<size_t>(count) * sizeof(T), std::align_val_t{kLine}))) {}
  T* begin() const { return begin_.get(); }

 private:
  static constexpr size_t kLine = 64;
  struct Delete {
    void operator()(T* begin) const { ::operator delete(begin, std::align_val_t{kLine}); }
  };
  std::unique_ptr<T, Delete> begin_;
};

// The memory of a thread: sums of up to `capacity` destinations.
class Workspace {
 public:
  // The operand is loaded in chunks of destinations, if few of them have updates.
  static constexpr int64_t kChunk = 64;

  explicit Workspace(int64_t capacity)
      : list(new WindowList), stride_(strided(capacity)), sums_(2 * stride_), marks_(capacity) {}

  // With the sums of blocks from their element `first` on.
  Table table(bool with_error, int64_t first = 0) {
    if (with_error && errors_.begin() == nullptr) errors_ = Memory<double>(stride_);
    double* error = with_error ? errors_.begin() + first : nullptr;
    return {sums_.begin() + first, sums_.begin() + stride_ + first, error};
  }
  // For each chunk whether it is loaded, or for each destination whether it is in doubt.
  uint8_t* marks() { return marks_.begin(); }

  std::unique_ptr<WindowList> list;

 private:
  // The processor takes a load for one of a store that is not done yet if the last 12 bits of
  // their addresses are equal, so the arrays of a table are not a multiple of 4096 bytes apart.
  static int64_t strided(int64_t capacity) { return (capacity + 511) / 512 * 512 + 256; }

  int64_t stride_;
  Memory<double> sums_, errors_;
  Memory<uint8_t> marks_;
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

// Adds windows [first, last) to the sums of a block, which start with the operand. Returns whether
// a sum may have lost bits; if not, near + rest of the table are the exact sums. Without errors, a
// sum that has lost bits ends the additions.
bool add_block(const Scatter& scatter, Block block, int64_t first, int64_t last, bool with_error,
                 Workspace* workspace);

// Whether few destinations have updates. `add_block` then marks the chunks that it loaded.
inline bool is_sparse(const Scatter& scatter) {
  return scatter.windows.terms() < scatter.size / 4;
}

// Adds windows [first, last) to the sums of all destinations, which start with the operand or with
// zeros. If sums have lanes, it adds up these. Returns what `add_block` does.
bool add_all(const Scatter& scatter, int64_t first, int64_t last, bool has_operand, bool has_lanes,
             bool with_error, Workspace* workspace);

// Sets the digits of accumulators, `AccumulatorOf` the type of the operand (terms.h), to the sums of
// the destinations at `positions`, which are within the block and in order.
void add_exactly(const Scatter& scatter, Block block, const int64_t* positions, int64_t count,
                 int64_t* digits, WindowList* list);

}  // namespace samebits

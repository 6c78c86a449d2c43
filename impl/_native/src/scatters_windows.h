// Which windows of updates a scatter has, and where each of them goes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "calls.h"
#include "scatters.h"

namespace samebits {

// The most windows that are listed at once.
constexpr int64_t kPiece = 2048;

// Windows that touch a block: the first destination of each, and its first element of the updates.
// Kernels read, but do not use, a few places behind the last one.
struct WindowList {
  int64_t target[kPiece + 32] = {}, source[kPiece + 32] = {};
  int64_t count;
  int32_t chosen[kPiece + 16];
};

// An axis of the updates: its size, and how far apart neighbours are in the operand and in the
// updates.
struct UpdateAxis {
  int64_t size, operand, updates;
};

// A coordinate of an index: how far apart neighbours are in the operand, and its greatest value of
// a window that is in bounds.
struct Coordinate {
  int64_t stride, last;
};

// The windows of a scatter in any form of `lax.scatter_add`. For updates [10, 2, 3] of windows at
// (i, j) of an operand [5, 6, 3]:
//
//     axes of windows        none, since [2, 3] are neighbours: a run of 6 elements
//     axes of indices        10 windows, 6 elements of the updates apart
//     coordinates            i: 18 elements apart, at most 4; j: 3 apart, at most 4
class ScatterWindows {
 public:
  using Numbers = xla::ffi::Span<const int64_t>;

  // `windows` and `batches` have three numbers for each axis, the axes of windows without those of
  // a run and the axes of indices; `coordinates` has two for each coordinate.
  ScatterWindows(const xla::ffi::AnyBuffer& indices, Numbers windows, Numbers batches,
          Numbers coordinates, int64_t run, bool clip)
      : indices_(static_cast<const char*>(indices.untyped_data())),
        windows_(axes_of(windows)),
        batches_(axes_of(batches)),
        run_(run),
        clip_(clip) {
    set_integer(indices.element_type());
    for (size_t i = 0; i + 1 < coordinates.size(); i += 2)
      coordinates_.push_back({coordinates[i], coordinates[i + 1]});
    extent_ = run_;
    for (const UpdateAxis& axis : windows_) {
      runs_ *= axis.size;
      extent_ += (axis.size - 1) * axis.operand;
    }
    for (const UpdateAxis& axis : batches_) {
      count_ *= axis.size;
      greatest_ += (axis.size - 1) * axis.operand;
      if (axis.operand == 0) depth_ *= axis.size;
    }
    for (const Coordinate& each : coordinates_) greatest_ += each.last * each.stride;
    is_simple_ = coordinates_.size() == 1 && coordinates_[0].stride > 0 &&
                 (batches_.empty() || (batches_.size() == 1 && batches_[0].operand == 0));
  }

  bool has_integer() const { return integer_ != kIntegers; }
  // The number of windows, and of runs of each; the length of a run.
  int64_t count() const { return count_; }
  int64_t runs() const { return runs_; }
  int64_t run() const { return run_; }
  // The most updates of a destination: a window has one at most.
  int64_t depth() const { return depth_; }
  int64_t terms() const { return count_ * runs_ * run_; }

  // Lists those of windows [first, last), at most kPiece, that may touch destinations [low, high).
  void list(int64_t first, int64_t last, int64_t low, int64_t high, WindowList* list) const {
    if (is_simple_) {
      list_simple(first, last, low, high, list);
    } else {
      list_any(first, last, low, high, list);
    }
  }

  // Whether windows of several coordinates may have one: their place in the operand.
  bool may_be_flat() const {
    return !is_simple_ && greatest_ < INT32_MAX &&
           (batches_.empty() || (batches_.size() == 1 && batches_[0].operand == 0));
  }
  // Writes the places of windows [first, last).
  void flatten(int64_t first, int64_t last, int32_t* flat) const {
    std::vector<int64_t> strides, lasts;
    for (const Coordinate& each : coordinates_) {
      strides.push_back(each.stride);
      lasts.push_back(each.last);
    }
    const int64_t number = static_cast<int64_t>(strides.size());
    scatter_kernels().flatten[integer_](indices_ + first * number * bytes_, last - first, number,
                                        strides.data(), lasts.data(), clip_, flat + first);
  }
  // Takes the places of all windows for their indices.
  void be_flat(const int32_t* flat) {
    indices_ = reinterpret_cast<const char*>(flat);
    integer_ = kS32;
    bytes_ = sizeof(int32_t);
    coordinates_ = {{1, greatest_}};
    clip_ = false;
    is_simple_ = true;
  }

  // Calls work(to, from) for each run of a window that may touch destinations [low, high): how far
  // the run is from the start of the window, in the operand and in the updates.
  template <typename Work>
  void each_run(int64_t low, int64_t high, const Work& work) const {
    if (windows_.empty()) return work(int64_t{0}, int64_t{0});
    // The runs are in the order of their places in the operand.
    auto place = [&](int64_t number, int64_t UpdateAxis::*stride) {
      int64_t at = 0;
      for (size_t axis = windows_.size(); axis-- > 0; number /= windows_[axis].size)
        at += number % windows_[axis].size * (windows_[axis].*stride);
      return at;
    };
    auto first_at = [&](int64_t least) {
      int64_t begin = 0, end = runs_;
      while (begin < end) {
        const int64_t middle = begin + (end - begin) / 2;
        if (place(middle, &UpdateAxis::operand) < least) {
          begin = middle + 1;
        } else {
          end = middle;
        }
      }
      return begin;
    };
    const int64_t begin = first_at(low - greatest_ - run_ + 1), end = first_at(high);
    const UpdateAxis& inner = windows_.back();
    for (int64_t number = begin; number < end;) {
      int64_t to = place(number, &UpdateAxis::operand);
      int64_t from = place(number, &UpdateAxis::updates);
      const int64_t next = std::min(end, number + inner.size - number % inner.size);
      for (; number < next; ++number, to += inner.operand, from += inner.updates) work(to, from);
    }
  }

 private:
  static std::vector<UpdateAxis> axes_of(Numbers numbers) {
    std::vector<UpdateAxis> axes;
    for (size_t i = 0; i + 2 < numbers.size(); i += 3)
      axes.push_back({numbers[i], numbers[i + 1], numbers[i + 2]});
    return axes;
  }

  void set_integer(xla::ffi::DataType type) {
    using xla::ffi::DataType;
    switch (type) {
      case DataType::S8: integer_ = kS8, bytes_ = 1; break;
      case DataType::S16: integer_ = kS16, bytes_ = 2; break;
      case DataType::S32: integer_ = kS32, bytes_ = 4; break;
      case DataType::S64: integer_ = kS64, bytes_ = 8; break;
      case DataType::U8: integer_ = kU8, bytes_ = 1; break;
      case DataType::U16: integer_ = kU16, bytes_ = 2; break;
      case DataType::U32: integer_ = kU32, bytes_ = 4; break;
      case DataType::U64: integer_ = kU64, bytes_ = 8; break;
      default: break;
    }
  }

  // Windows of one coordinate each, in the order of their updates.
  void list_simple(int64_t first, int64_t last, int64_t low, int64_t high,
                   WindowList* list) const {
    const ScatterKernels& kernels = scatter_kernels();
    const auto [stride, greatest] = coordinates_[0];
    const int64_t apart = batches_.empty() ? 0 : batches_[0].updates;
    const int64_t begin = low < extent_ ? 0 : (low - extent_) / stride + 1;
    const int64_t end = std::min(greatest + 1, (high + stride - 1) / stride);
    const char* indices = indices_ + first * bytes_;
    list->count = begin >= end ? 0
                               : kernels.select[integer_](indices, last - first, clip_, greatest,
                                                          begin, end, list->chosen);
    const bool has_all = list->count == last - first;
    kernels.widen[integer_](indices, has_all ? nullptr : list->chosen, list->count, 1, clip_,
                            greatest, list->target);
    if (stride != 1)
      for (int64_t i = 0; i < list->count; ++i) list->target[i] *= stride;
    if (has_all) {
      for (int64_t i = 0; i < list->count; ++i) list->source[i] = (first + i) * apart;
    } else {
      for (int64_t i = 0; i < list->count; ++i) list->source[i] = (first + list->chosen[i]) * apart;
    }
  }

  void list_any(int64_t first, int64_t last, int64_t low, int64_t high, WindowList* list) const {
    const ScatterKernels& kernels = scatter_kernels();
    const int64_t number = static_cast<int64_t>(coordinates_.size());
    constexpr int64_t kDropped = INT64_MIN / 64;  // A kernel may multiply it.
    place_batches(first, last, list);
    int64_t wide[kPiece];
    for (int64_t k = 0; k < number; ++k) {
      const auto [stride, greatest] = coordinates_[static_cast<size_t>(k)];
      kernels.widen[integer_](indices_ + (first * number + k) * bytes_, nullptr, last - first,
                              number, clip_, greatest, wide);
      for (int64_t i = 0; i < last - first; ++i) {
        const bool is_in = wide[i] >= 0 && wide[i] <= greatest && list->target[i] != kDropped;
        list->target[i] = is_in ? list->target[i] + wide[i] * stride : kDropped;
      }
    }
    int64_t count = 0;
    for (int64_t i = 0; i < last - first; ++i) {
      const int64_t target = list->target[i], source = list->source[i];
      list->target[count] = target;
      list->source[count] = source;
      count += target != kDropped && target < high && target + extent_ > low;
    }
    list->count = count;
  }

  // The places of windows [first, last) by the axes of indices alone.
  void place_batches(int64_t first, int64_t last, WindowList* list) const {
    for (int64_t window = first; window < last;) {
      int64_t target = 0, source = 0, rest = window;
      for (size_t axis = batches_.size(); axis-- > 0; rest /= batches_[axis].size) {
        target += rest % batches_[axis].size * batches_[axis].operand;
        source += rest % batches_[axis].size * batches_[axis].updates;
      }
      const UpdateAxis inner = batches_.empty() ? UpdateAxis{1, 0, 0} : batches_.back();
      const int64_t next = std::min(last, window + inner.size - window % inner.size);
      for (; window < next; ++window, target += inner.operand, source += inner.updates) {
        list->target[window - first] = target;
        list->source[window - first] = source;
      }
    }
  }

  const char* indices_;
  Integer integer_ = kIntegers;
  int64_t bytes_ = 0;
  std::vector<UpdateAxis> windows_, batches_;
  std::vector<Coordinate> coordinates_;
  int64_t run_;
  bool clip_;
  int64_t count_ = 1, runs_ = 1, depth_ = 1;
  int64_t extent_;        // From the first destination of a window to behind its last one.
  int64_t greatest_ = 0;  // The greatest first destination.
  bool is_simple_ = false;
};

}  // namespace samebits

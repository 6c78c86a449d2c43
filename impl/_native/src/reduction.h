// Which terms of an array each sum of a reduction has.
#pragma once

#include <cstdint>

#include "calls.h"
#include "sums.h"

namespace samebits {

// Axes in row-major order: their sizes, and the distances of neighbours in elements.
class RowMajor {
 public:
  static constexpr int kMost = 16;

  void add(int64_t size, int64_t stride) {
    size_[count_] = size;
    stride_[count_++] = stride;
    elements_ *= size;
  }
  int64_t elements() const { return elements_; }
  // The distance of neighbours if there is one axis, or else 0.
  int64_t only_stride() const { return count_ == 1 ? stride_[0] : 0; }
  // The place in the array of element `index` of the axes.
  int64_t offset(int64_t index) const {
    int64_t offset = 0;
    for (int axis = count_ - 1; axis > 0 && index > 0; --axis) {
      offset += index % size_[axis] * stride_[axis];
      index /= size_[axis];
    }
    return count_ == 0 ? 0 : offset + index * stride_[0];
  }

 private:
  int count_ = 0;
  int64_t size_[kMost], stride_[kMost];
  int64_t elements_ = 1;
};

// A row-major array whose axes are kept and summed by turns, a kept one first:
//
//     sizes 4 5       sums of rows: the terms of a sum are neighbours
//     sizes 1 4 5     sums of columns: neighbours are terms of different sums
//
// The innermost axes, kept and summed, have loops of their own; the others are `kept` and `summed`.
struct Reduction {
  RowMajor kept, summed;
  bool is_columns;
  int64_t sums, sum_stride;    // The innermost kept axis.
  int64_t terms, term_stride;  // The innermost summed axis.

  explicit Reduction(xla::ffi::Span<const int64_t> sizes) {
    const int count = static_cast<int>(sizes.size());
    is_columns = count % 2 != 0;
    int64_t strides[2 * RowMajor::kMost];
    int64_t stride = 1;
    for (int axis = count - 1; axis >= 0; --axis) {
      strides[axis] = stride;
      stride *= sizes[axis];
    }
    const int last_kept = is_columns ? count - 1 : count - 2;
    const int last_summed = is_columns ? count - 2 : count - 1;
    for (int axis = 0; axis < count - 2; ++axis)
      (axis % 2 == 0 ? kept : summed).add(sizes[axis], strides[axis]);
    sums = sizes[last_kept];
    sum_stride = strides[last_kept];
    terms = sizes[last_summed];
    term_stride = strides[last_summed];
  }
  static bool has(xla::ffi::Span<const int64_t> sizes) {
    return sizes.size() >= 2 && sizes.size() <= 2 * RowMajor::kMost;
  }

  int64_t results() const { return kept.elements() * sums; }
  int64_t terms_of_each() const { return summed.elements() * terms; }
  int64_t stride() const { return is_columns ? term_stride : sum_stride; }

  // Calls run(place, count) for the terms [first, last) of a sum: `count` neighbours along the
  // innermost summed axis, the first of them at a place relative to the first term of the sum.
  template <typename Run>
  void each_run(int64_t first, int64_t last, const Run& run) const {
    while (first < last) {
      const int64_t row = first / terms, at = first % terms;
      const int64_t count = terms - at < last - first ? terms - at : last - first;
      run(summed.offset(row) + at * term_stride, count);
      first += count;
    }
  }
};

}  // namespace samebits

// An exact sum to which terms are added one after another, and which is rounded in between.
#pragma once

#include "numbers.h"

namespace samebits {
namespace {

// A sum of float64 that have no bit in common, the least first (Shewchuk 1997, Grow-Expansion and
// Compress, doi:10.1007/PL00009321). Terms are floats of up to 32 bits: a compressed sum of them
// has at most 7 parts. A term that is not finite makes the sum what IEEE 754 gives.
class Expansion {
 public:
  Expansion() = default;
  Expansion(double near, double rest) {
    add(rest);
    add(near);
  }

  void add(double term) {
    if (!is_finite(term) || special_ != 0) {
      special_ += is_finite(term) ? 0 : term;
      return;
    }
    int size = 0;
    for (int i = 0; i < size_; ++i) {
      const double error = two_sum(&term, part_[i]);
      if (error != 0) part_[size++] = error;
    }
    if (term != 0) part_[size++] = term;
    size_ = size;
    if (size_ > kMost - 1) compress();
  }
  void add(const Expansion& other) {
    if (other.special_ != 0) add(other.special_);
    for (int i = 0; i < other.size_; ++i) add(other.part_[i]);
  }

  // The sum, rounded to odd. Once two parts leave an error, the lower parts are smaller than it.
  double to_odd() const {
    if (special_ != 0) return special_;
    if (size_ == 0) return 0;
    double near = part_[size_ - 1];
    for (int i = size_ - 2; i >= 0; --i) {
      const double error = two_sum(&near, part_[i]);
      if (error != 0) return samebits::to_odd(near, error);
    }
    return near;
  }

  // Returns whether two float64 are the sum, and which.
  bool is_pair(double* near, double* rest) {
    compress();
    *near = size_ > 0 ? part_[size_ - 1] : 0;
    *rest = size_ > 1 ? part_[size_ - 2] : 0;
    return size_ <= 2 && special_ == 0;
  }

 private:
  static constexpr int kMost = 12;

  // Makes the parts as few as they can be.
  void compress() {
    if (size_ < 2) return;
    double sum = part_[size_ - 1];
    int bottom = size_ - 1;
    for (int i = size_ - 2; i >= 0; --i) {
      const double error = two_sum(&sum, part_[i]);
      if (error == 0) continue;
      part_[bottom--] = sum;
      sum = error;
    }
    int size = 0;
    for (int i = bottom + 1; i < size_; ++i) {
      double next = part_[i];
      const double error = two_sum(&next, sum);
      if (error != 0) part_[size++] = error;
      sum = next;
    }
    part_[size++] = sum;
    size_ = size;
  }

  double part_[kMost];
  int size_ = 0;
  double special_ = 0;  // The sum of terms that are not finite; 0 if there are none.
};

}  // namespace
}  // namespace samebits

// Sums of terms that are rounded once: what the calls and the kernels of sums share.
//
// A tile is a few sums that are computed together. Its state is three arrays of float64, an element
// for each sum: near + rest is the sum so far, and `error` says how far it may be off (lanes.h).
#pragma once

#include <cstdint>

#include "formats.h"
#include "numbers.h"
#include "vectors.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace samebits {

// A scope in which the unit takes subnormal terms for zero where it loads them. All sums of float32
// are multiples of 2**-149, so no float64 in it is subnormal. It has no effect for float64.
class Flushing {
 public:
#if defined(__x86_64__)
  explicit Flushing(Format of) : before_(_mm_getcsr()) {
    if (of != kFloat64) _mm_setcsr(0x9fc0);
  }
  ~Flushing() { _mm_setcsr(before_); }

 private:
  unsigned before_;
#else
  explicit Flushing(Format) {}
  ~Flushing() {}
#endif
  Flushing(const Flushing&) = delete;
  Flushing& operator=(const Flushing&) = delete;
};

// The most sums of a tile.
constexpr int64_t kTile = 512;

struct Tile {
  // A vector at the end may have lanes that are no sums.
  alignas(64) double near[kTile + 8];
  alignas(64) double rest[kTile + 8];
  alignas(64) double error[kTile + 8];

  void clear(int64_t sums) {
    std::memset(near, 0, sizeof(double) * sums);
    std::memset(rest, 0, sizeof(double) * sums);
    std::memset(error, 0, sizeof(double) * sums);
  }
};

// Adds terms to the first `sums` of a tile, `terms` to each. The terms of a row are neighbours, and
// the rows of a tile are `stride` apart; or else the sums of a row of terms are neighbours.
using AddTerms = void (*)(const void* x, int64_t sums, int64_t terms, int64_t stride, Tile* tile);

// Rounds the sums of a tile from `first` to `last`; `error` times `factor` bounds their errors.
// Writes the results to `out`, whose element 0 is that of sum 0. Returns whether any is in doubt,
// and then writes whether each is.
using Decide = bool (*)(const Tile& tile, int64_t first, int64_t last, double factor, void* out,
                        uint8_t* in_doubt);

struct SumKernels {
  AddTerms plain_rows[kFormats], plain_columns[kFormats];
  AddTerms exact_rows[kFormats], exact_columns[kFormats];
  Decide decide[kFormats];
};
SAMEBITS_KERNELS(SumKernels, sum_kernels)

// The most terms of a row, or of a column, that are added exactly at once: of few terms, many sums
// are ties, which a bound does not decide.
constexpr int64_t kShort = 16;

// The terms of a row that are added before TwoSum adds their sum to the tile, and the roundings
// that each of these goes through at most: 2048 / 16 in a lane, and those that add up the lanes.
constexpr int64_t kBlock = 2048;
constexpr double kRoundings = 144;

// The bound of the error of a plain sum of `terms`, relative to the sum of magnitudes M. The errors
// of at most `terms` additions to `rest`, each of at most terms * u * M, are of second order.
inline double plain_factor(double terms) {
  return of_chain(kRoundings) + 4 * (terms * kUnit) * (terms * kUnit);
}

}  // namespace samebits

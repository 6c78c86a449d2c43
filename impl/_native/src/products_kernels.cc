// The loops of products and convolutions, compiled for each vector unit.
//
// A product of two factors of up to 24 bits is exact in float64, so a fused multiply-add and a
// multiplication before an addition round alike.
#include <cstring>

#include "devices.h"
#include "products.h"
#include "products_vectors.h"

namespace samebits {
namespace {

// Sums of squares, in as many vectors as hide the latency of an addition.
struct Squares {
  Vector sums[4] = {};
  double rest = 0;

  SAMEBITS_INLINE double total() const {
    return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3])) + rest;
  }
};

template <typename T>
SAMEBITS_INLINE void copy(const T* from, int64_t stride, int64_t count, double scale, double* to,
                          Squares* squares) {
  int64_t i = 0;
  if (stride == 1 && count >= kLanes) {
    for (; i + 4 * kLanes <= count; i += 4 * kLanes)
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s) {
        const Vector value = loaded(from + i + s * kLanes, scale);
        put(to + i + s * kLanes, value);
        squares->sums[s] = fused(value, value, squares->sums[s]);
      }
    for (; i + kLanes <= count; i += kLanes) {
      const Vector value = loaded(from + i, scale);
      put(to + i, value);
      squares->sums[0] = fused(value, value, squares->sums[0]);
    }
    if (i == count) return;
    // The last vector ends with the run. Elements that it shares with the one before count once.
    const Vector value = loaded(from + count - kLanes, scale);
    put(to + count - kLanes, value);
    const Vector others = last_lanes(value, count - i);
    squares->sums[1] = fused(others, others, squares->sums[1]);
    return;
  }
  for (; i + kLanes <= count; i += kLanes) {
    const Vector value =
        gathered(from + i * stride, scale, [&](int64_t lane) { return lane * stride; });
    put(to + i, value);
    squares->sums[0] = fused(value, value, squares->sums[0]);
  }
  for (; i < count; ++i) {
    to[i] = widened(from[i * stride], scale);
    squares->rest += to[i] * to[i];
  }
}

// The quotient rounded up, by a positive divisor.
SAMEBITS_INLINE int64_t ceiling(int64_t value, int64_t by) {
  if (by == 1) return value;
  return value >= 0 ? (value + by - 1) / by : -(-value / by);
}

// The elements of a run that are inside of the image, of one place of the other side.
struct Inside {
  int64_t begin, end;
};
SAMEBITS_INLINE Inside inside_of(const Part& part, const Place& single, const Run& run) {
  Inside inside{0, run.length};
  for (int e = 0; e < part.edges->count; ++e) {
    const int64_t position = single.position[e] + run.place.position[e];
    const int64_t size = part.edges->size[e];
    if (e == part.inner.edge) {
      const int64_t unit = part.inner.unit, step = part.inner.step;
      if (position < 0) inside.begin = ceiling(-position, step) * unit - run.phase;
      const int64_t end = ceiling(size - position, step) * unit - run.phase;
      inside.end = end < inside.end ? end : inside.end;
    } else if (static_cast<uint64_t>(position) >= static_cast<uint64_t>(size)) {
      return {0, 0};
    }
  }
  return inside.begin < inside.end ? inside : Inside{0, 0};
}

// Copies what a run and one place of the other side meet, with zeros outside of the image.
template <typename T>
SAMEBITS_INLINE void copy_run(const Part& part, const Place& single, const Run& run, double* to,
                              Squares* squares) {
  const Inside inside = inside_of(part, single, run);
  for (int64_t i = 0; i < inside.begin; ++i) to[i] = 0;
  const int64_t offset = single.offset + run.place.offset + inside.begin * part.inner.stride;
  copy(static_cast<const T*>(part.data) + offset, part.inner.stride, inside.end - inside.begin,
       part.scale, to + inside.begin, squares);
  for (int64_t i = inside.end; i < run.length; ++i) to[i] = 0;
}

template <typename T>
void pack_rows(const Part& part, double* to, int64_t stride, double* squares) {
  const char* data = static_cast<const char*>(part.data);
  const int64_t padded = up(part.run_length, 8);
  for (int64_t i = 0; i < part.single_count; ++i, to += stride) {
    Squares sum;
    for (int64_t r = 0; r < part.run_count; ++r)
      copy_run<T>(part, part.singles[i], part.runs[r], to + part.runs[r].at, &sum);
    for (int64_t k = part.run_length; k < padded; ++k) to[k] = 0;
    squares[i] += sum.total();
    if (i >= part.next_count) continue;
    // The lines of the next panel come while this one is multiplied.
    for (int64_t r = 0; r < part.run_count; ++r) {
      const int64_t offset = part.singles[part.single_count + i].offset + part.runs[r].place.offset;
      const int64_t bytes = part.runs[r].length * part.inner.stride * int64_t{sizeof(T)};
      for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(data + offset * int64_t{sizeof(T)} + at, 0, 2);
    }
  }
}

// Packs `kPanels` panels of lines that are neighbours in a factor without edges. A panel has up to
// kColumns lines, and what is written beyond them is never read.
template <typename T, int kPanels>
void pack_neighbours(const Part& part, const T* from, int64_t height, double* to, int64_t panel,
                     double* squares) {
  constexpr int64_t kAhead = 8;
  Vector sums[2 * kPanels] = {};
  const Place* places = part.singles;
  const int64_t count = part.single_count;
  for (int64_t k = 0; k < count; ++k, to += kColumns) {
    const T* line = from + places[k].offset;
    // Lines may be far from each other, so only this code knows the ones that are next.
    const T* next = from + places[k + kAhead < count ? k + kAhead : k].offset;
#pragma GCC unroll 4
    for (int p = 0; p < kPanels; ++p) {
      __builtin_prefetch(next + p * height);
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        const Vector value = loaded(line + p * height + v * kLanes, part.scale);
        put(to + p * panel + v * kLanes, value);
        sums[2 * p + v] = fused(value, value, sums[2 * p + v]);
      }
    }
  }
  for (int p = 0; p < kPanels; ++p, squares += height)
    for (int64_t i = 0; i < height; ++i) squares[i] += sums[2 * p + i / kLanes][i % kLanes];
}

template <typename T>
void pack_panels(const Part& part, int64_t height, int64_t width, int64_t panel, double* to,
                 double* squares) {
  const int64_t lines = part.run_length;
  int64_t first = 0;
  if (part.run_count == 1 && part.inner.stride == 1 && part.edges->count == 0 &&
      height <= kColumns && width == kColumns) {
    const T* from = static_cast<const T*>(part.data) + part.runs[0].place.offset;
    for (; first + 3 * height + kColumns <= lines; first += 4 * height)
      pack_neighbours<T, 4>(part, from + first, height, to + first / height * panel, panel,
                            squares + first);
    for (; first + kColumns <= lines; first += height)
      pack_neighbours<T, 1>(part, from + first, height, to + first / height * panel, panel,
                            squares + first);
    if (first == lines) return;
  }
  double line[kMostColumns + 2 * kStep] = {};
  for (int64_t k = 0; k < part.single_count; ++k) {
    Squares unused;
    for (int64_t r = 0; r < part.run_count; ++r)
      copy_run<T>(part, part.singles[k], part.runs[r], line + part.runs[r].at, &unused);
    for (int64_t i = first; i < lines; i += kLanes) {
      const Vector value = at(line + i);
      put(squares + i, fused(value, value, at(squares + i)));
    }
    // What is written beyond a line of a panel is overwritten, or never read.
    double* row = to + first / height * panel + k * width;
    for (int64_t i = first; i < lines; i += height, row += panel)
      for (int64_t j = 0; j < width; j += kLanes) put(row + j, at(line + i + j));
  }
}

#if defined(__AVX512F__)
// Transposes eight lines of eight terms.
SAMEBITS_INLINE void transpose_eight(const double* rows, double* to, int64_t width) {
  __m512d row[8], pair[8], four[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) row[i] = _mm512_loadu_pd(rows + i * kRow);
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    pair[i] = _mm512_unpacklo_pd(row[i], row[i + 1]);
    pair[i + 1] = _mm512_unpackhi_pd(row[i], row[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      four[i + j] = _mm512_shuffle_f64x2(pair[i + j], pair[i + j + 2], 0x88);
      four[i + j + 2] = _mm512_shuffle_f64x2(pair[i + j], pair[i + j + 2], 0xdd);
    }
#pragma GCC unroll 4
  for (int k = 0; k < 4; ++k) {
    _mm512_storeu_pd(to + k * width, _mm512_shuffle_f64x2(four[k], four[k + 4], 0x88));
    _mm512_storeu_pd(to + (k + 4) * width, _mm512_shuffle_f64x2(four[k], four[k + 4], 0xdd));
  }
}
#endif

void transpose(const double* rows, int64_t lines, int64_t terms, int64_t width, double* to) {
  int64_t k = 0;
#if defined(__AVX512F__)
  if (lines % 8 == 0 && lines == width)
    for (; k + 8 <= terms; k += 8, to += 8 * width)
      for (int64_t i = 0; i < lines; i += 8) transpose_eight(rows + i * kRow + k, to + i, width);
#endif
  for (; k < terms; ++k, to += width) {
    int64_t i = 0;
    for (; i < lines; ++i) to[i] = rows[i * kRow + k];
    for (; i < width; ++i) to[i] = 0;
  }
}

// ---------------------------------------------------------------- Tiles

template <bool kInterleaved, int kCount, int kVectors>
void multiply_tile(int64_t terms, const double* left, const double* right, double* sums,
                   int64_t stride, bool adds) {
  Vector total[kCount][kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) total[i][j] = Vector{};
  each_term<kInterleaved, kCount, kVectors>(
      terms, left, right, [&](int i, int j, Vector row, Vector column)
          __attribute__((always_inline)) { total[i][j] = fused(row, column, total[i][j]); });
#pragma GCC unroll 16
  for (int i = 0; i < kCount; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) {
      double* to = sums + i * stride + j * kLanes;
      put(to, adds ? at(to) + total[i][j] : total[i][j]);
    }
}

using Multiply = void (*)(int64_t, const double*, const double*, double*, int64_t, bool);
// The functions for each number of rows, of vectors, and each layout.
struct Tiles {
  Multiply of[kRows + 1][2][2];
};
template <int kCount>
constexpr void fill(Tiles* tiles) {
  if constexpr (kCount > 0) {
    tiles->of[kCount][0][0] = multiply_tile<false, kCount, 1>;
    tiles->of[kCount][1][0] = multiply_tile<false, kCount, 2>;
    tiles->of[kCount][0][1] = multiply_tile<true, kCount, 1>;
    tiles->of[kCount][1][1] = multiply_tile<true, kCount, 2>;
    fill<kCount - 1>(tiles);
  }
}
constexpr Tiles tiles() {
  Tiles made{};
  fill<kRows>(&made);
  return made;
}

void multiply(bool interleaved, int64_t rows, int64_t vectors, int64_t terms, const double* left,
              const double* right, double* sums, int64_t stride, bool adds) {
  static constexpr Tiles kTiles = tiles();
  kTiles.of[rows][vectors - 1][interleaved](terms, left, right, sums, stride, adds);
}

// ---------------------------------------------------------------- Few rows

// Adds products of `kCount` rows, kLong apart, and of columns whose terms are runs. Their factor is
// read in place, since each element is used for few products.
template <typename T, int kCount>
void multiply_runs(const Part& part, const double* left, double* sums, int64_t stride,
                   double* squares) {
  constexpr int kChains = kCount == 1 ? 4 : kCount <= 4 ? 2 : 1;
  // A line is read ahead when at least 2048 bytes are still to be used before it.
  const int64_t ahead = 1 + 2048 / (part.run_length * int64_t{sizeof(T)});
  for (int64_t j = 0; j < part.single_count; ++j) {
    Vector total[kCount][kChains] = {}, square[kChains] = {};
    double rest[kCount] = {}, square_rest = 0;
    for (int64_t r = 0; r < part.run_count; ++r) {
      const Run& run = part.runs[r];
      const Inside inside = inside_of(part, part.singles[j], run);
      const T* data = static_cast<const T*>(part.data) + run.place.offset;
      const T* from = data + part.singles[j].offset;
      const T* next = data + part.singles[j + ahead < part.single_count ? j + ahead : j].offset;
      const double* row = left + run.at;
      int64_t k = inside.begin;
      for (; k + kChains * kLanes <= inside.end; k += kChains * kLanes)
#pragma GCC unroll 4
        for (int c = 0; c < kChains; ++c) {
          __builtin_prefetch(next + k + c * kLanes);
          const Vector value = load(from + k + c * kLanes);
          square[c] = fused(value, value, square[c]);
#pragma GCC unroll 8
          for (int i = 0; i < kCount; ++i)
            total[i][c] = fused(value, at(row + i * kLong + k + c * kLanes), total[i][c]);
        }
      for (; k < inside.end; ++k) {
        const double value = widen(from[k]);
        square_rest += value * value;
        for (int i = 0; i < kCount; ++i) rest[i] += value * row[i * kLong + k];
      }
    }
    for (int c = 1; c < kChains; ++c) square[0] += square[c];
    squares[j] += sum_of(square[0]) + square_rest;
    for (int i = 0; i < kCount; ++i) {
      for (int c = 1; c < kChains; ++c) total[i][0] += total[i][c];
      sums[i * stride + j] += sum_of(total[i][0]) + rest[i];
    }
  }
}

// The same, of `kVectors` vectors of columns, which are neighbours, and of terms from..end.
template <typename T, int kCount, int kVectors>
SAMEBITS_INLINE void multiply_columns(const Part& part, const T* from, int64_t first, int64_t end,
                                      const double* left, double* sums, int64_t stride,
                                      double* squares) {
  Vector total[kCount][kVectors] = {}, square[kVectors] = {};
  for (int64_t k = first; k < end; ++k) {
    // Terms may be far from each other, so only this code knows the ones that are next.
    const T* next = from + part.singles[k + kAtOnce < part.single_count ? k + kAtOnce : k].offset;
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      if (v % 2 == 0) __builtin_prefetch(next + v * kLanes);
      const Vector value = load(from + part.singles[k].offset + v * kLanes);
      square[v] = fused(value, value, square[v]);
#pragma GCC unroll 8
      for (int i = 0; i < kCount; ++i)
        total[i][v] = fused(value, all(left[i * kLong + k]), total[i][v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) {
    put(squares + v * kLanes, at(squares + v * kLanes) + square[v]);
    for (int i = 0; i < kCount; ++i)
      put(sums + i * stride + v * kLanes, at(sums + i * stride + v * kLanes) + total[i][v]);
  }
}

// The same, of columns that are neighbours in a factor without edges.
template <typename T, int kCount>
void multiply_neighbours(const Part& part, const double* left, double* sums, int64_t stride,
                         double* squares) {
  constexpr int kVectors = kCount <= 2 ? 4 : kCount <= 4 || kLanes == 8 ? 2 : 1;
  for (int64_t first = 0; first < part.single_count; first += kAtOnce) {
    const int64_t end =
        first + kAtOnce < part.single_count ? first + kAtOnce : part.single_count;
    for (int64_t r = 0; r < part.run_count; ++r) {
      const Run& run = part.runs[r];
      const T* from = static_cast<const T*>(part.data) + run.place.offset;
      double *to = sums + run.at, *square = squares + run.at;
      int64_t j = 0;
      for (; j + kVectors * kLanes <= run.length; j += kVectors * kLanes)
        multiply_columns<T, kCount, kVectors>(part, from + j, first, end, left, to + j, stride,
                                              square + j);
      for (; j + kLanes <= run.length; j += kLanes)
        multiply_columns<T, kCount, 1>(part, from + j, first, end, left, to + j, stride,
                                       square + j);
      for (; j < run.length; ++j) {
        double total[kCount] = {};
        for (int64_t k = first; k < end; ++k) {
          const double value = widen(from[part.singles[k].offset + j]);
          square[j] += value * value;
          for (int i = 0; i < kCount; ++i) total[i] += value * left[i * kLong + k];
        }
        for (int i = 0; i < kCount; ++i) to[i * stride + j] += total[i];
      }
    }
  }
}

template <typename T>
void multiply_few(bool along_terms, int64_t rows, const Part& part, const double* left,
                  double* sums, int64_t stride, double* squares) {
  using Few = void (*)(const Part&, const double*, double*, int64_t, double*);
  static constexpr Few kFunctions[2][kFewRows] = {
      {multiply_neighbours<T, 1>, multiply_neighbours<T, 2>, multiply_neighbours<T, 3>,
       multiply_neighbours<T, 4>, multiply_neighbours<T, 5>, multiply_neighbours<T, 6>,
       multiply_neighbours<T, 7>, multiply_neighbours<T, 8>},
      {multiply_runs<T, 1>, multiply_runs<T, 2>, multiply_runs<T, 3>, multiply_runs<T, 4>,
       multiply_runs<T, 5>, multiply_runs<T, 6>, multiply_runs<T, 7>, multiply_runs<T, 8>}};
  kFunctions[along_terms][rows - 1](part, left, sums, stride, squares);
}

// ---------------------------------------------------------------- Many small products

constexpr int kGroups = static_cast<int>(kTogether) / kLanes;

template <typename T>
void pack_wide_lanes(const void* data, double scale, const int64_t* offsets, const Place* lines,
                     int64_t count, const Place* terms, int64_t term_count, double* to,
                     double* squares) {
  const T* from = static_cast<const T*>(data);
  bool are_neighbours = true;
  for (int lane = 1; lane < kTogether; ++lane)
    are_neighbours &= offsets[lane] == offsets[0] + lane;
  for (int64_t i = 0; i < count; ++i) {
    Vector sums[kGroups] = {};
    for (int64_t k = 0; k < term_count; ++k, to += kTogether) {
      const T* first = from + lines[i].offset + terms[k].offset;
      if (are_neighbours) {
        for (int g = 0; g < kGroups; ++g)
          put(to + g * kLanes, loaded(first + offsets[0] + g * kLanes, scale));
      } else {
        for (int g = 0; g < kGroups; ++g)
          put(to + g * kLanes, gathered(first, scale, [&](int64_t lane) {
                return offsets[g * kLanes + lane];
              }));
      }
      for (int g = 0; g < kGroups; ++g) {
        const Vector value = at(to + g * kLanes);
        sums[g] = fused(value, value, sums[g]);
      }
    }
    for (int g = 0; g < kGroups; ++g) put(squares + i * kTogether + g * kLanes, sums[g]);
  }
}

template <typename T>
void pack_lanes(const void* data, const int64_t* offsets, const Place* lines, int64_t count,
                const Place* terms, int64_t term_count, double* to, double* squares) {
  pack_wide_lanes<T>(data, 1, offsets, lines, count, terms, term_count, to, squares);
}

void multiply_lanes(int64_t terms, const double* left, const double* right,
                    const double* left_squares, const double* right_squares, double* sums,
                    double* norms) {
  Vector total[kGroups] = {};
  for (int64_t k = 0; k < terms; ++k)
#pragma GCC unroll 8
    for (int g = 0; g < kGroups; ++g)
      total[g] = fused(at(left + k * kTogether + g * kLanes),
                       at(right + k * kTogether + g * kLanes), total[g]);
  for (int g = 0; g < kGroups; ++g) put(sums + g * kLanes, total[g]);
  // The product of two sums of squares is below 2**520.
  for (int lane = 0; lane < kTogether; ++lane)
    norms[lane] = __builtin_sqrt(left_squares[lane] * right_squares[lane]);
}

// ---------------------------------------------------------------- Rounding

// Returns whether all values are within magnitudes and both words of each lane are equal.
SAMEBITS_INLINE bool are_plain(Vector least, Words low, Words high) {
#if defined(__AVX512F__)
  return (_mm512_cmp_pd_mask((__m512d)least, _mm512_set1_pd(0x1p-125), _CMP_GE_OQ) == 0xff) &
         (_mm256_cmpneq_epi32_mask((__m256i)low, (__m256i)high) == 0);
#else
  const Ints is_plain = __builtin_convertvector((Longs)(least >= 0x1p-125), Ints);
  return !any_of(~is_plain | (Ints)(low != high));
#endif
}

template <typename R>
int64_t round_row(int64_t count, const double* sums, const double* norms, double scale, void* to,
                  int32_t* doubts) {
  using Word = typename R::Word;
  Word* words = static_cast<Word*>(to);
  const Vector wide = all(scale * (1 + 0x1p-10)), slack = all(scale == 0 ? 0 : 0x1p-52);
  int64_t number = 0;
  auto check = [&](int64_t j) {
    if (!is_decided<R>(sums[j], norms[j] * scale, words + j))
      doubts[number++] = static_cast<int32_t>(j);
  };
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    // As `is_decided`; the difference of an infinity or a NaN from itself is a NaN.
    const Vector value = at(sums + j);
    const Vector wider = fused(at(norms + j), wide, magnitude(value) * slack);
    Words low = narrowed_normal(R(), value - wider);
    Words high = narrowed_normal(R(), value + wider);
    if (__builtin_expect(!are_plain(magnitude(value) - wider, low, high), 0)) {
      low = narrowed(R(), value - wider);
      high = narrowed(R(), value + wider);
      const Ints is_special = __builtin_convertvector((Longs)(wider - wider != 0.0), Ints);
      const Ints is_open = (Ints)(low != high) | is_special;
      if (any_of(is_open)) {
        put_words(words + j, low);
        // In sums of few bits, of which many are ties, most lanes are decided.
        for (int lane = 0; lane < kLanes; ++lane) {
          if (is_special[lane]) {
            check(j + lane);
          } else if (is_open[lane]) {
            doubts[number++] = static_cast<int32_t>(j + lane);
          }
        }
        continue;
      }
    }
    put_words(words + j, low);
  }
  for (; j < count; ++j) check(j);
  return number;
}

void bound(int64_t count, const double* sums, const double* norms, double scale, double* to_sums,
           float* to_errors) {
  int64_t j = 0;
  const Vector factor = all(scale * Bounds::kFactor);
  for (; j + kLanes <= count; j += kLanes) {
    const Vector value = at(sums + j), error = at(norms + j) * factor;
    // The difference of an infinity or a NaN from itself is a NaN.
    const Longs has_error = (Longs)(error > 0) & (Longs)(value - value == 0);
    const Floats sent = as_floats(error > Bounds::kLeast ? error : all(Bounds::kLeast));
    const Words words = (Words)sent & __builtin_convertvector(has_error, Words);
    put(to_sums + j, value);
    std::memcpy(to_errors + j, &words, sizeof words);
  }
  for (; j < count; ++j) {
    to_sums[j] = sums[j];
    to_errors[j] = is_finite(sums[j]) ? Bounds::sent(norms[j] * scale) : 0;
  }
}

template <typename T>
bool are_finite(const void* data, int64_t count) {
  const T* from = static_cast<const T*>(data);
  // 0 * infinity and 0 * NaN are NaN.
  Vector sums[2] = {};
  int64_t i = 0;
  for (; i + kColumns <= count; i += kColumns)
    for (int s = 0; s < 2; ++s) sums[s] = fused(load(from + i + s * kLanes), Vector{}, sums[s]);
  double rest = sum_of(sums[0] + sums[1]);
  for (; i < count; ++i) rest += widen(from[i]) * 0;
  return rest == 0;
}

// The bits of each lane.
struct LaneBits {
  Longs any = {}, least = Longs{} + INT64_MAX;

  SAMEBITS_INLINE void add(Vector value) {
    const Longs size = (Longs)magnitude(value);
    const Longs counted = size == 0 ? Longs{} + INT64_MAX : size;
    any |= size;
    least = counted < least ? counted : least;
  }
  SAMEBITS_INLINE void put_lane(int lane, Bits* bits) const {
    const uint64_t size = static_cast<uint64_t>(least[lane]);
    bits->any |= static_cast<uint64_t>(any[lane]);
    if (least[lane] != INT64_MAX && size < bits->least) bits->least = size;
  }
};

void add_bits(const double* values, int64_t count, Bits* bits) {
  LaneBits lanes;
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) lanes.add(at(values + k));
  for (int lane = 0; lane < kLanes; ++lane) lanes.put_lane(lane, bits);
  for (; k < count; ++k) {
    LaneBits one;
    one.add(all(values[k]));
    one.put_lane(0, bits);
  }
}

void add_lane_bits(const double* panel, int64_t terms, int64_t lines, int64_t width, Bits* bits) {
  for (int64_t i = 0; i < lines; i += kLanes) {
    LaneBits lanes;
    for (int64_t k = 0; k < terms; ++k) lanes.add(at(panel + k * width + i));
    for (int lane = 0; lane < kLanes && i + lane < lines; ++lane)
      lanes.put_lane(lane, bits + i + lane);
  }
}

void add_pairs(const double* left, const double* right, int64_t count, PairSum* sum) {
  Pairs pairs(*sum);
  int64_t k = 0;
  for (; k + 16 <= count; k += 16)
    for (int p = 0; p < Pairs::kVectors; ++p)
      pairs.low[p] += two_sum(&pairs.high[p],
                              at(left + k + p * kLanes) * at(right + k + p * kLanes));
  pairs.store(sum);
  for (int i = 0; k < count; ++k, ++i)
    sum->low[i] += two_sum(&sum->high[i], left[k] * right[k]);
}

template <int kVectors>
void add_row(int64_t terms, const double* row, int64_t step, const double* right, double* high,
             double* low) {
  Vector sum[kVectors], rest[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    sum[v] = at(high + v * kLanes);
    rest[v] = at(low + v * kLanes);
  }
  for (int64_t k = 0; k < terms; ++k, row += step, right += kColumns)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const Vector a = all(*row), b = at(right + v * kLanes), product = a * b;
      rest[v] += product_error(a, b, product) + two_sum(&sum[v], product);
    }
  for (int v = 0; v < kVectors; ++v) {
    put(high + v * kLanes, sum[v]);
    put(low + v * kLanes, rest[v]);
  }
}

void add_wide_row(int64_t vectors, int64_t terms, const double* row, int64_t step,
                  const double* right, double* high, double* low) {
  if (vectors == 1) return add_row<1>(terms, row, step, right, high, low);
  add_row<2>(terms, row, step, right, high, low);
}

// ---------------------------------------------------------------- States of sums

// The bits of a multiple of a unit: a sum of kTerms products of two multiples is exact.
constexpr int kSplit = 23;
static_assert(2 * kSplit + 7 == 53 && kTerms == 1 << 7, "a sum has 53 bits");

// Returns numbers that are added to values and subtracted again to round the values to units.
SAMEBITS_INLINE Vector rounding_to_unit(Vector greatest) {
  const Longs exponent = (Longs)greatest & (0x7ffll << 52);
  return (Vector)((exponent + (int64_t{53 - kSplit} << 52)) | (1ll << 51));
}

bool split_rows(const double* from, int64_t lines, int64_t terms, double* first, double* rest,
                double* squares) {
  const int64_t padded = up(terms, 8);
  Vector any{};
  for (int64_t i = 0; i < lines; ++i, from += kRow, first += kRow, rest += kRow) {
    Vector most{};
    for (int64_t k = 0; k < padded; k += kLanes) {
      const Vector size = magnitude(at(from + k));
      most = size > most ? size : most;
    }
    double greatest = most[0];
    for (int lane = 1; lane < kLanes; ++lane)
      greatest = most[lane] > greatest ? most[lane] : greatest;
    const Vector rounding = rounding_to_unit(all(greatest));
    Vector square{};
    for (int64_t k = 0; k < padded; k += kLanes) {
      const Vector value = at(from + k), multiple = (value + rounding) - rounding;
      put(first + k, multiple);
      put(rest + k, value - multiple);
      square = fused(value - multiple, value - multiple, square);
    }
    squares[i] += sum_of(square);
    any += square;
  }
  return sum_of(any) != 0;
}

bool split_panel(const double* from, int64_t lines, int64_t terms, int64_t width, double* first,
                 double* rest, double* squares) {
  bool has_rest = false;
  for (int64_t i = 0; i < lines; i += kLanes) {
    Vector most{}, square{};
    for (int64_t k = 0; k < terms; ++k) {
      const Vector size = magnitude(at(from + k * width + i));
      most = size > most ? size : most;
    }
    const Vector rounding = rounding_to_unit(most);
    for (int64_t k = 0; k < terms; ++k) {
      const Vector value = at(from + k * width + i), multiple = (value + rounding) - rounding;
      put(first + k * width + i, multiple);
      put(rest + k * width + i, value - multiple);
      square = fused(value - multiple, value - multiple, square);
    }
    for (int lane = 0; lane < kLanes && i + lane < lines; ++lane) {
      squares[i + lane] += square[lane];
      has_rest |= square[lane] != 0;
    }
  }
  return has_rest;
}

void add_tile(int64_t rows, int64_t vectors, const double* tile, double* high, double* middle,
              double* lost, int64_t stride) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < vectors * kLanes; j += kLanes) {
      const int64_t to = i * stride + j;
      const Vector term = at(tile + i * kColumns + j);
      Vector sum = at(high + to), rest = at(middle + to);
      const Vector error = two_sum(&rest, two_sum(&sum, term));
      put(high + to, sum);
      put(middle + to, rest);
      put(lost + to, at(lost + to) + magnitude(error));
    }
}

}  // namespace

#define SAMEBITS_WIDE(pack) \
  {pack<Wide<float>>, pack<Wide<bfloat16>>, pack<Wide<float16>>, pack<Wide<double>>}
#define SAMEBITS_JOINED(a, b) a##b
#define SAMEBITS_TABLE(name, unit) SAMEBITS_JOINED(name, unit)
extern const ProductKernels SAMEBITS_TABLE(product_kernels_, SAMEBITS_UNIT) = {
    kRows,
    kColumns,
    kStep,
    {pack_rows<float>, pack_rows<bfloat16>, pack_rows<float16>, pack_rows<double>},
    {pack_panels<float>, pack_panels<bfloat16>, pack_panels<float16>, pack_panels<double>},
    transpose,
    multiply,
    {multiply_few<float>, multiply_few<bfloat16>, multiply_few<float16>, nullptr},
    {pack_lanes<float>, pack_lanes<bfloat16>, pack_lanes<float16>, pack_lanes<double>},
    multiply_lanes,
    {round_row<Float32>, round_row<BFloat16>, round_row<Float16>, nullptr},
    bound,
    {are_finite<float>, are_finite<bfloat16>, are_finite<float16>, are_finite<double>},
    add_bits,
    add_lane_bits,
    split_rows,
    split_panel,
    add_tile,
    add_pairs,
    SAMEBITS_WIDE(pack_rows),
    SAMEBITS_WIDE(pack_panels),
    SAMEBITS_WIDE(pack_wide_lanes),
    add_wide_row,
};

}  // namespace samebits

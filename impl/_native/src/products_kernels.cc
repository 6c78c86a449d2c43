// The loops of products and convolutions, compiled for each vector unit.
//
// A product of two factors of up to 24 bits is exact in float64, so a fused multiply-add and a
// multiplication before an addition round alike.
#include <cstring>

#include "numbers.h"
#include "products.h"

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace samebits {
namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 8;
constexpr int kRows = 14;  // 28 of 32 registers have sums
#elif defined(__AVX2__)
constexpr int kLanes = 4;
constexpr int kRows = 6;  // 12 of 16
#elif defined(__aarch64__)
constexpr int kLanes = 2;
constexpr int kRows = 14;
#else
constexpr int kLanes = 2;
constexpr int kRows = 6;
#endif
constexpr int kColumns = 2 * kLanes;

typedef double Vector __attribute__((vector_size(8 * kLanes)));
typedef double Loose __attribute__((vector_size(8 * kLanes), aligned(8), may_alias));
typedef float Floats __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Words __attribute__((vector_size(4 * kLanes)));
typedef uint16_t Halves __attribute__((vector_size(2 * kLanes)));

SAMEBITS_INLINE Vector at(const double* from) { return *reinterpret_cast<const Loose*>(from); }
SAMEBITS_INLINE void put(double* to, Vector value) { *reinterpret_cast<Loose*>(to) = value; }
SAMEBITS_INLINE Vector all(double value) { return value - Vector{}; }

// a * b + c.
SAMEBITS_INLINE Vector fused(Vector a, Vector b, Vector c) {
#if defined(__AVX512F__)
  return (Vector)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
  return (Vector)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__aarch64__)
  return (Vector)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
#else
  return a * b + c;
#endif
}

SAMEBITS_INLINE double sum_of(Vector value) {
  double sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += value[i];
  return sum;
}

// ---------------------------------------------------------------- Factors as float64

SAMEBITS_INLINE Vector widened(Words bits) {
  bits &= (Words)((bits & 0x7f800000u) != 0);
  return __builtin_convertvector((Floats)bits, Vector);
}
SAMEBITS_INLINE Vector load(const float* from) {
  Words bits;
  std::memcpy(&bits, from, sizeof bits);
  return widened(bits);
}
SAMEBITS_INLINE Vector load(const bfloat16* from) {
  Halves bits;
  std::memcpy(&bits, from, sizeof bits);
  return widened(__builtin_convertvector(bits, Words) << 16);
}
SAMEBITS_INLINE Vector load(const float16* from) {
  Halves bits;
  std::memcpy(&bits, from, sizeof bits);
  const Words wide = __builtin_convertvector(bits, Words);
  const Words sign = (wide & 0x8000u) << 16, rest = (wide & 0x7fffu) << 13;
  const Floats least = (Floats)(Words{} + (113u << 23));
  const Words small = (Words)((Floats)(rest + (113u << 23)) - least);
  const Words is_small = (Words)(rest < (1u << 23)), is_special = (Words)(rest >= (31u << 23));
  const Words normal = (rest + (112u << 23)) | (is_special & 0x7f800000u);
  const Words magnitude = (is_small & small) | (~is_small & normal);
  return __builtin_convertvector((Floats)(sign | magnitude), Vector);
}

template <typename T>
SAMEBITS_INLINE void copy(const T* from, int64_t stride, int64_t count, double* to) {
  if (stride == 1) {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) put(to + i, load(from + i));
    for (; i < count; ++i) to[i] = widen(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = widen(from[i * stride]);
  }
}

SAMEBITS_INLINE int64_t up(int64_t value, int64_t by) { return (value + by - 1) / by * by; }
// The quotient rounded up, by a positive divisor.
SAMEBITS_INLINE int64_t ceiling(int64_t value, int64_t by) {
  if (by == 1) return value;
  return value >= 0 ? (value + by - 1) / by : -(-value / by);
}

// Copies what a run and one place of the other side meet, with zeros outside of the image.
template <typename T>
SAMEBITS_INLINE void copy_run(const Part& part, const Place& single, const Run& run, double* to) {
  int64_t begin = 0, end = run.length;
  for (int e = 0; e < part.edges->count; ++e) {
    const int64_t position = single.position[e] + run.place.position[e];
    const int64_t size = part.edges->size[e];
    if (e == part.inner.edge) {
      const int64_t unit = part.inner.unit, step = part.inner.step;
      if (position < 0) begin = ceiling(-position, step) * unit - run.phase;
      const int64_t inside = ceiling(size - position, step) * unit - run.phase;
      end = inside < end ? inside : end;
    } else if (static_cast<uint64_t>(position) >= static_cast<uint64_t>(size)) {
      end = 0;
    }
  }
  if (begin >= end) begin = end = 0;
  for (int64_t i = 0; i < begin; ++i) to[i] = 0;
  const int64_t offset = single.offset + run.place.offset + begin * part.inner.stride;
  copy(static_cast<const T*>(part.data) + offset, part.inner.stride, end - begin, to + begin);
  for (int64_t i = end; i < run.length; ++i) to[i] = 0;
}

template <typename T>
void pack_rows(const Part& part, double* to, int64_t stride, double* squares) {
  const int64_t padded = up(part.run_length, 8);
  for (int64_t i = 0; i < part.single_count; ++i, to += stride) {
    for (int64_t r = 0; r < part.run_count; ++r)
      copy_run<T>(part, part.singles[i], part.runs[r], to + part.runs[r].at);
    for (int64_t k = part.run_length; k < padded; ++k) to[k] = 0;
    Vector sums[8 / kLanes * 2] = {};
    constexpr int kSums = 8 / kLanes * 2;
    int64_t k = 0;
    for (; k + 16 <= padded; k += 16)
      for (int s = 0; s < kSums; ++s) {
        const Vector value = at(to + k + s * kLanes);
        sums[s] = fused(value, value, sums[s]);
      }
    if (k < padded)
      for (int s = 0; s < kSums / 2; ++s) {
        const Vector value = at(to + k + s * kLanes);
        sums[s] = fused(value, value, sums[s]);
      }
    for (int s = 1; s < kSums; ++s) sums[0] += sums[s];
    squares[i] += sum_of(sums[0]);
  }
}

// Adds the squares of a panel [terms][width] to `squares` of `lines` lines.
void add_squares(const double* panel, int64_t terms, int64_t width, int64_t lines,
                 double* squares) {
  for (int64_t i = 0; i < lines; i += kLanes) {
    const int64_t count = lines - i < kLanes ? lines - i : kLanes;
    Vector sums[4] = {};
    int64_t k = 0;
    if (i + kLanes <= width) {
      for (; k + 4 <= terms; k += 4)
        for (int s = 0; s < 4; ++s) {
          const Vector value = at(panel + (k + s) * width + i);
          sums[s] = fused(value, value, sums[s]);
        }
      for (; k < terms; ++k) {
        const Vector value = at(panel + k * width + i);
        sums[0] = fused(value, value, sums[0]);
      }
      const Vector sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
      for (int64_t lane = 0; lane < count; ++lane) squares[i + lane] += sum[lane];
    } else {
      for (; k < terms; ++k)
        for (int64_t lane = 0; lane < count; ++lane) {
          const double value = panel[k * width + i + lane];
          squares[i + lane] += value * value;
        }
    }
  }
}

template <typename T>
void pack_panel(const Part& part, double* to, int64_t width, double* squares) {
  double* row = to;
  for (int64_t k = 0; k < part.single_count; ++k, row += width) {
    for (int64_t r = 0; r < part.run_count; ++r)
      copy_run<T>(part, part.singles[k], part.runs[r], row + part.runs[r].at);
    for (int64_t i = part.run_length; i < width; ++i) row[i] = 0;
  }
  add_squares(to, part.single_count, width, part.run_length, squares);
}

void transpose(const double* rows, int64_t lines, int64_t terms, int64_t width, double* to) {
  for (int64_t k = 0; k < terms; ++k, to += width) {
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
  for (int64_t k = 0; k < terms; ++k) {
    Vector column[kVectors];
#pragma GCC unroll 2
    for (int j = 0; j < kVectors; ++j) column[j] = at(right + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) {
      const Vector row = all(left[kInterleaved ? i : i * kRow]);
#pragma GCC unroll 2
      for (int j = 0; j < kVectors; ++j) total[i][j] = fused(row, column[j], total[i][j]);
    }
    left += kInterleaved ? kRows : 1;
    right += kColumns;
  }
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

// ---------------------------------------------------------------- Rounding

template <typename R>
int64_t round_row(int64_t count, const double* sums, const double* norms, double scale, void* to,
                  int32_t* doubts) {
  using Word = typename R::Word;
  constexpr int64_t kChunk = 32;
  Word* words = static_cast<Word*>(to);
  int64_t number = 0;
  for (int64_t j = 0; j < count; j += kChunk) {
    const int64_t end = count - j < kChunk ? count - j : kChunk;
    Word differs = 0;
    for (int64_t i = 0; i < end; ++i) {
      const double value = sums[j + i];
      double wider = norms[j + i] * scale * (1 + 0x1p-10) + __builtin_fabs(value) * 0x1p-52;
      wider = is_finite(value) ? wider : 0;
      const Word low = R::narrow(value - wider), high = R::narrow(value + wider);
      words[j + i] = low;
      differs |= low ^ high;
    }
    if (differs == 0) continue;
    for (int64_t i = 0; i < end; ++i) {
      Word word;
      if (!is_decided<R>(sums[j + i], norms[j + i] * scale, &word))
        doubts[number++] = static_cast<int32_t>(j + i);
      words[j + i] = word;
    }
  }
  return number;
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

void add_pairs(const double* left, const double* right, int64_t count, PairSum* sum) {
  constexpr int kPairs = 16 / kLanes;
  Vector high[kPairs], low[kPairs];
  for (int p = 0; p < kPairs; ++p) {
    high[p] = at(sum->high + p * kLanes);
    low[p] = at(sum->low + p * kLanes);
  }
  int64_t k = 0;
  for (; k + 16 <= count; k += 16)
    for (int p = 0; p < kPairs; ++p) {
      const Vector term = at(left + k + p * kLanes) * at(right + k + p * kLanes);
      const Vector near = high[p] + term, of_term = near - high[p];
      low[p] += (high[p] - (near - of_term)) + (term - of_term);
      high[p] = near;
    }
  for (int p = 0; p < kPairs; ++p) {
    put(sum->high + p * kLanes, high[p]);
    put(sum->low + p * kLanes, low[p]);
  }
  for (int i = 0; k < count; ++k, ++i)
    sum->low[i] += two_sum(&sum->high[i], left[k] * right[k]);
}

}  // namespace

#define SAMEBITS_JOINED(a, b) a##b
#define SAMEBITS_TABLE(name, unit) SAMEBITS_JOINED(name, unit)
extern const ProductKernels SAMEBITS_TABLE(product_kernels_, SAMEBITS_UNIT) = {
    kRows,
    kColumns,
    {pack_rows<float>, pack_rows<bfloat16>, pack_rows<float16>},
    {pack_panel<float>, pack_panel<bfloat16>, pack_panel<float16>},
    transpose,
    multiply,
    {round_row<Float32>, round_row<BFloat16>, round_row<Float16>},
    {are_finite<float>, are_finite<bfloat16>, are_finite<float16>},
    add_pairs,
};

}  // namespace samebits

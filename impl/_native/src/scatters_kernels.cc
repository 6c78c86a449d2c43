// The inner loops of scatters; see scatters.h and lanes.h.

#include "scatters.h"

#include <type_traits>

#include "lanes.h"

namespace samebits {
namespace {

template <typename I>
SAMEBITS_INLINE int64_t index_of(I index, bool clip, int64_t last) {
  if (std::is_same<I, uint64_t>::value && static_cast<uint64_t>(index) >> 63 != 0)
    return clip ? last : INT64_MAX;
  int64_t wide = static_cast<int64_t>(index);
  if (!clip) return wide;
  return wide < 0 ? 0 : wide > last ? last : wide;
}

template <typename I>
int64_t select_indices(const void* indices, int64_t count, bool clip, int64_t last, int64_t low,
                       int64_t high, int32_t* chosen) {
  const I* index = static_cast<const I*>(indices);
  const uint64_t range = static_cast<uint64_t>(high - low);
  int64_t listed = 0;
  for (int64_t i = 0; i < count; ++i) {
    chosen[listed] = static_cast<int32_t>(i);
    listed += static_cast<uint64_t>(index_of(index[i], clip, last)) - static_cast<uint64_t>(low) <
              range;
  }
  return listed;
}

#if defined(__AVX512F__)
// The indices of most programs, 16 at a time.
template <>
int64_t select_indices<int32_t>(const void* indices, int64_t count, bool clip, int64_t last,
                                int64_t low, int64_t high, int32_t* chosen) {
  const int32_t* index = static_cast<const int32_t*>(indices);
  auto narrow = [](int64_t value) {
    return static_cast<int32_t>(value > INT32_MAX ? INT32_MAX : value);
  };
  if (low > INT32_MAX) return 0;
  const __m512i least = _mm512_set1_epi32(clip ? 0 : INT32_MIN);
  const __m512i most = _mm512_set1_epi32(clip ? narrow(last) : INT32_MAX);
  const __m512i begin = _mm512_set1_epi32(narrow(low));
  const __m512i end = _mm512_set1_epi32(narrow(high - 1));
  __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int64_t listed = 0;
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 some =
        count - i >= 16 ? 0xffff : static_cast<__mmask16>((1u << (count - i)) - 1);
    __m512i value = _mm512_maskz_loadu_epi32(some, index + i);
    value = _mm512_min_epi32(_mm512_max_epi32(value, least), most);
    const __mmask16 is_in = _mm512_mask_cmple_epi32_mask(
        _mm512_mask_cmpge_epi32_mask(some, value, begin), value, end);
    // The list has room for 16 more than it needs.
    _mm512_storeu_si512(chosen + listed, _mm512_maskz_compress_epi32(is_in, number));
    listed += __builtin_popcount(is_in);
    number = _mm512_add_epi32(number, _mm512_set1_epi32(16));
  }
  return listed;
}
#endif

template <typename I>
void widen_indices(const void* indices, const int32_t* chosen, int64_t count, int64_t step,
                   bool clip, int64_t last, int64_t* wide) {
  const I* index = static_cast<const I*>(indices);
  if (chosen == nullptr && step == 1) {
    for (int64_t i = 0; i < count; ++i) wide[i] = index_of(index[i], clip, last);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    wide[i] = index_of(index[(chosen == nullptr ? i : chosen[i]) * step], clip, last);
}

template <typename I>
void flatten_indices(const void* indices, int64_t count, int64_t number, const int64_t* strides,
                     const int64_t* lasts, bool clip, int32_t* flat) {
  const I* index = static_cast<const I*>(indices);
  auto all = [&](int64_t number, bool clip) __attribute__((always_inline)) {
    for (int64_t i = 0; i < count; ++i) {
      int64_t place = 0;
      bool is_in = true;
      for (int64_t k = 0; k < number; ++k) {
        const int64_t wide = index_of(index[i * number + k], clip, lasts[k]);
        is_in &= static_cast<uint64_t>(wide) <= static_cast<uint64_t>(lasts[k]);
        place += (is_in ? wide : 0) * strides[k];
      }
      flat[i] = is_in ? static_cast<int32_t>(place) : -1;
    }
  };
  if (number == 2 && !clip) return all(2, false);
  all(number, clip);
}

// The format of terms in a `Flushing` scope.
template <typename T>
constexpr Format kOf = std::is_same<T, double>::value ? kFloat64 : kFloat32;

#if defined(__AVX512F__)
SAMEBITS_INLINE __m256d magnitude(__m256d value) {
  return _mm256_andnot_pd(_mm256_set1_pd(-0.0), value);
}
#endif

// Adds a vector V of terms to the sums at an element of a table. L has the bits that are lost.
template <bool kHasError, typename V, typename L>
SAMEBITS_INLINE void add_vector(V term, double* near, double* rest, double* error, L* lost) {
  V high = load_as<V>(near), low = load_as<V>(rest);
  const V added = two_sum(&high, term);
  const V before = low;
  if constexpr (kHasError) {
    store_as(load_as<V>(error) + magnitude(two_sum(&low, added)), error);
  } else {
    low += added;
    // The sum is exact if both differences are what was added: one of them has no error itself,
    // the one to the greater term (Dekker 1971).
    *lost |= (reinterpret_cast<L>(low - before) ^ reinterpret_cast<L>(added)) |
             (reinterpret_cast<L>(low - added) ^ reinterpret_cast<L>(before));
  }
  store_as(high, near);
  store_as(low, rest);
}

// Adds a run to a table, vector by vector. The last one may have elements behind the run: zeros are
// added to them, which changes no sum. Tables, and the updates up to `end`, have such elements.
template <bool kHasError, typename T>
SAMEBITS_INLINE void add_run(const T* from, const T* end, int64_t length, const Table& at,
                             Longs sign, Longs* lost) {
  auto add = [&](Doubles terms, int64_t i, Longs* lost_bits) {
    const Doubles term = reinterpret_cast<Doubles>(reinterpret_cast<Longs>(terms) ^ sign);
    add_vector<kHasError>(term, at.near + i, at.rest + i, kHasError ? at.error + i : nullptr,
                          lost_bits);
  };
  int64_t i = 0;
  for (; i + kLanes <= length; i += kLanes) add(load(from + i), i, lost);
  if (i == length) return;
  Longs are_sums;
  for (int lane = 0; lane < kLanes; ++lane) are_sums[lane] = i + lane < length ? -1 : 0;
  const Doubles terms =
      end - (from + i) >= kLanes ? load(from + i) : load_some(from + i, length - i);
  Longs lost_bits{};
  add(reinterpret_cast<Doubles>(reinterpret_cast<Longs>(terms) & are_sums), i, &lost_bits);
  *lost |= lost_bits & are_sums;
}

// A term as float64. In a `Flushing` scope the unit itself drops subnormal ones on x86.
SAMEBITS_INLINE double term_of(float value) {
#if defined(__x86_64__)
  return static_cast<double>(value);
#else
  return widen(value);
#endif
}
SAMEBITS_INLINE double term_of(bfloat16 value) {
  return term_of(float_of(static_cast<uint32_t>(value.bits) << 16));
}
SAMEBITS_INLINE double term_of(float16 value) { return widen(value); }
SAMEBITS_INLINE double term_of(double value) { return widen(value); }

// How many runs ahead of the one that is added the processor is told of, since it cannot guess
// where they are, and how many lines of the cache of each array.
constexpr int64_t kAhead = 4, kLines = 8;
// The same for runs of one element.
constexpr int64_t kFarAhead = 24;
// A table of fewer sums is in a near cache.
constexpr int64_t kCached = 1 << 14;

template <typename T>
SAMEBITS_INLINE void fetch_run(const T* updates, const Runs& runs, const Table& table, int64_t i) {
  const int64_t to = runs.target[i] + runs.to;
  const T* from = updates + runs.source[i] + runs.from;
  if (to < 0 || to >= runs.size) return;
  constexpr int64_t kTerms = 64 / sizeof(T), kSums = 64 / sizeof(double);
  const int64_t length = runs.length < runs.size - to ? runs.length : runs.size - to;
  for (int64_t k = 0; k < length && k < kLines * kTerms; k += kTerms) __builtin_prefetch(from + k);
  for (int64_t k = 0; k < length && k < kLines * kSums; k += kSums) {
    __builtin_prefetch(table.near + to + k, 1);
    __builtin_prefetch(table.rest + to + k, 1);
  }
}

// Tells the processor that element `at` of an array, which may be none, is read or written soon.
template <typename T>
SAMEBITS_INLINE void fetch(const T* array, int64_t at) {
  const uint64_t offset = static_cast<uint64_t>(at) * sizeof(T);
  const uint64_t address = reinterpret_cast<uint64_t>(array) + offset;
  __builtin_prefetch(reinterpret_cast<const void*>(address), 1);
}

// Runs of one element.
template <bool kHasError, typename T>
struct Singles {
  const T* updates;
  const Runs& runs;
  const Table table;
  double sign;
  // The first lane, in a register of vectors, where the terms are.
  typedef int64_t Two __attribute__((vector_size(16)));
  Two lost{};

  static SAMEBITS_INLINE Two bits(double value) {
    typedef double Pair __attribute__((vector_size(16)));
    return reinterpret_cast<Two>(Pair{value, 0});
  }

  Singles(const T* terms, const Runs& all, const Table& sums)
      : updates(terms), runs(all), table(sums), sign(all.subtract ? -1 : 1) {}

  SAMEBITS_INLINE void add(int64_t to, int64_t from) {
    if (static_cast<uint64_t>(to) >= static_cast<uint64_t>(runs.size)) return;
    double near = table.near[to];
    const double before = table.rest[to];
    const double added = two_sum(&near, sign * term_of(updates[from]));
    double rest = before;
    if (kHasError) {
      table.error[to] += __builtin_fabs(two_sum(&rest, added));
    } else {
      rest += added;
      lost |= (bits(rest - before) ^ bits(added)) | (bits(rest - added) ^ bits(before));
    }
    table.near[to] = near;
    table.rest[to] = rest;
  }

  SAMEBITS_INLINE int64_t target(int64_t i) const { return target(i, runs.has_lanes); }
  SAMEBITS_INLINE int64_t target(int64_t i, bool has_lanes) const {
    const int64_t to = runs.target[i] + runs.to;
    return has_lanes ? to * kScatterLanes + (i & (kScatterLanes - 1)) : to;
  }

  // Adds runs [first, last).
  SAMEBITS_INLINE void add_all(int64_t first, int64_t last) {
    if (runs.has_lanes) return add_all(first, last, std::true_type(), std::false_type());
    if (runs.size < kCached) return add_all(first, last, std::false_type(), std::false_type());
    add_all(first, last, std::false_type(), std::true_type());
  }
  template <typename HasLanes, typename Fetches>
  SAMEBITS_INLINE void add_all(int64_t first, int64_t last, HasLanes has_lanes, Fetches fetches) {
    for (int64_t i = first; i < last; ++i) {
      // The list is longer than its runs.
      const int64_t ahead = fetches ? target(i + kFarAhead, has_lanes) : 0;
      if (fetches) {
        fetch(table.near, ahead);
        fetch(table.rest, ahead);
        fetch(updates, runs.source[i + kFarAhead] + runs.from);
      }
      add(target(i, has_lanes), runs.source[i] + runs.from);
    }
  }
};

#if defined(__AVX512F__)
SAMEBITS_INLINE Doubles gather(const float* at, __m512i source) {
  return reinterpret_cast<Doubles>(_mm512_cvtps_pd(_mm512_i64gather_ps(source, at, 4)));
}
template <typename T>
SAMEBITS_INLINE Doubles gather(const T* at, __m512i source) {
  const Longs from = reinterpret_cast<Longs>(source);
  T terms[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) terms[lane] = at[from[lane]];
  return load(terms);
}

// Whether two of 8 integers are equal.
SAMEBITS_INLINE bool has_equals(__m512i value) {
  const __mmask8 equals = _mm512_cmpeq_epi64_mask(value, _mm512_alignr_epi64(value, value, 1)) |
                          _mm512_cmpeq_epi64_mask(value, _mm512_alignr_epi64(value, value, 2)) |
                          _mm512_cmpeq_epi64_mask(value, _mm512_alignr_epi64(value, value, 3)) |
                          _mm512_cmpeq_epi64_mask(value, _mm512_alignr_epi64(value, value, 4));
  return equals != 0;
}

// The elements of a list from `first` on: neighbours, or `apart` from each other.
SAMEBITS_INLINE __m512i eight(const int64_t* list, int64_t first, int64_t apart) {
  if (apart == 1) return _mm512_loadu_si512(list + first);
  const __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  const __m512i place = _mm512_mullo_epi64(lane, _mm512_set1_epi64(apart));
  return _mm512_i64gather_epi64(place, list + first, 8);
}

// Runs of one element, 8 at a time, of which no two have one destination in the table. If runs that
// are neighbours have one, as those of sorted indices, it takes runs from all over the list.
template <typename T>
bool add_eights(const T* updates, const Runs& runs, const Table& table) {
  Singles<false, T> rest(updates, runs, table);
  const __m512i to_block = _mm512_set1_epi64(runs.to), from = _mm512_set1_epi64(runs.from);
  const __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  const Doubles sign = Doubles{} + rest.sign;
  const int64_t eights = runs.count / 8;
  const bool are_apart =
      eights > 1 && !runs.has_lanes && has_equals(_mm512_loadu_si512(runs.target));
  const int64_t apart = are_apart ? eights : 1, step = are_apart ? 1 : 8;
  Longs lost{};
  for (int64_t number = 0; number < eights; ++number) {
    const int64_t i = number * step;
    for (int64_t k = i + kFarAhead; step == 8 && !runs.has_lanes && k < i + kFarAhead + 8; ++k) {
      fetch(table.near, runs.target[k] + runs.to);
      fetch(table.rest, runs.target[k] + runs.to);
      fetch(updates, runs.source[k] + runs.from);
    }
    __m512i to = _mm512_add_epi64(eight(runs.target, i, apart), to_block);
    if (runs.has_lanes) to = _mm512_add_epi64(_mm512_slli_epi64(to, 3), lane);
    const __mmask8 is_in = _mm512_cmplt_epu64_mask(to, _mm512_set1_epi64(runs.size));
    if (is_in != 0xff || (!runs.has_lanes && has_equals(to))) {
      for (int64_t k = 0; k < 8; ++k)
        rest.add(rest.target(i + k * apart), runs.source[i + k * apart] + runs.from);
      continue;
    }
    const __m512i source = _mm512_add_epi64(eight(runs.source, i, apart), from);
    const Doubles term = sign * gather(updates, source);
    Doubles near = reinterpret_cast<Doubles>(_mm512_i64gather_pd(to, table.near, 8));
    const Doubles before = reinterpret_cast<Doubles>(_mm512_i64gather_pd(to, table.rest, 8));
    const Doubles added = two_sum(&near, term), after = before + added;
    lost |= (reinterpret_cast<Longs>(after - before) ^ reinterpret_cast<Longs>(added)) |
            (reinterpret_cast<Longs>(after - added) ^ reinterpret_cast<Longs>(before));
    _mm512_i64scatter_pd(table.near, to, reinterpret_cast<__m512d>(near), 8);
    _mm512_i64scatter_pd(table.rest, to, reinterpret_cast<__m512d>(after), 8);
  }
  rest.add_all(8 * eights, runs.count);
  return rest.lost[0] != 0 || _mm512_test_epi64_mask(reinterpret_cast<__m512i>(lost),
                                                  reinterpret_cast<__m512i>(lost)) != 0;
}
#endif

template <bool kHasError, typename T>
bool add_singles(const T* updates, const Runs& runs, const Table& table) {
  Flushing scope(kOf<T>);
#if defined(__AVX512F__)
  // Errors take more time than a vector gains.
  if constexpr (!kHasError && !std::is_same<T, double>::value)
    return add_eights(updates, runs, table);
#endif
  Singles<kHasError, T> all(updates, runs, table);
  all.add_all(0, runs.count);
  return all.lost[0] != 0;
}

// Calls work(number, destination, element of the updates, length) for each run, cut to the block.
template <typename Work>
SAMEBITS_INLINE void each_run(const Runs& runs, const Work& work) {
  for (int64_t i = 0; i < runs.count; ++i) {
    const int64_t to = runs.target[i] + runs.to;
    const int64_t begin = to < 0 ? -to : 0;
    const int64_t end = runs.size - to < runs.length ? runs.size - to : runs.length;
    if (begin < end) work(i, to + begin, runs.source[i] + runs.from + begin, end - begin);
  }
}

#if defined(__AVX512F__)
// The first terms of a run, and zeros behind them.
SAMEBITS_INLINE __m256d load_four(const float* at, __mmask8 some) {
  return _mm256_cvtps_pd(_mm_maskz_loadu_ps(some, at));
}
SAMEBITS_INLINE __m256d load_four(const bfloat16* at, __mmask8 some) {
  const __m128i words = _mm_cvtepu16_epi32(_mm_maskz_loadu_epi16(some, at));
  return _mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32(words, 16)));
}
SAMEBITS_INLINE __m256d load_four(const float16* at, __mmask8 some) {
  return _mm256_cvtps_pd(_mm_cvtph_ps(_mm_maskz_loadu_epi16(some, at)));
}
SAMEBITS_INLINE __m256d load_four(const double* at, __mmask8 some) {
  const __m256i bits = _mm256_castpd_si256(_mm256_maskz_loadu_pd(some, at));
  const __m256i exponent = _mm256_set1_epi64x(0x7ff0000000000000ll);
  const __mmask8 are_terms = _mm256_test_epi64_mask(bits, exponent);
  return _mm256_castsi256_pd(_mm256_maskz_mov_epi64(are_terms, bits));
}

// Runs of up to four elements, each a vector. As in `add_run`, zeros may be added behind a run.
template <bool kHasError, typename T>
bool add_short_runs(const T* updates, const Runs& runs, const Table& table) {
  Flushing scope(kOf<T>);
  const __m256d sign = _mm256_set1_pd(runs.subtract ? -1 : 1);
  __m256i lost = _mm256_setzero_si256();
  each_run(runs, [&](int64_t i, int64_t to, int64_t first, int64_t length) {
    // The list is longer than its runs.
    const int64_t ahead = runs.target[i + kFarAhead] + runs.to;
    fetch(table.near, ahead);
    fetch(table.rest, ahead);
    fetch(updates, runs.source[i + kFarAhead] + runs.from);
    const __mmask8 some = static_cast<__mmask8>((1u << length) - 1);
    __m256i lost_bits = _mm256_setzero_si256();
    add_vector<kHasError>(load_four(updates + first, some) * sign, table.near + to,
                          table.rest + to, kHasError ? table.error + to : nullptr, &lost_bits);
    lost |= _mm256_maskz_mov_epi64(some, lost_bits);
  });
  return _mm256_testz_si256(lost, lost) == 0;
}
#endif

template <bool kHasError, typename T>
bool add_runs(const void* updates, const Runs& runs, const Table& table) {
  const T* from = static_cast<const T*>(updates);
  if (runs.length == 1) return add_singles<kHasError>(from, runs, table);
#if defined(__AVX512F__)
  // Vectors of 8 would be mostly empty.
  if (runs.length <= 4) return add_short_runs<kHasError>(from, runs, table);
#endif
  Flushing scope(kOf<T>);
  const Longs sign = Longs{} + (runs.subtract ? INT64_MIN : 0);
  Longs lost{};
  each_run(runs, [&](int64_t i, int64_t to, int64_t first, int64_t length) {
    if (i + kAhead < runs.count) fetch_run(from, runs, table, i + kAhead);
    const Table at = {table.near + to, table.rest + to, kHasError ? table.error + to : nullptr};
    add_run<kHasError>(from + first, from + runs.terms, length, at, sign, &lost);
  });
  int64_t any = 0;
  for (int lane = 0; lane < kLanes; ++lane) any |= lost[lane];
  return any != 0;
}

// The results that are rounded together.
constexpr int64_t kSome = 64;

// A sum of two terms of at most 24 bits is rounded as it should be if 53 bits round it first
// (Figueroa 1995, "When is double rounding innocuous?"). float64 rounds its own sums once.
template <typename T, typename R>
void add_once(const void* operand, const void* updates, const Runs& runs, void* out) {
  const T* initial = static_cast<const T*>(operand);
  const T* added = static_cast<const T*>(updates);
  auto* words = static_cast<typename R::Word*>(out);
  const double sign = runs.subtract ? -1 : 1;
  if (runs.length == 1) {
    // The list is longer than its runs. No run of one element is cut.
    for (int64_t first = 0; first < runs.count; first += kSome) {
      const int64_t some = runs.count - first < kSome ? runs.count - first : kSome;
      T a[kSome], b[kSome];
      typename R::Word sums[kSome];
      for (int64_t i = 0; i < some; ++i) {
        fetch(initial, runs.target[first + i + kFarAhead] + runs.to);
        fetch(added, runs.source[first + i + kFarAhead] + runs.from);
        a[i] = initial[runs.target[first + i] + runs.to];
        b[i] = added[runs.source[first + i] + runs.from];
      }
      for (int64_t i = 0; i < some; ++i) sums[i] = R::narrow(widen(a[i]) + sign * widen(b[i]));
      for (int64_t i = 0; i < some; ++i) words[runs.target[first + i] + runs.to] = sums[i];
    }
    return;
  }
  each_run(runs, [&](int64_t, int64_t to, int64_t from, int64_t length) {
    for (int64_t k = 0; k < length; ++k)
      words[to + k] = R::narrow(widen(initial[to + k]) + sign * widen(added[from + k]));
  });
}

template <typename T>
void load_operand(const void* operand, int64_t count, const Table& table) {
  const T* from = static_cast<const T*>(operand);
  for (int64_t i = 0; i < count; ++i) table.near[i] = widen(from[i]);
  std::memset(table.rest, 0, static_cast<size_t>(count) * sizeof(double));
  if (table.error != nullptr)
    std::memset(table.error, 0, static_cast<size_t>(count) * sizeof(double));
}

template <typename T, typename R>
void round_operand(const void* operand, int64_t count, void* out) {
  using Word = typename R::Word;
  const T* from = static_cast<const T*>(operand);
  Word* words = static_cast<Word*>(out);
  if (operand != out) {
    for (int64_t i = 0; i < count; ++i) words[i] = R::narrow(widen(from[i]));
    return;
  }
  // In place, few elements change, if any.
  for (int64_t first = 0; first < count; first += kSome) {
    const int64_t some = count - first < kSome ? count - first : kSome;
    Word rounded[kSome], changes = 0;
    for (int64_t i = 0; i < some; ++i) {
      rounded[i] = R::narrow(widen(from[first + i]));
      changes |= static_cast<Word>(rounded[i] ^ words[first + i]);
    }
    if (changes != 0) std::memcpy(words + first, rounded, static_cast<size_t>(some) * sizeof(Word));
  }
}

// Adds the sums of a table to those of another, and their errors if they have any.
bool add_table(const Table& from, int64_t count, const Table& to) {
  uint64_t lost = 0;
  for (int64_t i = 0; i < count; ++i) {
    double near = to.near[i], rest = to.rest[i];
    const double error = two_sum(&near, from.near[i]);
    const double first = two_sum(&rest, error), second = two_sum(&rest, from.rest[i]);
    lost |= bits_of(first) | bits_of(second);
    to.near[i] = near;
    to.rest[i] = rest;
    if (to.error == nullptr) continue;
    to.error[i] += from.error[i] + (__builtin_fabs(first) + __builtin_fabs(second));
  }
  // The error of an exact sum is 0, of either sign.
  return (lost & ~(1ull << 63)) != 0;
}

// near + rest, rounded to odd. A sum that is not finite is `near`: TwoSum makes NaN of an infinity.
SAMEBITS_INLINE double odd_sum(const Table& table, int64_t i) {
  double near = table.near[i];
  double rest = two_sum(&near, table.rest[i]);
  return is_finite(table.near[i]) ? to_odd(near, rest) : table.near[i];
}

template <typename R>
void round_sums(const Table& table, int64_t count, void* out) {
  auto* words = static_cast<typename R::Word*>(out);
  for (int64_t i = 0; i < count; ++i) words[i] = R::narrow(odd_sum(table, i));
}

template <typename R>
bool decide_sums(const Table& table, int64_t count, void* out, uint8_t* in_doubt) {
  auto* words = static_cast<typename R::Word*>(out);
  int any = 0;
  for (int64_t i = 0; i < count; ++i) {
    typename R::Word word;
    bool is_sure = is_decided<R>(odd_sum(table, i), table.error[i], &word);
    words[i] = is_sure ? word : words[i];
    in_doubt[i] = !is_sure;
    any |= !is_sure;
  }
  return any != 0;
}

// The sums of float64 themselves: a vector may have elements of the table behind the last sum.
template <typename Work>
SAMEBITS_INLINE void each_interval(const Table& table, int64_t count, const Work& work) {
  alignas(64) double low[kSome], high[kSome];
  uint64_t words[2][kSome];
  for (int64_t first = 0; first < count; first += kSome) {
    const int64_t some = count - first < kSome ? count - first : kSome;
    for (int64_t i = 0; i < some; i += kLanes) {
      const int64_t at = first + i;
      Exact<Doubles> sum = {load_as<Doubles>(table.near + at), load_as<Doubles>(table.rest + at),
                            Doubles{}};
      if (table.error != nullptr) sum.error = load_as<Doubles>(table.error + at);
      const Interval ends = interval<Float64>(sum, 1 + 0x1p-10);
      store_as(ends.low, low + i);
      store_as(ends.high, high + i);
    }
    narrow_all<Float64>(low, some, words[0]);
    narrow_all<Float64>(high, some, words[1]);
    work(first, some, words[0], words[1]);
  }
}

template <>
void round_sums<Float64>(const Table& table, int64_t count, void* out) {
  each_interval({table.near, table.rest, nullptr}, count,
                [&](int64_t first, int64_t some, const uint64_t* words, const uint64_t*) {
                  std::memcpy(static_cast<uint64_t*>(out) + first, words,
                              static_cast<size_t>(some) * sizeof(uint64_t));
                });
}

template <>
bool decide_sums<Float64>(const Table& table, int64_t count, void* out, uint8_t* in_doubt) {
  int any = 0;
  each_interval(table, count,
                [&](int64_t first, int64_t some, const uint64_t* low, const uint64_t* high) {
                  uint64_t* words = static_cast<uint64_t*>(out) + first;
                  uint64_t differ = 0;
                  for (int64_t i = 0; i < some; ++i) {
                    const bool is_sure = low[i] == high[i];
                    words[i] = is_sure ? low[i] : words[i];
                    in_doubt[first + i] = !is_sure;
                    differ |= low[i] ^ high[i];
                  }
                  any |= differ != 0;
                });
  return any != 0;
}

}  // namespace

SAMEBITS_TABLE(ScatterKernels, scatter_kernels) = {
    {select_indices<int8_t>, select_indices<int16_t>, select_indices<int32_t>,
     select_indices<int64_t>, select_indices<uint8_t>, select_indices<uint16_t>,
     select_indices<uint32_t>, select_indices<uint64_t>},
    {widen_indices<int8_t>, widen_indices<int16_t>, widen_indices<int32_t>,
     widen_indices<int64_t>, widen_indices<uint8_t>, widen_indices<uint16_t>,
     widen_indices<uint32_t>, widen_indices<uint64_t>},
    {flatten_indices<int8_t>, flatten_indices<int16_t>, flatten_indices<int32_t>,
     flatten_indices<int64_t>, flatten_indices<uint8_t>, flatten_indices<uint16_t>,
     flatten_indices<uint32_t>, flatten_indices<uint64_t>},
    {add_runs<false, float>, add_runs<false, bfloat16>, add_runs<false, float16>,
     add_runs<false, double>},
    {add_runs<true, float>, add_runs<true, bfloat16>, add_runs<true, float16>,
     add_runs<true, double>},
    {add_once<float, Float32>, add_once<bfloat16, BFloat16>, add_once<float16, Float16>,
     add_once<double, Float64>},
    add_table,
    {load_operand<float>, load_operand<bfloat16>, load_operand<float16>, load_operand<double>},
    {round_operand<float, Float32>, round_operand<bfloat16, BFloat16>,
     round_operand<float16, Float16>, round_operand<double, Float64>},
    {round_sums<Float32>, round_sums<BFloat16>, round_sums<Float16>, round_sums<Float64>},
    {decide_sums<Float32>, decide_sums<BFloat16>, decide_sums<Float16>, decide_sums<Float64>},
};

}  // namespace samebits

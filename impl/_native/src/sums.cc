// The calls of reductions. A sum has two ways, and an exact one where both leave it in doubt:
//
//     plain    float64, with a bound by the sum of magnitudes (Higham 2002, section 4.2), or for
//              terms of float64 with one by the greatest of them (`Coarse` of lanes.h)
//     exact    pairs of float64, whose lost bits are measured: none, as a rule
//     digits   an accumulator of integers (Kulisch 2013)

#include "sums.h"

#include <algorithm>
#include <memory>

#include "calls.h"
#include "devices.h"
#include "reduction.h"
#include "states.h"
#include "terms.h"
#include "threads.h"

namespace samebits {
namespace {

namespace ffi = xla::ffi;

// The terms of a task, and the fewest of a part of few sums.
constexpr int64_t kTaskTerms = 1 << 16;
constexpr int64_t kFewestPart = 1 << 14;

// How a call computes its sums: an array, its reduction, and its kernels.
struct Sums {
  Reduction reduction;
  const char* x;
  Format format;
  bool is_exact;  // The first way.

  Sums(ffi::Span<const int64_t> sizes, const ffi::AnyBuffer& buffer)
      : reduction(sizes),
        x(static_cast<const char*>(buffer.untyped_data())),
        format(format_of(buffer)),
        // Float64 adds blocks of most terms of 16 bits exactly.
        is_exact((format != kFloat32 && format != kFloat64) ||
                 (reduction.is_columns ? reduction.terms_of_each() : reduction.terms) <= kShort) {
    // Sums of rows that are added as columns have many terms.
    if (are_columns(std::min(reduction.sums, kTile), reduction.terms_of_each())) is_exact = false;
  }

  // Whether `error` of a tile is a bound itself.
  bool has_bounds(bool exactly) const { return exactly || format == kFloat64; }
  double factor(bool exactly) const {
    return has_bounds(exactly) ? 1 : plain_factor(static_cast<double>(reduction.terms_of_each()));
  }

  // Adds the terms [begin, end) of each of `count` sums from `first` on, which are neighbours.
  void add(int64_t first, int64_t count, int64_t begin, int64_t end, bool exactly,
           Tile* tile) const {
    const SumKernels& kernels = sum_kernels();
    const AddTerms* table = reduction.is_columns
                                ? (exactly ? kernels.exact_columns : kernels.plain_columns)
                                : (exactly ? kernels.exact_rows : kernels.plain_rows);
    const int64_t place = reduction.kept.offset(first / reduction.sums) +
                          first % reduction.sums * reduction.sum_stride;
    tile->clear((count + 7) / 8 * 8);
    if (are_columns(count, end - begin) && begin % reduction.terms == 0)
      begin += add_as_columns(place + reduction.summed.offset(begin / reduction.terms), count,
                              (end - begin) / reduction.terms, exactly, tile);
    Flushing scope(exactly ? format : kFloat32);
    reduction.each_run(begin, end, [&](int64_t run, int64_t terms) {
      table[format](x + (place + run) * bytes_of(format), count, terms, reduction.stride(), tile);
    });
  }

  // Whether `terms` of `count` sums each, which are neighbours, are many rows of few terms each.
  bool are_columns(int64_t count, int64_t terms) const {
    return format == kFloat64 && !reduction.is_columns && reduction.summed.only_stride() != 0 &&
           reduction.sum_stride == reduction.terms && reduction.terms <= 64 &&
           count * reduction.terms <= kTile && terms >= 16 * reduction.terms && terms >= 256;
  }
  // Adds up the columns of some rows from `place` on, and then the columns of each sum. Returns the
  // number of the terms of each sum.
  int64_t add_as_columns(int64_t place, int64_t count, int64_t rows, bool exactly,
                         Tile* tile) const {
    const SumKernels& kernels = sum_kernels();
    const int64_t terms = reduction.terms;
    Tile columns;
    columns.clear(up(count * terms, 8));
    {
      Flushing scope(exactly ? format : kFloat32);
      (exactly ? kernels.exact_columns : kernels.plain_columns)[format](
          x + place * bytes_of(format), count * terms, rows, reduction.summed.only_stride(),
          &columns);
    }
    for (int64_t i = 0; i < count * terms; ++i) {
      const int64_t sum = i / terms;
      const double lost = two_sum(&tile->rest[sum], two_sum(&tile->near[sum], columns.near[i]));
      const double more = two_sum(&tile->rest[sum], columns.rest[i]);
      tile->error[sum] += columns.error[i] + (std::fabs(lost) + std::fabs(more));
    }
    return rows * terms;
  }

  // Adds all terms of one sum to an accumulator: blocks of them as pairs where these are exact.
  template <typename T>
  void add_all(int64_t at, AccumulatorOf<T>* sum) const {
    const T* terms = reinterpret_cast<const T*>(x) +
                     reduction.kept.offset(at / reduction.sums) +
                     at % reduction.sums * reduction.sum_stride;
    constexpr int64_t kTerms = 256;
    T block[kTerms];
    Tile tile;
    reduction.each_run(0, reduction.terms_of_each(), [&](int64_t run, int64_t count) {
      for (int64_t first = 0; first < count; first += kTerms) {
        const int64_t n = std::min(kTerms, count - first);
        for (int64_t i = 0; i < n; ++i) block[i] = terms[run + (first + i) * reduction.term_stride];
        tile.clear(8);
        {
          Flushing scope(format);
          sum_kernels().exact_rows[format](block, 1, n, 0, &tile);
        }
        if (tile.error[0] == 0 && add_pair(tile.near[0], tile.rest[0], sum)) continue;
        for (int64_t i = 0; i < n; ++i) {
          const double term = widen(block[i]);
          if (std::is_same_v<T, double> || is_finite(term)) sum->add(term);
        }
      }
      sum->carry();
    });
  }

  // The same, of which a tile of the exact way has sum `i`.
  template <typename T>
  void accumulate(int64_t at, const Tile& tile, int64_t i, AccumulatorOf<T>* sum) const {
    if (!is_finite(tile.near[i]) && format != kFloat64) return sum->add_special(tile.near[i]);
    if (!(tile.error[i] == 0) || !add_pair(tile.near[i], tile.rest[i], sum))
      return add_all<T>(at, sum);
    sum->carry();
  }

  // The exact sum `at`, as a float64 that rounds as it does.
  double exactly(int64_t at) const {
    return with_type(format, [&](auto type) {
      AccumulatorOf<decltype(type)> sum;
      add_all<decltype(type)>(at, &sum);
      return rounded(sum);
    });
  }
};

// Rounds the sums of a tile, of which `out` has the results; decides what is in doubt.
void round_tile(const Sums& sums, int64_t first, int64_t count, Tile* tile, Format to, char* out) {
  const Decide decide = sum_kernels().decide[to];
  uint8_t in_doubt[kTile];
  if (!decide(*tile, 0, count, sums.factor(sums.is_exact), out, in_doubt)) return;
  const int64_t terms = sums.reduction.terms_of_each();
  for (int64_t i = 0; i < count;) {
    if (!in_doubt[i]) {
      ++i;
      continue;
    }
    // Sums in doubt that are near each other are added again together.
    constexpr int64_t kNear = 16;
    int64_t last = i;
    for (int64_t next = i; next < count && next <= last + kNear; ++next)
      if (in_doubt[next]) last = next;
    const int64_t n = last + 1 - i;
    char* results = out + i * bytes_of(to);
    uint8_t* still = in_doubt + i;
    Tile again;
    sums.add(first + i, n, 0, terms, true, &again);
    if (decide(again, 0, n, 1, results, still)) {
      for (int64_t k = 0; k < n; ++k) {
        if (!still[k]) continue;
        again.near[k] = sums.exactly(first + i + k);
        again.rest[k] = again.error[k] = 0;
        decide(again, k, k + 1, 1, results, still);
      }
    }
    i = last + 1;
  }
}

// The tiles of the sums, each with neighbours along the innermost kept axis.
struct Tiles {
  int64_t sums, width, of_row, number;

  explicit Tiles(const Reduction& reduction)
      : sums(reduction.sums),
        width(std::min(sums, kTile)),
        of_row(parts_of(sums, width)),
        number(reduction.results() / sums * of_row) {}
  int64_t first(int64_t tile) const { return tile / of_row * sums + tile % of_row * width; }
  int64_t count(int64_t tile) const { return std::min(width, sums - tile % of_row * width); }
};

// Adds the sums of other terms to a tile. The bits that an addition to `rest` loses count as an
// error where errors are bounds; else they are of second order (`plain_factor`).
void add_tile(const Tile& other, int64_t count, bool has_bounds, Tile* sum) {
  for (int64_t i = 0; i < count; ++i) {
    const double lost = two_sum(&sum->rest[i], two_sum(&sum->near[i], other.near[i]));
    const double more = two_sum(&sum->rest[i], other.rest[i]);
    sum->error[i] += other.error[i] + (has_bounds ? std::fabs(lost) + std::fabs(more) : 0);
  }
}

// Few sums of many terms: threads add parts of the terms, and this one adds their sums.
template <typename Done>
void each_tile_by_parts(ffi::ThreadPool& pool, const Sums& sums, const Tiles& tiles, int64_t parts,
                        const Done& done) {
  const int64_t terms = sums.reduction.terms_of_each();
  const std::unique_ptr<Tile[]> states(new Tile[static_cast<size_t>(tiles.number * parts)]);
  parallel(pool, tiles.number * parts, [&](int64_t task) {
    const int64_t tile = task / parts, part = task % parts;
    sums.add(tiles.first(tile), tiles.count(tile), terms * part / parts,
             terms * (part + 1) / parts, sums.is_exact, &states[task]);
  });
  Ieee scope;
  for (int64_t tile = 0; tile < tiles.number; ++tile) {
    Tile* sum = &states[tile * parts];
    for (int64_t part = 1; part < parts; ++part)
      add_tile(states[tile * parts + part], tiles.count(tile), sums.has_bounds(sums.is_exact), sum);
    done(tiles.first(tile), tiles.count(tile), sum);
  }
}

// Calls done(first, count, tile) for tiles that have all sums, by threads of the pool.
template <typename Done>
void each_tile(ffi::ThreadPool& pool, const Sums& sums, const Done& done) {
  const int64_t results = sums.reduction.results(), terms = sums.reduction.terms_of_each();
  if (results == 0) return;
  const Tiles tiles(sums.reduction);
  const double all = static_cast<double>(results) * static_cast<double>(terms);
  const int64_t threads = threads_of(pool, all < kFewestTerms);
  if (threads > 1 && tiles.number < 2 * threads && terms >= 2 * threads) {
    const double in_tile = all / static_cast<double>(tiles.number);
    const int64_t most = std::max<int64_t>(1, static_cast<int64_t>(in_tile / kFewestPart));
    // More parts than threads: one thread may start late, or be slowed by other programs.
    const int64_t wanted = parts_of(4 * threads, tiles.number);
    each_tile_by_parts(pool, sums, tiles, std::min({wanted, most, terms}), done);
    return;
  }
  const double tiles_of_task = kTaskTerms * (static_cast<double>(tiles.number) / (all + 1));
  const int64_t together =
      threads == 1 ? tiles.number : std::max<int64_t>(1, static_cast<int64_t>(tiles_of_task));
  parallel(pool, parts_of(tiles.number, together), [&](int64_t task) {
    Tile state;
    const int64_t last = std::min(tiles.number, (task + 1) * together);
    for (int64_t tile = task * together; tile < last; ++tile) {
      sums.add(tiles.first(tile), tiles.count(tile), 0, terms, sums.is_exact, &state);
      done(tiles.first(tile), tiles.count(tile), &state);
    }
  });
}

// `results` is the size of the arrays of results, which may be longer.
ffi::Error check(const ffi::AnyBuffer& x, ffi::Span<const int64_t> sizes, int64_t results) {
  if (format_of(x) == kFormats || !Reduction::has(sizes))
    return ffi::Error::InvalidArgument("samebits: a reduction of such an array is not compiled");
  const Reduction reduction(sizes);
  if (static_cast<int64_t>(x.element_count()) != reduction.results() * reduction.terms_of_each() ||
      results < reduction.results())
    return ffi::Error::InvalidArgument("samebits: the sizes do not fit the arrays");
  return ffi::Error::Success();
}

ffi::Error reduce(ffi::ThreadPool pool, ffi::AnyBuffer x, ffi::Result<ffi::AnyBuffer> result,
                  ffi::Span<const int64_t> sizes) {
  if (ffi::Error error = check(x, sizes, result->element_count()); error.failure()) return error;
  const Format to = format_of(*result);
  if (to == kFormats || (to == kFloat64) != (format_of(x) == kFloat64))
    return ffi::Error::InvalidArgument("samebits: no such result");
  const Sums sums(sizes, x);
  char* out = static_cast<char*>(result->untyped_data());
  each_tile(pool, sums, [&](int64_t first, int64_t count, Tile* tile) {
    round_tile(sums, first, count, tile, to, out + first * bytes_of(to));
  });
  return ffi::Error::Success();
}

// The sums of all `parts` devices are added in float64, each of them in parts - 1 roundings at
// most. With s a sum here, the error is at most of_chain(parts - 1) times the sum of all abs(s)
// (Higham 2002, section 4.2), so each device adds its share to its bound. The bounds are added with
// a relative error that `is_decided` allows.
ffi::Error reduce_bounds(ffi::ThreadPool pool, ffi::AnyBuffer x, SumsOfDevices to_sums,
                         ErrorsOfDevices to_errors, ffi::Span<const int64_t> sizes,
                         int64_t parts) {
  if (ffi::Error error = check(x, sizes, to_sums->element_count()); error.failure()) return error;
  const Sums sums(sizes, x);
  const Bounds bounds(to_sums, to_errors, parts);
  const double factor = sums.factor(sums.is_exact);
  const double slack = of_chain(static_cast<double>(parts - 1));
  each_tile(pool, sums, [&](int64_t first, int64_t count, Tile* tile) {
    for (int64_t i = 0; i < count; ++i) {
      double near = tile->near[i];
      const double rest = two_sum(&near, tile->rest[i]);
      const bool has_sum = is_finite(tile->near[i]);
      const double value = has_sum ? near : tile->near[i];
      const double error = tile->error[i] * factor + std::fabs(rest) + std::fabs(value) * slack;
      bounds.put(first + i, value, has_sum ? error : 0);
    }
  });
  return ffi::Error::Success();
}

ffi::Error reduce_state(ffi::ThreadPool pool, States::Level level, States::Words before,
                        ffi::AnyBuffer x, States::Result after, ffi::Span<const int64_t> sizes) {
  const States states(before, after);
  if (ffi::Error error = check(x, sizes, states.count()); error.failure()) return error;
  Sums sums(sizes, x);
  sums.is_exact = true;
  const int64_t of = *level.typed_data();
  each_tile(pool, sums, [&](int64_t first, int64_t count, Tile* tile) {
    if (of < 0) {
      for (int64_t i = 0; sums.format == kFloat64 && i < count; ++i) {
        if (is_finite(tile->near[i])) continue;
        SumOfDoubles sum;
        sums.add_all<double>(first + i, &sum);
        sum.as_state(tile->near + i, tile->rest + i, tile->error + i);
      }
      return states.add(first, count, tile->near, tile->rest, tile->error);
    }
    with_type(sums.format, [&](auto type) {
      for (int64_t i = 0; i < count; ++i) {
        AccumulatorOf<decltype(type)> sum;
        sums.accumulate<decltype(type)>(first + i, *tile, i, &sum);
        states.add_level<decltype(sum)>(first + i, of, sum.digit);
      }
    });
  });
  return ffi::Error::Success();
}

ffi::Error reduce_digits(ffi::ThreadPool pool, ffi::Buffer<ffi::S64> positions, ffi::AnyBuffer x,
                         ffi::Result<ffi::Buffer<ffi::S64>> digits,
                         ffi::Span<const int64_t> sizes) {
  const int64_t results = Reduction::has(sizes) ? Reduction(sizes).results() : 0;
  if (ffi::Error error = check(x, sizes, results); error.failure()) return error;
  const Reduction reduction(sizes);
  const int64_t count = static_cast<int64_t>(positions.element_count());
  Sums sums(sizes, x);
  const int64_t* position = positions.typed_data();
  return with_type(sums.format, [&](auto type) {
    using T = decltype(type);
    constexpr int64_t kDigits = AccumulatorOf<T>::kDigits;
    if (static_cast<int64_t>(digits->element_count()) != count * kDigits)
      return ffi::Error::InvalidArgument("samebits: the digits do not fit the positions");
    auto put = [&](int64_t at, const AccumulatorOf<T>& sum) {
      std::memcpy(digits->typed_data() + at * kDigits, sum.digit, sizeof sum.digit);
    };
    bool are_all = count == reduction.results();
    for (int64_t i = 0; are_all && i < count; ++i) are_all = position[i] == i;
    if (are_all) {
      sums.is_exact = true;
      each_tile(pool, sums, [&](int64_t first, int64_t n, Tile* tile) {
        for (int64_t i = 0; i < n; ++i) {
          AccumulatorOf<T> sum;
          sums.accumulate<T>(first + i, *tile, i, &sum);
          put(first + i, sum);
        }
      });
      return ffi::Error::Success();
    }
    // A task has positions of at least kTaskTerms terms.
    const int64_t together =
        std::max<int64_t>(1, kTaskTerms / std::max<int64_t>(1, reduction.terms_of_each()));
    parallel(pool, parts_of(count, together), [&](int64_t task) {
      for (int64_t i = task * together; i < std::min(count, (task + 1) * together); ++i) {
        AccumulatorOf<T> sum;
        if (position[i] >= 0 && position[i] < reduction.results())
          sums.add_all<T>(position[i], &sum);
        put(i, sum);
      }
    });
    return ffi::Error::Success();
  });
}

}  // namespace
}  // namespace samebits

SAMEBITS_CALL(samebits_reduce, samebits::reduce,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::AnyBuffer>()
                  .Attr<xla::ffi::Span<const int64_t>>("sizes"));
SAMEBITS_CALL(samebits_reduce_bounds, samebits::reduce_bounds,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::Buffer<xla::ffi::F64>>()
                  .Ret<xla::ffi::Buffer<xla::ffi::F32>>()
                  .Attr<xla::ffi::Span<const int64_t>>("sizes")
                  .Attr<int64_t>("parts"));
SAMEBITS_CALL(samebits_reduce_digits, samebits::reduce_digits,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<xla::ffi::Buffer<xla::ffi::S64>>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<xla::ffi::Buffer<xla::ffi::S64>>()
                  .Attr<xla::ffi::Span<const int64_t>>("sizes"));
SAMEBITS_CALL(samebits_reduce_state, samebits::reduce_state,
              xla::ffi::Ffi::Bind()
                  .Ctx<xla::ffi::ThreadPool>()
                  .Arg<samebits::States::Level>()
                  .Arg<samebits::States::Words>()
                  .Arg<xla::ffi::AnyBuffer>()
                  .Ret<samebits::States::Words>()
                  .Attr<xla::ffi::Span<const int64_t>>("sizes"));

// The inner loops of window sums of float64 that share their parts; see windows_grid.h and lanes.h.

#include "windows_grid.h"

#include <utility>

#include "lanes.h"

namespace samebits {
namespace {

// The sums of the high parts and of the low parts at the places of a tile. Vectors at the end have
// zeros behind the places.
struct Parts {
  alignas(64) double high[kPlaces + 4 * kLanes], low[kPlaces + 4 * kLanes];
};

// The greatest magnitude of the rows, NaN apart. Rows of zeros are taken from the list.
double greatest(const GridTile& tile, const double** rows, int64_t* number) {
  const int64_t count = tile.elements * tile.block;
  Doubles all{};
  *number = 0;
  for (int64_t row = 0; row < tile.number; ++row) {
    const double* x = tile.rows[row];
    Doubles most[2] = {};
    Longs bits{};
    auto add = [&](int k, Doubles terms) {
      most[k] = greater(most[k], terms);
      bits |= reinterpret_cast<Longs>(terms);
    };
    int64_t i = 0;
    for (; i + 2 * kLanes <= count; i += 2 * kLanes)
      for (int k = 0; k < 2; ++k) add(k, load_flushed(x + i + k * kLanes));
    for (; i + kLanes <= count; i += kLanes) add(0, load_flushed(x + i));
    if (i < count)
      add(1, count < kLanes ? load_some(x, count) : load_flushed(x + count - kLanes));
    // No bit but signs.
    if (!any_of(bits << 1)) continue;
    all = greater(all, greater(most[0], most[1]));
    rows[(*number)++] = x;
  }
  double most = 0;
  for (int lane = 0; lane < kLanes; ++lane) most = all[lane] > most ? all[lane] : most;
  return most;
}

// Splits the terms of rows and adds the rows up. Returns whether a term is more than its two parts.
bool split(const double* const* rows, int64_t number, int64_t count, Doubles high, Doubles low,
           Parts* sums) {
  Longs lost{};
  auto add = [&](int64_t i, auto load_one) {
    Coarse<Doubles> first = {high}, second = {low};
    for (int64_t row = 0; row < number; ++row)
      lost |= reinterpret_cast<Longs>(magnitude(
          second.add_high(first.add_high(load_one(rows[row] + i)))));
    store_as(first.high - high, sums->high + i);
    store_as(second.high - low, sums->low + i);
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    add(i, [](const double* at) { return load_flushed(at); });
  if (i < count) add(i, [&](const double* at) { return load_some(at, count - i); });
  return any_of(lost);
}

// Moves `count` blocks to the places that a tile has for them, and zeros to the others.
void spread(const GridTile& tile, double* sums) {
  const int64_t size = tile.block, count = tile.elements * size;
  double* end = sums + tile.places * size;
  if (tile.dilation == 1) {
    const int64_t begin = tile.before * size;
    if (begin > 0) std::memmove(sums + begin, sums, static_cast<size_t>(count) * 8);
    std::fill(sums, sums + begin, 0.0);
    std::fill(sums + begin + count, end + 4 * kLanes, 0.0);
    return;
  }
  alignas(64) double blocks[kPlaces];
  std::memcpy(blocks, sums, static_cast<size_t>(count) * 8);
  std::fill(sums, end + 4 * kLanes, 0.0);
  for (int64_t k = 0; k < tile.elements; ++k)
    for (int64_t i = 0; i < size; ++i)
      sums[(tile.before + k * tile.dilation) * size + i] = blocks[k * size + i];
}

// Rounds sums high + low within an error, a vector at a time.
class Rounding {
 public:
  Rounding(double error, double* out) : error_(error), out_(out) {}

  bool has_doubts() const { return any_of(differ_); }

  // The sums of windows from i on; `left` windows are left.
  SAMEBITS_INLINE void put(Doubles high, Doubles low, int64_t i, int64_t left) {
    Doubles value = high + low;
    if (error_ > 0) {
      const Doubles wide = magnitude(low) * 0x1p-52 + error_;
      const Doubles least = high + (low - wide), most = high + (low + wide);
      const Longs is_nan = value != value;
      Longs differ = (reinterpret_cast<Longs>(least) ^ reinterpret_cast<Longs>(most)) & ~is_nan;
      for (int64_t lane = left; lane < kLanes; ++lane) differ[lane] = 0;
      differ_ |= differ;
      value = chosen(is_nan, reinterpret_cast<Doubles>(Longs{} + 0x7ff8000000000000ll), least);
    }
    if (left >= kLanes) return store_as(value, out_ + i);
    std::memcpy(out_ + i, &value, static_cast<size_t>(left) * 8);
  }

 private:
  double error_;
  double* out_;
  Longs differ_{};
};

// Adds the taps of `count` sums, load(array, tap, i) those of sums from i on.
template <typename Load>
SAMEBITS_INLINE void add_taps(const Parts& sums, int64_t taps, int64_t from, int64_t count,
                              Rounding* out, const Load& load) {
  auto add = [&](auto vectors, int64_t i) {
    constexpr int kVectors = decltype(vectors)::value;
    Doubles high[kVectors], low[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      high[v] = load(sums.high, 0, i + v * kLanes);
      low[v] = load(sums.low, 0, i + v * kLanes);
    }
    for (int64_t tap = 1; tap < taps; ++tap) {
      for (int v = 0; v < kVectors; ++v) {
        high[v] += load(sums.high, tap, i + v * kLanes);
        low[v] += load(sums.low, tap, i + v * kLanes);
      }
    }
    for (int v = 0; v < kVectors; ++v)
      out->put(high[v], low[v], from + i + v * kLanes, count - i - v * kLanes);
  };
  int64_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) add(std::integral_constant<int, 2>(), i);
  for (; i < count; i += kLanes) add(std::integral_constant<int, 1>(), i);
}

// The same by sums of 1, 2, 4, ... taps, of which `window` is the sum: 7 = 1 + 2 + 4. The last of
// them is added by `add_taps`.
void add_powers(const GridTile& tile, Parts* sums, Rounding* out) {
  const int64_t count = tile.windows * tile.block, apart = tile.apart * tile.block;
  int64_t end = tile.places * tile.block;
  Parts total;
  for (double* part : {total.high, total.low}) std::fill(part, part + up(count, kLanes), 0.0);
  int64_t offset = 0;
  for (int64_t power = 1; power <= tile.window; power *= 2) {
    for (auto [of, part] : {std::pair(total.high, sums->high), std::pair(total.low, sums->low)}) {
      if ((tile.window & power) != 0)
        for (int64_t i = 0; i < count; i += kLanes)
          store_as(load_as<Doubles>(of + i) + load_as<Doubles>(part + offset + i), of + i);
      // What lies behind `end` has no meaning any more, and no window has it.
      for (int64_t i = 0; i + power * apart < end; i += kLanes)
        store_as(load_as<Doubles>(part + i) + load_as<Doubles>(part + i + power * apart), part + i);
    }
    if ((tile.window & power) != 0) offset += power * apart;
    end -= power * apart;
  }
  for (int64_t i = 0; i < count; i += kLanes)
    out->put(load_as<Doubles>(total.high + i), load_as<Doubles>(total.low + i), i, count - i);
}

// Adds the places of windows of stride 1: all sums of a tile are neighbours.
void add_neighbours(const GridTile& tile, Parts* sums, Rounding* out) {
  if (tile.window > 8) return add_powers(tile, sums, out);
  const int64_t apart = tile.apart * tile.block;
  add_taps(*sums, tile.window, 0, tile.windows * tile.block, out,
           [&](const double* of, int64_t tap, int64_t i) {
             return load_as<Doubles>(of + tap * apart + i);
           });
}

// Adds the places of windows that are `stride` blocks apart.
void add_apart(const GridTile& tile, const Parts& sums, Rounding* out) {
  const int64_t apart = tile.apart * tile.block, stride = tile.stride * tile.block;
  if (tile.block >= kLanes) {
    for (int64_t window = 0; window < tile.windows; ++window)
      add_taps(sums, tile.window, window * tile.block, tile.block, out,
               [&](const double* of, int64_t tap, int64_t i) {
                 return load_as<Doubles>(of + window * stride + tap * apart + i);
               });
    return;
  }
  const int64_t count = tile.windows * tile.block;
  add_taps(sums, tile.window, 0, count, out, [&](const double* of, int64_t tap, int64_t i) {
    Doubles terms{};
    const double* from = of + tap * apart;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int64_t at = i + lane;
      const int64_t place = tile.block == 1 ? at * stride
                                            : at / tile.block * stride + at % tile.block;
      terms[lane] = at < count ? from[place] : 0;
    }
    return terms;
  });
}

bool sum_grid(const GridTile& tile, double* out) {
  const double* rows[kMostTaps];
  int64_t number;
  // No number here is subnormal but the terms: the parts are multiples of 2**-950 or greater.
  Flushing scope(kFloat32);
  const double most = greatest(tile, rows, &number);
  const int64_t sums = tile.windows * tile.block, terms = tile.number * tile.window;
  if (number == 0) {
    std::fill(out, out + sums, 0.0);
    return true;
  }
  if (!(most >= 0x1p-800 && most <= 0x1p900)) return false;
  const Start start(terms, log2_above(terms), terms);
  const Doubles all = Doubles{} + most, high = start.high(all), low = start.second(all);
  Parts parts;
  const bool lost = split(rows, number, tile.elements * tile.block, high, low, &parts);
  for (double* part : {parts.high, parts.low}) spread(tile, part);
  // Each term loses at most half of a unit of `low`, and `error` counts far less of that unit.
  const double unit = low[0] * 0x1p-52;
  Rounding rounding(lost ? unit * static_cast<double>(terms) : 0, out);
  if (tile.stride == 1) {
    add_neighbours(tile, &parts, &rounding);
  } else {
    add_apart(tile, parts, &rounding);
  }
  return !rounding.has_doubts();
}

}  // namespace

SAMEBITS_TABLE(GridKernels, grid_kernels) = {sum_grid};

}  // namespace samebits

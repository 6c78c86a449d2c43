#include "products_plan.h"

#include <algorithm>
#include <numeric>

namespace samebits {
namespace {

// An axis of the terms, which both factors have.
struct TermAxis {
  int64_t size;
  int64_t lhs;
  int64_t rhs;
  int edge = -1;
  int64_t step = 0;
};

// Inner runs shorter than this are copied element by element.
constexpr int64_t kShort = 8;

int64_t product_of(const Axes& axes) {
  int64_t product = 1;
  for (const Axis& axis : axes) product *= axis.size;
  return product;
}

// Joins neighbours that are one axis in memory, and leaves axes of one element out.
void join(Axes* axes) {
  Axes joined;
  for (const Axis& axis : *axes) {
    if (axis.size == 1) continue;
    Axis* outer = joined.empty() ? nullptr : &joined.back();
    const bool fit = outer != nullptr && outer->edge < 0 && axis.edge < 0 &&
                     outer->stride == axis.size * axis.stride &&
                     outer->result == axis.size * axis.result;
    if (fit) {
      *outer = {outer->size * axis.size, axis.stride, axis.result};
    } else {
      joined.push_back(axis);
    }
  }
  *axes = joined;
}

void join(std::vector<TermAxis>* axes) {
  std::vector<TermAxis> joined;
  for (const TermAxis& axis : *axes) {
    if (axis.size == 1) continue;
    TermAxis* outer = joined.empty() ? nullptr : &joined.back();
    const bool fit = outer != nullptr && outer->edge < 0 && axis.edge < 0 &&
                     outer->lhs == axis.size * axis.lhs && outer->rhs == axis.size * axis.rhs;
    if (fit) {
      *outer = {outer->size * axis.size, axis.lhs, axis.rhs};
    } else {
      joined.push_back(axis);
    }
  }
  *axes = joined;
}

Inner inner_of(const Axes& axes) {
  Inner inner;
  if (axes.empty()) return inner;
  const Axis& last = axes.back();
  inner = {last.size, last.stride, 1, last.step, last.edge};
  if (last.edge < 0 && axes.size() > 1) {
    const Axis& next = axes[axes.size() - 2];
    if (next.edge >= 0 && next.stride == last.size * last.stride)
      inner = {last.size * next.size, last.stride, last.size, next.step, next.edge};
  }
  return inner;
}

// Chooses the innermost axes that are copied in runs: those whose elements are neighbours.
void choose_runs(Factor* factor, bool prefers_terms) {
  factor->inner_free = inner_of(factor->free);
  factor->inner_terms = inner_of(factor->terms);
  auto worth = [](const Inner& inner, bool is_preferred) {
    const int64_t length = std::min(inner.length, kShort);
    return (inner.stride == 1 ? 4 * length : length) * 2 + (is_preferred ? 1 : 0);
  };
  // Lines of few terms are read across.
  const bool have_few_terms = factor->format == kFloat64 && product_of(factor->terms) <= kFewTerms &&
                              factor->inner_free.length >= kShort;
  factor->runs_along_terms =
      !have_few_terms &&
      worth(factor->inner_terms, prefers_terms) > worth(factor->inner_free, !prefers_terms);
}

// Drops the edges that no window crosses.
void drop_inner_edges(Factor* factor, std::vector<TermAxis>* terms) {
  int number[kEdges];
  Edges edges;
  Place first = factor->first;
  for (int e = 0; e < factor->edges.count; ++e) {
    int64_t least = factor->first.position[e], most = least;
    for (const Axis& axis : factor->free)
      if (axis.edge == e) most += (axis.size - 1) * axis.step;
    for (const TermAxis& axis : *terms)
      if (axis.edge == e) most += (axis.size - 1) * axis.step;
    const bool is_crossed = least < 0 || most >= factor->edges.size[e];
    number[e] = is_crossed ? edges.count : -1;
    if (!is_crossed) continue;
    first.position[edges.count] = factor->first.position[e];
    edges.size[edges.count++] = factor->edges.size[e];
  }
  for (int e = edges.count; e < kEdges; ++e) first.position[e] = 0;
  for (Axis& axis : factor->free)
    if (axis.edge >= 0) axis.edge = number[axis.edge];
  for (TermAxis& axis : *terms)
    if (axis.edge >= 0) axis.edge = number[axis.edge];
  factor->edges = edges;
  factor->first = first;
}

// Completes a product whose factor `rows` is lhs: simpler axes, and the sides of the factors.
LineProduct finished(LineProduct product, std::vector<TermAxis> terms) {
  drop_inner_edges(&product.rows, &terms);
  std::stable_sort(terms.begin(), terms.end(), [](const TermAxis& a, const TermAxis& b) {
    return a.lhs != b.lhs ? a.lhs > b.lhs : a.rhs > b.rhs;
  });
  join(&terms);
  product.terms = 1;
  for (const TermAxis& axis : terms) {
    product.rows.terms.push_back({axis.size, axis.lhs, 0, axis.edge, axis.step});
    product.columns.terms.push_back({axis.size, axis.rhs, 0});
    product.terms *= axis.size;
  }
  // Axes with an edge of the image may still be one axis of the kernel.
  join(&product.rows.terms);
  join(&product.columns.terms);
  for (const BatchAxis& axis : product.batch) product.batches *= axis.size;
  product.row_count = product_of(product.rows.free);
  product.column_count = product_of(product.columns.free);
  // The columns are neighbours in the result, unless they are few.
  auto is_dense = [](const Factor& factor) {
    return std::any_of(factor.free.begin(), factor.free.end(),
                       [](const Axis& axis) { return axis.size > 1 && axis.result == 1; });
  };
  const bool are_few =
      product.column_count <= kFewRows && product.row_count > product.column_count;
  const int64_t lanes = product_kernels().columns / 2;
  const bool have_dense_rows = is_dense(product.rows) && product.row_count >= lanes;
  if (are_few || (have_dense_rows && product.row_count > kFewRows)) {
    std::swap(product.rows, product.columns);
    std::swap(product.row_count, product.column_count);
    for (BatchAxis& axis : product.batch) std::swap(axis.rows, axis.columns);
  }
  std::stable_sort(product.rows.free.begin(), product.rows.free.end(),
                   [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
  std::stable_sort(product.columns.free.begin(), product.columns.free.end(),
                   [](const Axis& a, const Axis& b) { return a.result > b.result; });
  join(&product.rows.free);
  join(&product.columns.free);
  choose_runs(&product.rows, true);
  choose_runs(&product.columns, false);
  const Factor& columns = product.columns;
  const Inner& inner = columns.runs_along_terms ? columns.inner_terms : columns.inner_free;
  product.has_few_rows = product.row_count <= kFewRows && inner.stride == 1 &&
                         (columns.runs_along_terms || columns.edges.count == 0);
  if (product.has_few_rows) product.rows.runs_along_terms = true;
  return product;
}

// The results of one spatial dimension that meet the same taps.
struct Residue {
  int64_t results, first_result, result_step;
  int64_t taps, first_tap, tap_step;
  int64_t position, per_result, per_tap;
};

// The tap t of the result o is at the position o * stride + t * (dilation of the kernel) - padding
// of a dilated image; it meets an element where the dilation of the image divides that.
std::vector<Residue> residues(const int64_t* window) {
  const int64_t taps = window[2], results = window[4];
  const int64_t stride = window[6], padding = window[7], image = window[8], kernel = window[9];
  const int64_t result_step = image / std::gcd(stride, image);
  const int64_t tap_step = image / std::gcd(kernel, image);
  std::vector<Residue> found;
  for (int64_t first = 0; first < std::min(result_step, results); ++first) {
    Residue each{};
    each.results = (results - first + result_step - 1) / result_step;
    each.first_result = first;
    each.result_step = result_step;
    each.tap_step = tap_step;
    each.per_result = result_step * stride / image;
    each.per_tap = tap_step * kernel / image;
    for (int64_t tap = 0; tap < std::min(tap_step, taps); ++tap) {
      const int64_t position = first * stride + tap * kernel - padding;
      if (position % image != 0) continue;
      each.first_tap = tap;
      each.taps = (taps - tap + tap_step - 1) / tap_step;
      each.position = position / image;
      break;
    }
    found.push_back(each);
  }
  return found;
}

}  // namespace

void Factor::places(bool of_terms, int64_t begin, int64_t count, int64_t offset,
                    std::vector<Place>* to) const {
  const Axes& axes = of_terms ? terms : free;
  to->resize(static_cast<size_t>(count));
  if (count == 0) return;
  Place at = of_terms ? term(begin) : line(begin);
  at.offset += offset;
  if (axes.empty()) {
    to->front() = at;
    return;
  }
  std::vector<int64_t> index(axes.size());
  for (size_t i = axes.size(); i-- > 0; begin /= axes[i].size) index[i] = begin % axes[i].size;
  Place* place = to->data();
  for (Place* end = place + count; place < end;) {
    // The places along the innermost axis but its last one.
    const Axis inner = axes.back();
    const int64_t more = std::min<int64_t>(inner.size - 1 - index.back(), end - place);
    int64_t steps[kEdges] = {};
    if (inner.edge >= 0) steps[inner.edge] = inner.step;
    // An element at a time: a copy of `at` would wait for what was written to it last.
    for (int64_t k = 0; k < more; ++k, ++place) {
      place->offset = at.offset + k * inner.stride;
      place->result = at.result + k * inner.result;
      for (int e = 0; e < kEdges; ++e) place->position[e] = at.position[e] + k * steps[e];
    }
    at.offset += more * inner.stride;
    at.result += more * inner.result;
    for (int e = 0; e < kEdges; ++e) at.position[e] += more * steps[e];
    if (place == end) break;
    index.back() += more;
    *place++ = at;
    for (size_t i = axes.size(); i-- > 0;) {
      const Axis& axis = axes[i];
      const int64_t moves = ++index[i] < axis.size ? 1 : 1 - axis.size;
      at.offset += moves * axis.stride;
      at.result += moves * axis.result;
      if (axis.edge >= 0) at.position[axis.edge] += moves * axis.step;
      if (moves == 1) break;
      index[i] = 0;
    }
  }
}

Place Factor::place(const Axes& axes, int64_t index, Place from) {
  for (size_t i = axes.size(); i-- > 0 && index != 0;) {
    const Axis& axis = axes[i];
    const int64_t above = i == 0 ? 0 : index / axis.size;
    const int64_t at = index - above * axis.size;
    from.offset += at * axis.stride;
    from.result += at * axis.result;
    if (axis.edge >= 0) from.position[axis.edge] += at * axis.step;
    index = above;
  }
  return from;
}

int64_t Factor::runs(bool along_terms, int64_t begin, int64_t count, int64_t offset,
                     Run* to) const {
  const Inner& inner = along_terms ? inner_terms : inner_free;
  int64_t number = 0;
  for (int64_t at = 0; at < count;) {
    const int64_t inside = (begin + at) % inner.length;
    const int64_t length = std::min(inner.length - inside, count - at);
    Run* run = to + number++;
    run->place = along_terms ? term(begin + at) : line(begin + at);
    run->place.offset += offset;
    run->at = at;
    run->length = length;
    run->phase = inside % inner.unit;
    at += length;
  }
  return number;
}

std::vector<LineProduct> plan(const Attributes& attributes, Operand lhs, Operand rhs) {
  LineProduct product;
  product.rows.data = lhs.data;
  product.rows.format = lhs.format;
  product.columns.data = rhs.data;
  product.columns.operand = 1;
  product.columns.format = rhs.format;
  product.elements = lhs.elements + rhs.elements;
  std::vector<TermAxis> terms;
  const auto& [batch, lines, columns, sums, window, _] = attributes;
  for (size_t i = 0; i + 3 < batch.size(); i += 4)
    product.batch.push_back({batch[i], batch[i + 1], batch[i + 2], batch[i + 3]});
  for (size_t i = 0; i + 2 < lines.size(); i += 3)
    product.rows.free.push_back({lines[i], lines[i + 1], lines[i + 2]});
  for (size_t i = 0; i + 2 < columns.size(); i += 3)
    product.columns.free.push_back({columns[i], columns[i + 1], columns[i + 2]});
  for (size_t i = 0; i + 2 < sums.size(); i += 3)
    terms.push_back({sums[i], sums[i + 1], sums[i + 2]});
  struct Sum {
    LineProduct product;
    std::vector<TermAxis> terms;
  };
  std::vector<Sum> products{{product, terms}};
  for (size_t d = 0; 10 * d < window.size(); ++d) {
    const int64_t* at = window.data() + 10 * d;
    std::vector<Sum> next;
    const int edge = static_cast<int>(d);
    for (const Residue& residue : residues(at))
      for (Sum each : products) {
        Factor& image = each.product.rows;
        image.edges.count = edge + 1;
        image.edges.size[edge] = at[0];
        image.first.position[edge] = residue.position;
        image.first.offset += residue.position * at[1];
        image.first.result += residue.first_result * at[5];
        each.product.columns.first.offset += residue.first_tap * at[3];
        image.free.push_back({residue.results, residue.per_result * at[1],
                              residue.result_step * at[5], edge, residue.per_result});
        each.terms.push_back({residue.taps, residue.per_tap * at[1], residue.tap_step * at[3], edge,
                              residue.per_tap});
        next.push_back(each);
      }
    products = next;
  }
  std::vector<LineProduct> finished_products;
  for (const Sum& each : products)
    finished_products.push_back(finished(each.product, each.terms));
  return finished_products;
}

BatchPlace batch_place(const LineProduct& product, int64_t index) {
  BatchPlace place;
  for (size_t i = product.batch.size(); i-- > 0 && index != 0;) {
    const BatchAxis& axis = product.batch[i];
    const int64_t above = i == 0 ? 0 : index / axis.size;
    const int64_t at = index - above * axis.size;
    place.rows += at * axis.rows;
    place.columns += at * axis.columns;
    place.result += at * axis.result;
    index = above;
  }
  return place;
}

bool find(const LineProduct& product, int64_t position, ResultIndex* index) {
  struct Digit {
    int64_t stride, size, factor;
    int64_t* to;
  };
  std::vector<Digit> digits;
  *index = {0, 0, 0};
  int64_t factor = 1;
  for (size_t i = product.batch.size(); i-- > 0; factor *= product.batch[i].size)
    digits.push_back({product.batch[i].result, product.batch[i].size, factor, &index->batch});
  auto add = [&](const Axes& axes, int64_t* to) {
    int64_t of_axis = 1;
    for (size_t i = axes.size(); i-- > 0; of_axis *= axes[i].size)
      digits.push_back({axes[i].result, axes[i].size, of_axis, to});
  };
  add(product.rows.free, &index->row);
  add(product.columns.free, &index->column);
  std::sort(digits.begin(), digits.end(),
            [](const Digit& a, const Digit& b) { return a.stride > b.stride; });
  int64_t rest = position - product.rows.first.result - product.columns.first.result;
  for (const Digit& digit : digits) {
    if (digit.size == 1) continue;
    const int64_t at = rest / digit.stride;
    if (rest < 0 || at >= digit.size) return false;
    *digit.to += at * digit.factor;
    rest -= at * digit.stride;
  }
  return rest == 0;
}

KernelLines kernel_lines(const Attributes& attributes, Operand kernel) {
  KernelLines lines;
  lines.kernel.data = kernel.data;
  lines.kernel.format = kernel.format;
  const auto& [batch, images, columns, terms, window, _] = attributes;
  for (size_t i = 0; i + 3 < batch.size(); i += 4)
    lines.batch.free.push_back({batch[i], batch[i + 2], batch[i + 3]});
  for (size_t i = 0; i + 2 < images.size(); i += 3)
    lines.result.free.push_back({images[i], 0, images[i + 2]});
  for (size_t i = 0; i + 2 < columns.size(); i += 3)
    lines.kernel.free.push_back({columns[i], columns[i + 1], columns[i + 2]});
  for (size_t i = 0; i + 2 < terms.size(); i += 3)
    lines.kernel.terms.push_back({terms[i], terms[i + 2], 0});
  for (size_t i = 0; i + 9 < window.size(); i += 10) {
    lines.kernel.terms.push_back({window[i + 2], window[i + 3], 0});
    lines.result.free.push_back({window[i + 4], 0, window[i + 5]});
  }
  lines.kernel.inner_terms = inner_of(lines.kernel.terms);
  lines.batches = product_of(lines.batch.free);
  lines.columns = product_of(lines.kernel.free);
  lines.results = product_of(lines.result.free);
  return lines;
}

}  // namespace samebits

"""Strategies that draw a call of each op: shapes, dimensions, dtypes and duplicate indices."""

import math

import numpy as np
from hypothesis import strategies as st
from jax.experimental.sparse import BCOO, BCSR

from conformance.adapters.base import resolve
from conformance.tests._drawn import (
    FLOATS,
    REDUCTIONS,
    Drawn,
    fold,
    in_lane,
    indices,
    numbers,
    over_lanes,
    reduced,
)
from spec import oracles


@st.composite
def index_add(draw):
    shape, dim, source_shape, index, seed = draw(indices())
    dtype = draw(st.sampled_from([*FLOATS, np.int32]))
    x, s, i = (
        numbers(seed, shape, dtype),
        numbers(seed + 1, source_shape, dtype),
        in_lane(index, dim),
    )
    expected = fold(x, dim, over_lanes(i, dim, source_shape), s)
    return Drawn(lambda ns, x, i, s: ns.index_add(x, dim, i, s), (x, i, s), expected)


@st.composite
def index_copy(draw):
    shape, dim, source_shape, index, seed = draw(indices())
    x, s, i = (
        numbers(seed, shape, np.float32),
        numbers(seed + 1, source_shape, np.float32),
        in_lane(index, dim),
    )
    expected = fold(x, dim, over_lanes(i, dim, source_shape), s, "assign")
    return Drawn(lambda ns, x, i, s: ns.index_copy(x, dim, i, s), (x, i, s), expected, racy=True)


@st.composite
def index_reduce(draw):
    shape, dim, source_shape, index, seed = draw(indices())
    reduce = draw(st.sampled_from(["prod", "mean", "amax", "amin"]))
    include_self = draw(st.booleans())
    dtype = draw(st.sampled_from([*FLOATS, np.int32]))
    combine = REDUCTIONS[reduce]
    x, s = numbers(seed, shape, dtype, combine), numbers(seed + 1, source_shape, dtype, combine)
    i = in_lane(index, dim)
    expected = reduced(x, dim, over_lanes(i, dim, source_shape), s, reduce, include_self)
    return Drawn(
        lambda ns, x, i, s: ns.index_reduce(x, dim, i, s, reduce, include_self=include_self),
        (x, i, s),
        expected,
    )


@st.composite
def scatter_add(draw):
    shape, dim, source_shape, index, seed = draw(indices())
    dtype = draw(st.sampled_from([*FLOATS, np.int32]))
    x, s = numbers(seed, shape, dtype), numbers(seed + 1, source_shape, dtype)
    expected = fold(x, dim, index, s)
    return Drawn(lambda ns, x, i, s: ns.scatter_add(x, dim, i, s), (x, index, s), expected)


@st.composite
def scatter(draw):
    shape, dim, source_shape, index, seed = draw(indices())
    reduce = draw(st.sampled_from([None, "add", "multiply"]))
    combine = {None: "assign", "add": "add", "multiply": "mul"}[reduce]
    dtype = draw(st.sampled_from(FLOATS))
    x, s = numbers(seed, shape, dtype, combine), numbers(seed + 1, source_shape, dtype, combine)
    options = {} if reduce is None else {"reduce": reduce}
    expected = fold(x, dim, index, s, combine)
    return Drawn(
        lambda ns, x, i, s: ns.scatter(x, dim, i, s, **options),
        (x, index, s),
        expected,
        racy=reduce is None,
    )


@st.composite
def scatter_reduce(draw):
    shape, dim, source_shape, index, seed = draw(indices())
    reduce = draw(st.sampled_from(list(REDUCTIONS)))
    include_self = draw(st.booleans())
    dtype = draw(st.sampled_from([*FLOATS, np.int32]))
    combine = REDUCTIONS[reduce]
    x, s = numbers(seed, shape, dtype, combine), numbers(seed + 1, source_shape, dtype, combine)
    expected = reduced(x, dim, index, s, reduce, include_self)
    return Drawn(
        lambda ns, x, i, s: ns.scatter_reduce(x, dim, i, s, reduce, include_self=include_self),
        (x, index, s),
        expected,
    )


@st.composite
def put(draw):
    shape, _, source_shape, index, seed = draw(indices(most=3))
    size = int(np.prod(shape))
    accumulate = draw(st.booleans())
    x, s = numbers(seed, shape, np.float32), numbers(seed + 1, source_shape, np.float32)
    index = np.random.default_rng(seed).integers(-size, size, source_shape)
    combine = "add" if accumulate else "assign"
    flat = np.where(index < 0, index + size, index).ravel()
    expected = fold(x.ravel(), 0, flat, s.ravel(), combine).reshape(shape)
    return Drawn(
        lambda ns, x, i, s: ns.put(x, i, s, accumulate),
        (x, index, s),
        expected,
        peer=lambda _, x, i, s: x.put(i, s, accumulate),
        racy=not accumulate,
    )


@st.composite
def index_put(draw):
    """Draws two index arrays, of the first two dimensions or of the first and the last."""
    rows, columns, width = (draw(st.integers(1, 4)) for _ in range(3))
    count, seed = draw(st.sampled_from([1030, 3, 0])), draw(st.integers(0, 1000))
    accumulate, apart = draw(st.booleans()), draw(st.booleans())
    rng = np.random.default_rng(seed)
    i, j = rng.integers(-rows, rows, count), rng.integers(0, columns, count)
    shape = (rows, width, columns) if apart else (rows, columns, width)
    x, s = numbers(seed, shape, np.float32), numbers(seed + 1, (count, width), np.float32)
    flat = np.where(i < 0, i + rows, i) * columns + j
    indexed_first = np.moveaxis(x, 1, 2) if apart else x
    combine = "add" if accumulate else "assign"
    rows_of_x = indexed_first.reshape(-1, width)
    out = fold(rows_of_x, 0, over_lanes(flat, 0, s.shape), s, combine)
    out = out.reshape(indexed_first.shape)
    expected = np.moveaxis(out, 1, 2) if apart else out
    # None reads a whole dimension.
    key = (lambda i, j: (i, None, j)) if apart else (lambda i, j: (i, j))
    return Drawn(
        lambda ns, x, i, j, s: ns.index_put(x, key(i, j), s, accumulate),
        (x, i, j, s),
        expected,
        peer=lambda torch, x, i, j, s: _put_in_torch(torch, x, (i, j), s, accumulate, apart),
        racy=not accumulate,
    )


@st.composite
def bincount(draw):
    _, _, _, index, seed = draw(indices(most=1))
    w = numbers(seed, index.shape, np.float32)
    expected = fold(np.zeros(6, np.float32), 0, index, w)
    return Drawn(
        lambda ns, i, w: ns.bincount(i, w, length=6),
        (index, w),
        expected,
        peer=lambda torch, i, w: torch.bincount(i, w, 6),
    )


# Ops that read elements. Their gradients have many contributions to one destination.


def gradient_call(call, arrays, expected, ct):
    return Drawn(call, arrays, expected, cotangent=ct)


@st.composite
def gather(draw):
    shape, dim, source_shape, index, seed = draw(indices())
    x, ct = numbers(seed, shape, np.float32), numbers(seed + 1, source_shape, np.float32)
    expected = fold(np.zeros_like(x), dim, index, ct)
    along = draw(st.booleans())
    if along:
        return gradient_call(
            lambda ns, x, i: ns.take_along_dim(x, i, dim), (x, index), expected, ct
        )
    return gradient_call(lambda ns, x, i: ns.gather(x, dim, i), (x, index), expected, ct)


@st.composite
def index_select(draw):
    shape, dim, source_shape, index, seed = draw(indices())
    dtype = draw(st.sampled_from(FLOATS))
    x, ct, i = (
        numbers(seed, shape, dtype),
        numbers(seed + 1, source_shape, dtype),
        in_lane(index, dim),
    )
    expected = fold(np.zeros_like(x), dim, over_lanes(i, dim, source_shape), ct)
    return gradient_call(lambda ns, x, i: ns.index_select(x, dim, i), (x, i), expected, ct)


@st.composite
def take(draw):
    shape, _, source_shape, _, seed = draw(indices(most=3))
    size = int(np.prod(shape))
    x, ct = numbers(seed, shape, np.float32), numbers(seed + 1, source_shape, np.float32)
    index = np.random.default_rng(seed).integers(-size, size, source_shape)
    flat = np.where(index < 0, index + size, index).ravel()
    expected = fold(np.zeros(size, np.float32), 0, flat, ct.ravel()).reshape(shape)
    return gradient_call(lambda ns, x, i: ns.take(x, i), (x, index), expected, ct)


@st.composite
def getitem(draw):
    """Draws an index array among slices."""
    shape, dim, source_shape, index, seed = draw(indices(wrap=True))
    i = in_lane(index, dim)
    x, ct = numbers(seed, shape, np.float32), numbers(seed + 1, source_shape, np.float32)
    row = np.where(i < 0, i + shape[dim], i)
    expected = fold(np.zeros_like(x), dim, over_lanes(row, dim, source_shape), ct)
    before = (slice(None),) * dim
    after = draw(st.sampled_from([(), (...,)]))

    def call(ns, x, i):
        key = (*before, i, *after)
        return ns.getitem(x, key) if hasattr(ns, "getitem") else x[key]

    return gradient_call(call, (x, i), expected, ct)


@st.composite
def repeat_interleave(draw):
    shape, dim, _, _, seed = draw(indices())
    repeats = np.random.default_rng(seed).integers(0, 5, shape[dim])
    source_shape = tuple(int(repeats.sum()) if a == dim else n for a, n in enumerate(shape))
    x, ct = numbers(seed, shape, np.float32), numbers(seed + 1, source_shape, np.float32)
    i = np.repeat(np.arange(shape[dim]), repeats)
    expected = fold(np.zeros_like(x), dim, over_lanes(i, dim, source_shape), ct)
    total = int(repeats.sum())
    return gradient_call(
        lambda ns, x, r: ns.repeat_interleave(x, r, dim, output_size=total),
        (x, repeats),
        expected,
        ct,
    )


@st.composite
def embedding(draw):
    rows, width, seed = (draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(0, 99)))
    shape = draw(st.sampled_from([(), (3,), (103, 10), (0,)]))
    i = np.random.default_rng(seed).integers(0, rows, shape)
    weight, ct = (
        numbers(seed, (rows, width), np.float32),
        numbers(seed + 1, (*shape, width), np.float32),
    )
    flat = ct.reshape(-1, width)
    expected = fold(np.zeros_like(weight), 0, over_lanes(i.ravel(), 0, flat.shape), flat)
    return gradient_call(
        lambda ns, w, i: ns.nn.functional.embedding(i, w), (weight, i), expected, ct
    )


# Products with sparse operands, and their gradients.


@st.composite
def sparse_products(draw):
    """Draws elements in few rows and columns, so that many share both and some rows are empty."""
    rows, height, seed = draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(0, 99))
    batch = draw(st.sampled_from([(), (2,)]))
    width = draw(st.sampled_from([3, 1, 0, 1100]))
    count = draw(st.sampled_from([1030, 4, 0])) if width < 4 else 3
    op = draw(st.sampled_from(["bmm"] if batch else ["mm", "sparse.mm", "mv"]))
    columns = () if op == "mv" else (width,)
    by_row, of = draw(st.booleans()), draw(st.sampled_from(["value", "data", "dense"]))
    rng = np.random.default_rng(seed)
    row = rng.integers(0, draw(st.integers(1, rows)), (*batch, count))
    row = np.sort(row, axis=-1) if by_row else row
    column = rng.integers(0, height, row.shape)
    data = numbers(seed, row.shape, np.float32)
    dense = numbers(seed + 1, (*batch, height, *columns), np.float32)
    ct = numbers(seed + 2, (*batch, rows, *columns), np.float32)

    def product(ns, data, dense):
        function = resolve(ns, op)
        shape = (*batch, rows, height)
        if ns.__name__ == "torch":
            return function(_sparse_in_torch(ns, data, row, column, shape), dense)
        if by_row:
            starts = (row[..., None, :] < np.arange(rows + 1)[:, None]).sum(-1)
            return function(BCSR((data, column, starts), shape=shape), dense)
        return function(BCOO((data, np.stack([row, column], -1)), shape=shape), dense)

    arrays = (data, row, column, dense, ct)
    lanes = zip(*arrays, strict=True) if batch else [arrays]
    results = [_sparse_in_numpy(*lane, of) for lane in lanes]
    expected = np.stack(results) if batch else results[0]
    if of == "dense":
        return gradient_call(lambda ns, x, d: product(ns, d, x), (dense, data), expected, ct)
    if of == "data":
        return gradient_call(product, (data, dense), expected, ct)
    return Drawn(product, (data, dense), expected)


def _sparse_in_numpy(data, row, column, dense, ct, of):
    """Returns the product, or its gradient by ``data`` or ``dense``, added exactly."""
    factors = data.reshape(-1, *(1,) * (dense.ndim - 1))
    if of == "value":
        return oracles.nearest_scatter(np.zeros_like(ct), row, factors * dense[column])
    if of == "dense":
        return oracles.nearest_scatter(np.zeros_like(dense), column, factors * ct[row])
    terms = (ct[row] * dense[column]).reshape(len(data), math.prod(ct.shape[1:])).T
    return oracles.nearest_scatter(
        np.zeros((1, len(data)), np.float32), np.zeros(len(terms), int), terms
    )[0]


def _sparse_in_torch(torch, data, row, column, shape):
    batch = np.broadcast_to(np.arange(len(row))[:, None], row.shape) if row.ndim == 2 else None
    positions = np.stack([a.reshape(-1) for a in (batch, row, column) if a is not None])
    return torch.sparse_coo_tensor(
        torch.from_numpy(positions), data.reshape(-1), shape, check_invariants=True
    )


def _put_in_torch(torch, x, indices, values, accumulate, apart):
    if apart:  # torch.index_put takes no None
        x = x.movedim(2, 1)
    out = torch.index_put(x, indices, values, accumulate)
    return out.movedim(1, 2) if apart else out


#: Maps the name of an op to the strategy that draws its calls.
EVERY = {
    draw.__name__: draw
    for draw in (
        index_add,
        index_copy,
        index_reduce,
        scatter_add,
        scatter,
        scatter_reduce,
        put,
        index_put,
        bincount,
        gather,
        index_select,
        take,
        getitem,
        repeat_interleave,
        embedding,
        sparse_products,
    )
}

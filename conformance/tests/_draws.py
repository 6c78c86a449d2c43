"""Strategies that draw a call of each op: shapes, dimensions, dtypes and duplicate indices."""

import functools
import math

import numpy as np
from hypothesis import strategies as st

import impl
from conformance.adapters.base import resolve
from conformance.cases._data import written
from conformance.cases.products import sparse
from conformance.cases.writes import Reduction
from conformance.tests._drawn import (
    FLOATS,
    Drawn,
    elements,
    in_lane,
    indices,
    numbers,
    read,
    slices,
)
from spec import oracles


def writes(op, reach, dtypes, write=oracles.source, *, of_lanes=False, **options):
    """Returns the strategy of an op that adds or writes a source along a dimension.

    Args:
        op: The name of the op.
        reach: Returns the reach of the op, for a dimension.
        dtypes: The dtypes to draw.
        write: The oracle.
        of_lanes: Whether the op has one index for all lanes.
        **options: The keywords of the call.
    """

    @st.composite
    def drawn(draw):
        shape, dim, source_shape, index, seed = draw(indices())
        dtype = draw(st.sampled_from(dtypes))
        are_factors = options.get("reduce") in ("prod", "multiply")
        x = numbers(seed, shape, dtype, are_factors=are_factors)
        s = numbers(seed + 1, source_shape, dtype, are_factors=are_factors)
        i = in_lane(index, dim) if of_lanes else index
        return Drawn(
            lambda ns, x, i, s: resolve(ns, op)(x, dim, i, s, **options),
            (x, i, s),
            written(x, [i], s, reach(dim), write),
            racy=write is oracles.last_write,
        )

    return drawn()


NUMBERS = [*FLOATS, np.int32]


def reductions(op, reach, names, *, of_lanes=False):
    """Returns the strategy of an op that reduces."""
    return st.one_of(
        writes(
            op,
            reach,
            NUMBERS,
            Reduction(reduce, include_self=include_self),
            of_lanes=of_lanes,
            reduce=reduce,
            include_self=include_self,
        )
        for reduce in names
        for include_self in (True, False)
    )


@st.composite
def put(draw):
    shape, _, source_shape, index, seed = draw(indices(most=3))
    size = int(np.prod(shape))
    accumulate = draw(st.booleans())
    x, s = numbers(seed, shape, np.float32), numbers(seed + 1, source_shape, np.float32)
    index = np.random.default_rng(seed).integers(-size, size, source_shape)
    write = oracles.source if accumulate else oracles.last_write
    return Drawn(
        lambda ns, x, i, s: ns.put(x, i, s, accumulate),
        (x, index, s),
        written(x, [index], s, lambda x, i: x.reshape(-1)[i], write),
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
    write = oracles.source if accumulate else oracles.last_write
    # None reads a whole dimension.
    key = (lambda i, j: (i, None, j)) if apart else (lambda i, j: (i, j))
    return Drawn(
        lambda ns, x, i, j, s: ns.index_put(x, key(i, j), s, accumulate),
        (x, i, j, s),
        written(x, [i, j], s, lambda x, i, j: x[i, :, j] if apart else x[i, j], write),
        racy=not accumulate,
    )


@st.composite
def bincount(draw):
    _, _, _, index, seed = draw(indices(most=1))
    w = numbers(seed, index.shape, np.float32)
    expected = written(np.zeros(6, np.float32), [index], w, slices(0))
    return Drawn(lambda ns, i, w: ns.bincount(i, w, length=6), (index, w), expected)


# Ops that read elements. Their gradients have many contributions to one destination.


@st.composite
def gather(draw):
    shape, dim, _, index, seed = draw(indices())
    x = numbers(seed, shape, np.float32)
    if draw(st.booleans()):
        return read(lambda ns, x, i: ns.take_along_dim(x, i, dim), x, index, seed, elements(dim))
    return read(lambda ns, x, i: ns.gather(x, dim, i), x, index, seed, elements(dim))


@st.composite
def index_select(draw):
    shape, dim, _, index, seed = draw(indices())
    x = numbers(seed, shape, draw(st.sampled_from(FLOATS)))
    i = in_lane(index, dim)
    return read(lambda ns, x, i: ns.index_select(x, dim, i), x, i, seed, slices(dim))


@st.composite
def take(draw):
    shape, _, source_shape, _, seed = draw(indices(most=3))
    size = int(np.prod(shape))
    x = numbers(seed, shape, np.float32)
    index = np.random.default_rng(seed).integers(-size, size, source_shape)
    return read(lambda ns, x, i: ns.take(x, i), x, index, seed, lambda x, i: x.reshape(-1)[i])


@st.composite
def getitem(draw):
    """Draws an index array among slices."""
    shape, dim, _, index, seed = draw(indices(wrap=True))
    before, after = (slice(None),) * dim, draw(st.sampled_from([(), (...,)]))
    return read(
        lambda ns, x, i: ns.getitem(x, (*before, i, *after)),
        numbers(seed, shape, np.float32),
        in_lane(index, dim),
        seed,
        slices(dim),
    )


@st.composite
def repeat_interleave(draw):
    shape, dim, _, _, seed = draw(indices())
    repeats = np.random.default_rng(seed).integers(0, 5, shape[dim])
    total = int(repeats.sum())
    return read(
        lambda ns, x, r: ns.repeat_interleave(x, r, dim, output_size=total),
        numbers(seed, shape, np.float32),
        repeats,
        seed,
        lambda x, r: np.repeat(x, r, dim),
    )


@st.composite
def embedding(draw):
    rows, width, seed = (draw(st.integers(1, 5)), draw(st.integers(1, 3)), draw(st.integers(0, 99)))
    shape = draw(st.sampled_from([(), (3,), (103, 10), (0,)]))
    i = np.random.default_rng(seed).integers(0, rows, shape)
    weight = numbers(seed, (rows, width), np.float32)
    return read(
        lambda ns, w, i: ns.nn.functional.embedding(i, w), weight, i, seed, lambda w, i: w[i]
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
        function, shape = resolve(ns, op), (*batch, rows, height)
        if by_row and ns is impl:  # PyTorch differentiates by no elements of such a matrix.
            starts = (row[..., None, :] < np.arange(rows + 1)[:, None]).sum(-1)
            return function(sparse(ns, "csr", (data, column, starts), shape), dense)
        return function(sparse(ns, "coo", (data, np.stack([row, column], -1)), shape), dense)

    arrays = (data, row, column, dense, ct)
    lanes = zip(*arrays, strict=True) if batch else [arrays]
    results = [_sparse_in_numpy(*lane, of) for lane in lanes]
    expected = np.stack(results) if batch else results[0]
    if of == "dense":
        return Drawn(lambda ns, x, d: product(ns, d, x), (dense, data), expected, ct)
    if of == "data":
        return Drawn(product, (data, dense), expected, ct)
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


#: Maps the name of an op to the strategy that draws its calls.
EVERY = {
    "index_add": writes("index_add", slices, NUMBERS, of_lanes=True),
    "index_copy": writes("index_copy", slices, [np.float32], oracles.last_write, of_lanes=True),
    "index_reduce": reductions(
        "index_reduce", slices, ("prod", "mean", "amax", "amin"), of_lanes=True
    ),
    "scatter_add": writes("scatter_add", elements, NUMBERS),
    "scatter": st.one_of(
        writes("scatter", elements, FLOATS, oracles.last_write),
        writes("scatter", elements, FLOATS, reduce="add"),
        writes(
            "scatter",
            elements,
            FLOATS,
            functools.partial(oracles.source, combine=np.multiply),
            reduce="multiply",
        ),
    ),
    "scatter_reduce": reductions(
        "scatter_reduce", elements, ("sum", "prod", "amax", "amin", "mean")
    ),
    **{
        draw.__name__: draw()
        for draw in (
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
    },
}

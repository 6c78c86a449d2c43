"""Calls with many writers to one place: drawn shapes, dimensions, dtypes and duplicates.

Every op is a fold of contributions onto places, lane by lane; so one oracle serves all.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st
from jax.experimental.sparse import BCOO, BCSR
from ml_dtypes import bfloat16

from conformance.adapters.base import resolve
from spec import oracles

FLOATS = [np.float32, np.float32, np.float16, bfloat16]


@dataclasses.dataclass
class Drawn:
    """A call, its arrays, the bits of its ordered path, and the same call of PyTorch.

    Attributes:
        call: ``call(namespace, *arrays)``.
        arrays: What it takes.
        wanted: The bits of its ordered path.
        peer: As ``call``, where PyTorch writes it otherwise.
        cotangent: Where it is not None, what is tried is the pullback by the first array.
        racy: Whether another path may keep another of several writes.
    """

    call: Callable[..., Any]
    arrays: tuple[Any, ...]
    wanted: Any
    peer: Callable[..., Any] | None = None
    cotangent: Any = None
    racy: bool = False

    def __repr__(self):
        return f"Drawn({[(np.asarray(a).dtype.name, np.shape(a)) for a in self.arrays]})"


# The one oracle.


def fold(initial, dim, index, updates, how="add"):
    """``updates`` folded onto ``initial`` along ``dim``; ``index`` is of their shape."""
    out = np.moveaxis(np.atleast_1d(initial), dim, -1).copy()
    index = np.moveaxis(np.atleast_1d(index), dim, -1)
    updates = np.moveaxis(np.atleast_1d(updates), dim, -1)
    for lane in np.ndindex(index.shape[:-1]):
        out[lane] = _lane(out[lane], index[lane], updates[lane], how)
    return np.moveaxis(out, -1, dim).reshape(np.shape(initial))


def _lane(initial, index, updates, how):
    if how == "assign":
        return oracles.last_write(initial, index, updates)
    if how in ("add", "mul"):
        return oracles.panel(initial, index, updates, np.add if how == "add" else np.multiply)
    out = initial.copy()
    (np.maximum if how == "max" else np.minimum).at(out, index, updates)
    return out


# What is drawn.


def numbers(seed, shape, dtype, how="add"):
    rng = np.random.default_rng(seed)
    value = rng.standard_normal(shape)
    if np.dtype(dtype).kind == "i":
        return np.asarray(rng.integers(-3, 4, shape), dtype)
    return np.asarray(1 + value / 64 if how == "mul" else value, np.float64).astype(dtype)


@st.composite
def places(draw, *, most=5, wrap=False):
    """A shape, a dimension of it, how many contributions, and an index with duplicates."""
    shape = draw(st.lists(st.integers(1, 3), min_size=1, max_size=most))
    dim = draw(st.integers(-len(shape), len(shape) - 1))
    shape[dim] = draw(st.integers(1, 6))
    count = draw(st.sampled_from([1030, 2, 0, 1100] if np.prod(shape) < 40 else [3, 1]))
    long = list(shape)
    long[dim] = count
    seed = draw(st.integers(0, 1000))
    busy = draw(st.integers(1, shape[dim]))
    low = -shape[dim] if wrap else 0
    index = np.random.default_rng(seed).integers(low, busy if not wrap else shape[dim], long)
    return tuple(shape), dim % len(shape), tuple(long), index, seed


def in_lane(index, dim):
    """The first lane of an index, for ops that have one index for all lanes."""
    return index[tuple(slice(None) if axis == dim else 0 for axis in range(index.ndim))]


def over_lanes(vector, dim, shape):
    return np.broadcast_to(
        vector.reshape([-1 if a == dim else 1 for a in range(len(shape))]), shape
    )


REDUCTIONS = {"sum": "add", "prod": "mul", "amax": "max", "amin": "min", "mean": "add"}


def reduced(x, dim, index, s, reduce, include_self):
    how = REDUCTIONS[reduce]
    wide = np.float32 if x.dtype.itemsize < 4 and x.dtype.kind in "fV" else x.dtype
    count = fold(np.zeros(x.shape, int), dim, index, np.ones(index.shape, int))
    start = x.astype(wide)
    if not include_self:
        limits = np.iinfo(wide) if np.dtype(wide).kind == "i" else np.array([-np.inf, np.inf], wide)
        low, high = (limits.min, limits.max) if np.dtype(wide).kind == "i" else limits
        first = {"add": -0.0, "mul": 1, "max": low, "min": high}[how]
        start = np.where(count > 0, np.asarray(first).astype(wide), start)
    total = fold(start, dim, index, s.astype(wide), how)
    if reduce == "mean":
        terms = np.maximum(count + include_self, 1).astype(wide)
        total = total // terms if np.dtype(wide).kind == "i" else total / terms
    return np.where(count > 0, total.astype(x.dtype), x)


@st.composite
def index_add(draw):
    shape, dim, long, index, seed = draw(places())
    dtype = draw(st.sampled_from([*FLOATS, np.int32]))
    x, s, i = numbers(seed, shape, dtype), numbers(seed + 1, long, dtype), in_lane(index, dim)
    wanted = fold(x, dim, over_lanes(i, dim, long), s)
    return Drawn(lambda ns, x, i, s: ns.index_add(x, dim, i, s), (x, i, s), wanted)


@st.composite
def index_copy(draw):
    shape, dim, long, index, seed = draw(places())
    x, s, i = (
        numbers(seed, shape, np.float32),
        numbers(seed + 1, long, np.float32),
        in_lane(index, dim),
    )
    wanted = fold(x, dim, over_lanes(i, dim, long), s, "assign")
    return Drawn(lambda ns, x, i, s: ns.index_copy(x, dim, i, s), (x, i, s), wanted, racy=True)


@st.composite
def index_reduce(draw):
    shape, dim, long, index, seed = draw(places())
    reduce = draw(st.sampled_from(["prod", "mean", "amax", "amin"]))
    own = draw(st.booleans())
    dtype = draw(st.sampled_from([*FLOATS, np.int32]))
    how = REDUCTIONS[reduce]
    x, s = numbers(seed, shape, dtype, how), numbers(seed + 1, long, dtype, how)
    i = in_lane(index, dim)
    wanted = reduced(x, dim, over_lanes(i, dim, long), s, reduce, own)
    return Drawn(
        lambda ns, x, i, s: ns.index_reduce(x, dim, i, s, reduce, include_self=own),
        (x, i, s),
        wanted,
    )


@st.composite
def scatter_add(draw):
    shape, dim, long, index, seed = draw(places())
    dtype = draw(st.sampled_from([*FLOATS, np.int32]))
    x, s = numbers(seed, shape, dtype), numbers(seed + 1, long, dtype)
    wanted = fold(x, dim, index, s)
    return Drawn(lambda ns, x, i, s: ns.scatter_add(x, dim, i, s), (x, index, s), wanted)


@st.composite
def scatter(draw):
    shape, dim, long, index, seed = draw(places())
    reduce = draw(st.sampled_from([None, "add", "multiply"]))
    how = {None: "assign", "add": "add", "multiply": "mul"}[reduce]
    dtype = draw(st.sampled_from(FLOATS))
    x, s = numbers(seed, shape, dtype, how), numbers(seed + 1, long, dtype, how)
    options = {} if reduce is None else {"reduce": reduce}
    wanted = fold(x, dim, index, s, how)
    return Drawn(
        lambda ns, x, i, s: ns.scatter(x, dim, i, s, **options),
        (x, index, s),
        wanted,
        racy=reduce is None,
    )


@st.composite
def scatter_reduce(draw):
    shape, dim, long, index, seed = draw(places())
    reduce = draw(st.sampled_from(list(REDUCTIONS)))
    own = draw(st.booleans())
    dtype = draw(st.sampled_from([*FLOATS, np.int32]))
    how = REDUCTIONS[reduce]
    x, s = numbers(seed, shape, dtype, how), numbers(seed + 1, long, dtype, how)
    wanted = reduced(x, dim, index, s, reduce, own)
    return Drawn(
        lambda ns, x, i, s: ns.scatter_reduce(x, dim, i, s, reduce, include_self=own),
        (x, index, s),
        wanted,
    )


@st.composite
def put(draw):
    shape, _, long, index, seed = draw(places(most=3))
    size = int(np.prod(shape))
    accumulate = draw(st.booleans())
    x, s = numbers(seed, shape, np.float32), numbers(seed + 1, long, np.float32)
    index = np.random.default_rng(seed).integers(-size, size, long)
    how = "add" if accumulate else "assign"
    flat = np.where(index < 0, index + size, index).ravel()
    wanted = fold(x.ravel(), 0, flat, s.ravel(), how).reshape(shape)
    return Drawn(
        lambda ns, x, i, s: ns.put(x, i, s, accumulate),
        (x, index, s),
        wanted,
        peer=lambda _, x, i, s: x.put(i, s, accumulate),
        racy=not accumulate,
    )


@st.composite
def index_put(draw):
    """Two index arrays, of the first dimensions or of the first and the last."""
    rows, columns, width = (draw(st.integers(1, 4)) for _ in range(3))
    count, seed = draw(st.sampled_from([1030, 3, 0])), draw(st.integers(0, 1000))
    accumulate, apart = draw(st.booleans()), draw(st.booleans())
    rng = np.random.default_rng(seed)
    i, j = rng.integers(-rows, rows, count), rng.integers(0, columns, count)
    shape = (rows, width, columns) if apart else (rows, columns, width)
    x, s = numbers(seed, shape, np.float32), numbers(seed + 1, (count, width), np.float32)
    flat = np.where(i < 0, i + rows, i) * columns + j
    near = np.moveaxis(x, 1, 2) if apart else x
    how = "add" if accumulate else "assign"
    out = fold(near.reshape(-1, width), 0, over_lanes(flat, 0, s.shape), s, how).reshape(near.shape)
    wanted = np.moveaxis(out, 1, 2) if apart else out
    # None stands for all of a dimension.
    places = (lambda i, j: (i, None, j)) if apart else (lambda i, j: (i, j))
    return Drawn(
        lambda ns, x, i, j, s: ns.index_put(x, places(i, j), s, accumulate),
        (x, i, j, s),
        wanted,
        peer=lambda torch, x, i, j, s: _put_in_torch(torch, x, (i, j), s, accumulate, apart),
        racy=not accumulate,
    )


@st.composite
def bincount(draw):
    _, _, _, index, seed = draw(places(most=1))
    w = numbers(seed, index.shape, np.float32)
    wanted = fold(np.zeros(6, np.float32), 0, index, w)
    return Drawn(
        lambda ns, i, w: ns.bincount(i, w, length=6),
        (index, w),
        wanted,
        peer=lambda torch, i, w: torch.bincount(i, w, 6),
    )


# Reading; what is drawn is the gradient.


def pullback(call, arrays, wanted, ct):
    return Drawn(call, arrays, wanted, cotangent=ct)


@st.composite
def gather(draw):
    shape, dim, long, index, seed = draw(places())
    x, ct = numbers(seed, shape, np.float32), numbers(seed + 1, long, np.float32)
    wanted = fold(np.zeros_like(x), dim, index, ct)
    along = draw(st.booleans())
    if along:
        return pullback(lambda ns, x, i: ns.take_along_dim(x, i, dim), (x, index), wanted, ct)
    return pullback(lambda ns, x, i: ns.gather(x, dim, i), (x, index), wanted, ct)


@st.composite
def index_select(draw):
    shape, dim, long, index, seed = draw(places())
    dtype = draw(st.sampled_from(FLOATS))
    x, ct, i = numbers(seed, shape, dtype), numbers(seed + 1, long, dtype), in_lane(index, dim)
    wanted = fold(np.zeros_like(x), dim, over_lanes(i, dim, long), ct)
    return pullback(lambda ns, x, i: ns.index_select(x, dim, i), (x, i), wanted, ct)


@st.composite
def take(draw):
    shape, _, long, _, seed = draw(places(most=3))
    size = int(np.prod(shape))
    x, ct = numbers(seed, shape, np.float32), numbers(seed + 1, long, np.float32)
    index = np.random.default_rng(seed).integers(-size, size, long)
    flat = np.where(index < 0, index + size, index).ravel()
    wanted = fold(np.zeros(size, np.float32), 0, flat, ct.ravel()).reshape(shape)
    return pullback(lambda ns, x, i: ns.take(x, i), (x, index), wanted, ct)


@st.composite
def getitem(draw):
    """An index array among slices."""
    shape, dim, long, index, seed = draw(places(wrap=True))
    i = in_lane(index, dim)
    x, ct = numbers(seed, shape, np.float32), numbers(seed + 1, long, np.float32)
    where = np.where(i < 0, i + shape[dim], i)
    wanted = fold(np.zeros_like(x), dim, over_lanes(where, dim, long), ct)
    before = (slice(None),) * dim
    after = draw(st.sampled_from([(), (...,)]))

    def call(ns, x, i):
        key = (*before, i, *after)
        return ns.getitem(x, key) if hasattr(ns, "getitem") else x[key]

    return pullback(call, (x, i), wanted, ct)


@st.composite
def repeat_interleave(draw):
    shape, dim, _, _, seed = draw(places())
    repeats = np.random.default_rng(seed).integers(0, 5, shape[dim])
    long = tuple(int(repeats.sum()) if a == dim else n for a, n in enumerate(shape))
    x, ct = numbers(seed, shape, np.float32), numbers(seed + 1, long, np.float32)
    i = np.repeat(np.arange(shape[dim]), repeats)
    wanted = fold(np.zeros_like(x), dim, over_lanes(i, dim, long), ct)
    total = int(repeats.sum())
    return pullback(
        lambda ns, x, r: ns.repeat_interleave(x, r, dim, output_size=total),
        (x, repeats),
        wanted,
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
    wanted = fold(np.zeros_like(weight), 0, over_lanes(i.ravel(), 0, flat.shape), flat)
    return pullback(lambda ns, w, i: ns.nn.functional.embedding(i, w), (weight, i), wanted, ct)


# Sparse operands; what is drawn is the product, or a gradient.


@st.composite
def sparse_products(draw):
    """Elements of few places, so that many have one, and rows without any."""
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
    each = [_sparse_in_numpy(*lane, of) for lane in lanes]
    wanted = np.stack(each) if batch else each[0]
    if of == "dense":
        return pullback(lambda ns, x, d: product(ns, d, x), (dense, data), wanted, ct)
    if of == "data":
        return pullback(product, (data, dense), wanted, ct)
    return Drawn(product, (data, dense), wanted)


def _sparse_in_numpy(data, row, column, dense, ct, of):
    """By panels: the product, or its gradient by ``data`` or ``dense``."""
    every = data.reshape(-1, *(1,) * (dense.ndim - 1))
    if of == "value":
        return oracles.panel(np.zeros_like(ct), row, every * dense[column])
    if of == "dense":
        return oracles.panel(np.zeros_like(dense), column, every * ct[row])
    terms = (ct[row] * dense[column]).reshape(len(data), math.prod(ct.shape[1:])).T
    return oracles.panel(np.zeros((1, len(data)), np.float32), np.zeros(len(terms), int), terms)[0]


def _sparse_in_torch(torch, data, row, column, shape):
    batch = np.broadcast_to(np.arange(len(row))[:, None], row.shape) if row.ndim == 2 else None
    places = np.stack([a.reshape(-1) for a in (batch, row, column) if a is not None])
    return torch.sparse_coo_tensor(
        torch.from_numpy(places), data.reshape(-1), shape, check_invariants=True
    )


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


def _put_in_torch(torch, x, indices, values, accumulate, apart):
    if apart:  # PyTorch has no None here
        x = x.movedim(2, 1)
    out = torch.index_put(x, indices, values, accumulate)
    return out.movedim(1, 2) if apart else out

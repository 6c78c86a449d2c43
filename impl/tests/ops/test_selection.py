"""kthvalue, median, nanmedian, mode, topk, sort and argsort.

The lowerings of sort have tests in ``test_sort.py``.

Tests: impl._primitives.sort, impl.ops.mode.
"""

import functools
import zlib

import jax
import numpy as np
import pytest
from ml_dtypes import bfloat16

import impl
from impl.tests.ops._bad_values import BOOLS, COMPLEX, SCALAR, V, ones
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits
from impl.tests.support.programs import run_together
from impl.tests.support.refusals import BadArguments, Call
from spec import oracles

complete = pytest.mark.usefixtures("complete")

FLOATS = [np.float32, np.float16, bfloat16]
INTEGERS = [np.int8, np.int16, np.int32, np.uint8]
DTYPES = [*FLOATS, *INTEGERS, np.uint32, bool]


def _kth(x, rank):
    return np.array([oracles.lowest_index(c, rank(c)) for c in x.T], np.int64)


#: For each name a call that returns values and indices along ``dim``; and the oracle of the
#: indices, from float64 of shape [n, lanes]. It keeps the dimension if the call does.
PICKS = {
    "kthvalue": (lambda ns, x, dim: ns.kthvalue(x, 2, dim), lambda x: _kth(x, lambda _: 2)),
    "median": (
        lambda ns, x, dim: ns.median(x, dim),
        lambda x: _kth(x, lambda c: len(c) if np.isnan(c).any() else (len(c) + 1) // 2),
    ),
    "nanmedian": (
        lambda ns, x, dim: ns.nanmedian(x, dim),
        lambda x: _kth(x, lambda c: max(1, ((~np.isnan(c)).sum() + 1) // 2)),
    ),
    "mode": (lambda ns, x, dim: ns.mode(x, dim), oracles.most_frequent),
    "topk": (
        lambda ns, x, dim: ns.topk(x, 2, dim),
        lambda x: oracles.stable_sort(x, descending=True)[:2],
    ),
    "topk-least": (
        lambda ns, x, dim: ns.topk(x, 2, dim, largest=False, sorted=False),
        lambda x: oracles.stable_sort(x)[:2],
    ),
    "sort": (lambda ns, x, dim: ns.sort(x, dim=dim, stable=True), oracles.stable_sort),
    "sort-descending": (
        lambda ns, x, dim: ns.sort(x, dim=dim, descending=True, stable=True),
        functools.partial(oracles.stable_sort, descending=True),
    ),
}
OF_BOOLS = ("mode", "sort", "sort-descending")
OF_NUMBERS = ("median", "nanmedian", "mode", "sort", "sort-descending")
every_pick = pytest.mark.parametrize("name", PICKS)


def drawn(shape, dtype, seed=0):
    """Returns few different numbers; among floats zeros of both signs, infinities and NaNs."""
    rng = np.random.default_rng((seed, zlib.crc32(np.dtype(dtype).name.encode()), *shape))
    x = rng.integers(0 if np.dtype(dtype).kind == "u" else -3, 4, shape)
    if np.dtype(dtype).kind in "iub":
        return x.astype(dtype)
    x = np.where(rng.random(shape) < 0.5, -x.astype(np.float64), x)
    x = np.where(rng.random(shape) < 0.1, np.nan, x)
    return np.where(x == 3, np.inf, x).astype(dtype)


def wanted(name, x, dim):
    """Returns values and indices by the oracle."""
    lanes = np.moveaxis(np.atleast_1d(x), dim, 0)
    flat = lanes.reshape(lanes.shape[0], -1)
    index = PICKS[name][1](flat.astype(np.float64))
    keeps_dim = index.ndim == flat.ndim
    index = index if keeps_dim else index[None]
    results = []
    for flat_part in (np.take_along_axis(flat, index, 0), index.astype(np.int32)):
        part = np.moveaxis(flat_part.reshape(-1, *lanes.shape[1:]), 0, dim)
        results.append(part if keeps_dim and x.ndim else part.squeeze(dim))
    return results


def pick(name, dim):
    """Returns the call as a function of an array."""
    return lambda x: tuple(PICKS[name][0](impl, x, dim))


def assert_picks(name, inputs):
    """Requires the bits of the oracle, for arrays and a dimension of each, by label."""
    calls = {label: (pick(name, dim), x) for label, (x, dim) in inputs.items()}
    for label, got in run_together(calls).items():
        assert_all_same_bits(got, wanted(name, *inputs[label]), label)


# Values and indices.


@complete
@every_pick
def test_every_dtype_and_shape(name):
    dtypes = [dtype for dtype in DTYPES if dtype is not bool or name in OF_BOOLS]
    inputs = {np.dtype(dtype).name: (drawn((9, 6), dtype), 0) for dtype in dtypes}
    for shape, dim in [((), -1), ((7,), 0), ((4, 5), -1), ((2, 3, 4), 1), ((2, 2, 3, 2, 2), -3)]:
        if shape or name in OF_NUMBERS:  # A number does not have two elements.
            inputs[f"{shape}, dim {dim}"] = drawn(shape, np.float32), dim
    assert_picks(name, inputs)


@complete
def test_names_of_the_results():
    x = np.array([2.0, 1.0], np.float32)
    for op in (impl.median, impl.nanmedian, impl.mode, impl.sort):
        got = op(x, 0)
        assert got._fields == ("values", "indices")
        assert type(got).__name__.lower() == op.__name__
    assert impl.kthvalue(x, 1)._fields == ("values", "indices")
    assert impl.topk(x, k=1, dim=0, largest=True, sorted=True).indices.tolist() == [0]
    assert impl.argsort(x, 0, False, stable=True).tolist() == [1, 0]
    assert impl.median(x) == 1


@complete
def test_empty_arrays():
    empty = np.zeros((0, 3), np.float32)
    assert np.isnan(impl.median(empty))
    assert np.isnan(impl.nanmedian(empty[:, 0]))
    assert impl.median(empty.astype(np.int32)) == np.iinfo(np.int32).min
    assert impl.median(empty.astype(np.int8)) == 0
    for got in (impl.median(empty, 1), impl.nanmedian(empty, 1), impl.mode(empty, 1)):
        assert got.values.shape == got.indices.shape == (0,)
    assert impl.kthvalue(empty, 1, 1).values.shape == (0,)
    assert impl.kthvalue(empty, 1, 1, True).indices.shape == (0, 1)
    assert impl.sort(empty, 0).values.shape == impl.argsort(empty, 0).shape == (0, 3)
    assert impl.topk(empty, 2, 1).indices.shape == (0, 2)
    assert impl.topk(empty, 0, 0).indices.shape == (0, 3)
    assert impl.topk(empty.T, 0).values.shape == (3, 0)
    # From a number, one element is picked even for k = 0.
    assert impl.topk(np.float32(3), 0).values == 3
    assert jax.grad(impl.median)(empty).shape == empty.shape
    assert jax.vmap(lambda x: impl.topk(x, 2))(np.zeros((0, 6, 4))).values.shape == (0, 6, 2)
    assert jax.vmap(lambda x: impl.kthvalue(x, 2).indices)(np.zeros((0, 6, 4))).shape == (0, 6)


@pytest.mark.parametrize("name", ["nanmedian", "mode", "topk"])
def test_a_cpu_selects_some_rows_at_a_time(name):
    # More rows than one step takes, and no multiple of that number.
    shapes = [((1, 77, 1500), 2), ((3, 1500, 30), 1)]
    assert_picks(name, {str(shape): (drawn(shape, np.float32), dim) for shape, dim in shapes})


# Bits of the lowerings.


# Derivatives.

APART = np.random.default_rng(1).permutation(np.arange(24, dtype=np.float32)).reshape(6, 4)


@every_pick
def test_a_gradient_goes_to_the_element_that_was_picked(name):
    x = drawn((6, 4), np.float32, seed=3)
    values, index = wanted(name, x, 0)
    weight = np.arange(1, values.size + 1, dtype=np.float32).reshape(values.shape)
    want = np.zeros_like(x)
    rows = index.reshape(-1, 4)
    np.put_along_axis(want, rows, weight.reshape(rows.shape), axis=0)

    @jax.jit
    def derivatives(x, weight, tangent):
        values = lambda x: PICKS[name][0](impl, x, 0).values  # noqa: E731
        return jax.vjp(values, x)[1](weight)[0], jax.jvp(values, (x,), (tangent,))[1]

    gradient, dot = derivatives(x, weight, APART)
    assert_same_bits(gradient, want)
    assert_same_bits(dot, np.take_along_axis(APART, rows, 0).reshape(values.shape))


# PyTorch.


def as_tensor(torch, x):
    if x.dtype == bfloat16:
        return torch.from_numpy(x.astype(np.float32)).bfloat16()
    return torch.from_numpy(x)


@complete
@pytest.mark.parametrize("name", [*PICKS, "median of all", "nanmedian of all"])
def test_torch_picks_the_same_values(torch, name):
    op, _, of_all = name.partition(" ")
    inputs = {}
    for dtype in [np.float32, bfloat16, np.uint8, *([bool] if name in OF_BOOLS else [])]:
        x = drawn((9, 6), dtype)
        if np.isnan(x.astype(np.float32)).any():
            x[:, 0] = np.arange(9)  # A column without NaN, for which mode has PyTorch's rule.
        inputs[np.dtype(dtype).name] = x
    function = getattr(impl, op) if of_all else pick(name, 0)
    results = run_together({dtype: (function, x) for dtype, x in inputs.items()})
    for dtype, got in results.items():
        x = inputs[dtype]
        if of_all:
            theirs = getattr(torch, op)(as_tensor(torch, x))
            np.testing.assert_array_equal(np.float64(got), float(theirs))
            continue
        theirs = PICKS[name][0](torch, as_tensor(torch, x), 0)
        values, want = np.asarray(got[0]).astype(np.float64), theirs.values.double().numpy()
        if name == "mode":  # PyTorch sorts NaNs in no order.
            clean = ~np.isnan(x.astype(np.float64)).any(0)
            values, want = values[clean], want[clean]
        np.testing.assert_array_equal(values, want, err_msg=dtype)
        if op.startswith("sort"):
            np.testing.assert_array_equal(got[1], theirs.indices.numpy(), err_msg=dtype)


# Bad arguments.

WIDE = np.zeros((2, 0, 3), np.float32)
#: Bad calls, without the name of the op: for the ops that reduce, and below for those that sort.
REDUCED: list[Call] = [
    ((V, 1), {}, IndexError, "range of [-1, 0], but got 1"),
    ((SCALAR, -2), {}, IndexError, "but got -2"),
    ((V, 0.0), {}, TypeError, "'dim' must be int, not float"),
    ((V, 0, 1), {}, TypeError, "'keepdim' must be bool, not int"),
    (([1.0],), {}, TypeError, "'input' must be"),
    ((V[:0], 0), {}, IndexError, "dim 0 to have non-zero size"),
    ((WIDE, 1), {}, IndexError, "dim 1 to have non-zero size"),
    ((COMPLEX, 0), {}, NotImplementedError, "complex64; it takes"),
]
SORTED: list[Call] = [
    ((V, 1), {}, IndexError, "but got 1"),
    ((SCALAR, 1), {}, IndexError, "but got 1"),
    ((V, 0.0), {}, TypeError, "'dim' must be int, not float"),
    ((V, 0, 1), {}, TypeError, "'descending' must be bool, not int"),
    ((V,), {"stable": 1}, TypeError, "'stable' must be bool, not int"),
    (([1.0],), {}, TypeError, "'input' must be"),
    ((COMPLEX,), {}, RuntimeError, "complex64; it takes bools, integers and floats"),
]
CALLS: list[Call] = [
    ("kthvalue", (V, 0), {}, RuntimeError, "got 0, allowed are 1 to 3"),
    ("kthvalue", (V, 4), {}, RuntimeError, "got 4, allowed are 1 to 3"),
    ("kthvalue", (V, 1.0), {}, TypeError, "'k' must be int, not float"),
    ("kthvalue", (V, True), {}, TypeError, "'k' must be int, not bool"),
    ("kthvalue", (V, 1, 1), {}, IndexError, "but got 1"),
    ("kthvalue", ([1.0], 1), {}, TypeError, "'input' must be"),
    ("kthvalue", (ones(2, dtype=bool), 1), {}, NotImplementedError, "bool"),
    ("kthvalue", (COMPLEX, 1), {}, NotImplementedError, "complex64"),
    ("kthvalue", (V[:0], 1), {}, IndexError, "dim 0 to have non-zero size"),
    ("kthvalue", (np.zeros((2, 0, 3)), 1, 1), {}, IndexError, "dim 1 to have non-zero size"),
    ("kthvalue", (V, 1, 0, 1), {}, TypeError, "'keepdim' must be bool, not int"),
    *((op, *call) for op in ("median", "nanmedian", "mode") for call in REDUCED),
    ("median", (V,), {"keepdim": True}, TypeError, "'dim' must be given"),
    ("nanmedian", (V,), {"keepdim": True}, TypeError, "'dim' must be given"),
    ("median", (BOOLS,), {}, NotImplementedError, "bool; it takes integers and floats"),
    ("median", (BOOLS, 0), {}, NotImplementedError, "bool"),
    ("nanmedian", (COMPLEX,), {}, NotImplementedError, "complex64"),
    ("mode", (V[:0],), {}, IndexError, "dim 0 to have non-zero size"),
    ("mode", (V, None), {}, TypeError, "'dim' must be int, not NoneType"),
    ("topk", (V, 4), {}, RuntimeError, "for dimension 0: got 4, allowed are 0 to 3"),
    ("topk", (V, -1), {}, RuntimeError, "got -1, allowed are 0 to 3"),
    ("topk", (SCALAR, 2), {}, RuntimeError, "got 2, allowed are 0 to 1"),
    ("topk", (WIDE, 1, 1), {}, RuntimeError, "for dimension 1: got 1, allowed are 0 to 0"),
    ("topk", (V, 1.0), {}, TypeError, "'k' must be int, not float"),
    ("topk", (V, True), {}, TypeError, "'k' must be int, not bool"),
    ("topk", (V, 1, 1), {}, IndexError, "but got 1"),
    ("topk", (V, 1, 0, 1), {}, TypeError, "'largest' must be bool, not int"),
    ("topk", (V, 1, 0, True, "a"), {}, TypeError, "'sorted' must be bool, not str"),
    ("topk", ([1.0], 1), {}, TypeError, "'input' must be"),
    ("topk", (BOOLS, 1), {}, RuntimeError, "bool; it takes integers and floats"),
    ("topk", (COMPLEX, 1), {}, RuntimeError, "complex64"),
    *((op, *call) for op in ("sort", "argsort") for call in SORTED),
]


class TestBadArguments(BadArguments):
    calls = CALLS

"""kthvalue, median, nanmedian, mode, topk, sort and argsort."""

import functools
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_dtypes import bfloat16

import impl
from impl.testing import lower
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits
from impl.tests.support.programs import kernels, run_together
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
        assert op(x, 0)._fields == ("values", "indices")
    assert impl.kthvalue(x, 1)._fields == ("values", "indices")
    assert impl.topk(x, k=1, dim=0, largest=True, sorted=True).indices.tolist() == [0]
    assert impl.argsort(x, 0, False, stable=True).tolist() == [1, 0]
    assert impl.median(x) == 1


@complete
def test_empty_arrays():
    empty = np.zeros((0, 3), np.float32)
    assert impl.median(empty.astype(np.int32)) == np.iinfo(np.int32).min
    assert impl.median(empty.astype(np.int8)) == 0
    assert impl.kthvalue(empty, 1, 1, True).indices.shape == (0, 1)
    assert impl.sort(empty, 0).values.shape == impl.argsort(empty, 0).shape == (0, 3)
    assert impl.topk(empty, 0, 0).indices.shape == (0, 3)
    assert impl.topk(empty.T, 0).values.shape == (3, 0)
    # From a number, one element is picked even for k = 0.
    assert impl.topk(np.float32(3), 0).values == 3
    assert jax.grad(impl.median)(empty).shape == empty.shape
    assert jax.vmap(lambda x: impl.topk(x, 2))(np.zeros((0, 6, 4))).values.shape == (0, 6, 2)
    assert jax.vmap(lambda x: impl.kthvalue(x, 2).indices)(np.zeros((0, 6, 4))).shape == (0, 6)


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


def test_the_median_of_all_is_the_first_of_its_equals():
    x = np.array([1, -0.0, 0.0, -1, 0.0], np.float32)
    both = jax.jit(lambda x: (impl.median(x), impl.nanmedian(x[::-1])))
    assert_all_same_bits(both(x), (x[1], x[4]))


def test_no_program_of_a_gpu_races_or_has_a_kernel():
    x = jnp.ones((4, 3))
    for mode in (False, True):
        with impl.deterministic(mode, profile="complete"):
            for name in PICKS:
                lowered = lower(jax.grad(lambda x, name=name: pick(name, 0)(x)[0].sum()), x)
                text = lowered.as_text()
                assert kernels(lowered) == set()
                # Equal elements keep their order, and no two updates of the gradient meet.
                assert "is_stable = false" not in text
                assert "unique_indices = false" not in text
                assert "unique_indices = true" in text


@pytest.mark.parametrize("profile", ["torch-1.10", "torch-2.12"])
def test_only_the_median_with_indices_raises(profile):
    x = jnp.ones((4, 3))
    impl.use_deterministic_algorithms(True, profile=profile)
    with pytest.raises(RuntimeError, match="median CUDA with indices output"):
        lower(lambda x: impl.median(x, 0).values, x)
    for call in (impl.median, impl.nanmedian, lambda x: impl.nanmedian(x, 0).values):
        lower(jax.grad(lambda x, call=call: call(x).sum()), x)


@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
def test_a_derivative_is_exact_under_portable(dtype):
    # The sum of the tangents of equals is not rounded on the way. Other elements do not matter.
    x = np.array([[5, 1, 5, 7, 5, 9, 0], [2, 2, 2, 0, 3, 2, 2]], dtype)
    dots = np.array([[3e8, 5, 7, 6, -3e8, 1, 2], [1, 3e8, -3e8, 3e8, 4, 2, 4]], dtype)
    with impl.deterministic(guarantee="portable"):
        got = jax.jit(jax.vmap(lambda x, t: jax.jvp(impl.median, (x,), (t,))))(x, dots)
        gradient = jax.jit(jax.grad(lambda x: jax.vmap(impl.median)(x) @ dots[:, 2]))(x)
    third, fifth = np.float32(7) / 3, np.float32(7) / 5
    assert_all_same_bits(got, (np.array([5, 2], dtype), np.array([third, fifth], dtype)))
    shares = np.array([[7 / 3], [dots[1, 2] / 5]], np.float32)
    assert_same_bits(gradient, np.where(x == [[5], [2]], shares, 0).astype(dtype))


def test_the_second_derivative_of_a_median():
    square = jax.jit(jax.hessian(lambda x: impl.median(x) ** 2))(np.float32([5, 2, 5, 2]))
    want = np.zeros((4, 4), np.float32)
    want[1::2, 1::2] = 0.5
    assert_same_bits(square, want)


@complete
def test_kthvalue_of_every_k():
    values = np.array([np.nan, 1.0, -np.inf, 0.0, -0.0, np.inf, -np.nan, -1.0], np.float32)
    picks = jax.jit(lambda x: [impl.kthvalue(x, k) for k in range(1, 9)])(values)
    # NaNs come last, and zeros of both signs are equal.
    assert [int(p.indices) for p in picks] == [2, 7, 3, 3, 1, 5, 0, 0]
    assert np.isnan(picks[6].values)
    for dtype in (np.int8, np.uint8, np.int32, np.uint32):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        numbers = np.array([high, 1, low, high - 1], dtype)
        picks = jax.jit(lambda x: [impl.kthvalue(x, k) for k in (1, 2, 3, 4)])(numbers)
        assert [int(p.values) for p in picks] == [low, 1, high - 1, high]
        assert [int(p.indices) for p in picks] == [2, 1, 3, 0]


@complete
@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.float32])
def test_topk_at_the_limits(dtype):
    # A CPU converts numbers of every dtype to floats of the same order.
    info = jnp.finfo(dtype) if dtype is np.float32 else jnp.iinfo(dtype)
    few = np.array([info.max, info.min, 0, 1, info.max, 2**31 - 1, 2**24 + 1, 2**24], np.float64)
    if dtype is np.float32:
        # Subnormals such as 1e-45 are less than any normal number, and not 0.
        few = np.concatenate([few, [1e-45, -1e-45, 1e-40, -0.0, np.inf, -np.inf, np.nan]])
    x = np.resize(few.astype(dtype), 64)
    np.random.default_rng(0).shuffle(x)
    cases = [(largest, k) for largest in (True, False) for k in (4, 30, 64)]
    results = jax.jit(lambda x: [impl.topk(x, k, largest=largest) for largest, k in cases])(x)
    for (largest, k), got in zip(cases, results, strict=True):
        order = oracles.stable_sort(x.astype(np.float64), descending=largest)[:k]
        assert_same_bits(got.indices, order.astype(np.int32))
        assert_same_bits(got.values, x[order])


@complete
@pytest.mark.once
@pytest.mark.parametrize(("rows", "length"), [(3, 101), (9, 9001)])
def test_topk_of_many_equals(rows, length):
    x = np.random.default_rng(length).geometric(0.5, (rows, length)).astype(np.float32)
    x[:, -1], x[:, [0, -2]] = 99, 98
    for largest in (True, False):
        order = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :5]
        assert_same_bits(impl.topk(x, 5, largest=largest).indices, order.astype(np.int32))

"""kthvalue, median, nanmedian, mode, topk, sort and argsort."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ml_dtypes import bfloat16

import impl
from impl.testing import lower
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits
from impl.tests.support.programs import kernels
from spec import oracles

complete = pytest.mark.usefixtures("complete")


def _kth(x, rank):
    return np.array([oracles.lowest_index(c, rank(c)) for c in x.T], np.int64)


#: For each name a call that returns values and indices along the first axis, and the oracle of the
#: indices, from float64.
PICKS = {
    "kthvalue": (lambda x: impl.kthvalue(x, 2, 0), lambda x: _kth(x, lambda _: 2)),
    "median": (
        lambda x: impl.median(x, 0),
        lambda x: _kth(x, lambda c: len(c) if np.isnan(c).any() else (len(c) + 1) // 2),
    ),
    "nanmedian": (
        lambda x: impl.nanmedian(x, 0),
        lambda x: _kth(x, lambda c: max(1, ((~np.isnan(c)).sum() + 1) // 2)),
    ),
    "mode": (lambda x: impl.mode(x, 0), oracles.most_frequent),
    "topk": (lambda x: impl.topk(x, 2, 0), lambda x: oracles.stable_sort(x, descending=True)[:2]),
    "topk-least": (
        lambda x: impl.topk(x, 2, 0, largest=False, sorted=False),
        lambda x: oracles.stable_sort(x)[:2],
    ),
    "sort": (lambda x: impl.sort(x, dim=0, stable=True), oracles.stable_sort),
    "sort-descending": (
        lambda x: impl.sort(x, dim=0, descending=True, stable=True),
        functools.partial(oracles.stable_sort, descending=True),
    ),
}
every_pick = pytest.mark.parametrize("name", PICKS)


# Values and indices.


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


#: Few different numbers, zeros of both signs, infinities and NaNs.
FEW = np.array(
    [
        [1, -0.0, np.inf, 2],
        [np.nan, 0, 3, 2],
        [1, 0, -np.inf, -3],
        [2, -0.0, np.inf, 2],
        [np.nan, -1, 3, -3],
        [1, -1, np.nan, 0],
    ],
    np.float32,
)


@every_pick
def test_a_gradient_goes_to_the_element_that_was_picked(name):
    call, oracle = PICKS[name]
    index = oracle(FEW.astype(np.float64)).astype(np.int32)
    rows, weight = index.reshape(-1, 4), np.arange(1, index.size + 1, dtype=np.float32)
    want = np.zeros_like(FEW)
    np.put_along_axis(want, rows, weight.reshape(rows.shape), axis=0)

    @jax.jit
    def derivatives(x, weight, tangent):
        values, pullback, index = jax.vjp(lambda x: tuple(call(x)), x, has_aux=True)
        dots = jax.jvp(lambda x: call(x)[0], (x,), (tangent,))[1]
        return values, index, pullback(weight)[0], dots

    values, found, gradient, dots = derivatives(FEW, weight.reshape(index.shape), APART)
    assert_same_bits(found, index)
    for got, array in ((values, FEW), (dots, APART)):
        assert_same_bits(got, np.take_along_axis(array, rows, 0).reshape(index.shape))
    assert_same_bits(gradient, want)


def test_the_median_of_all_is_the_first_of_its_equals():
    x = np.array([1, -0.0, 0.0, -1, 0.0], np.float32)
    both = jax.jit(lambda x: (impl.median(x), impl.nanmedian(x[::-1])))
    assert_all_same_bits(both(x), (x[1], x[4]))


def test_no_program_of_a_gpu_races_or_has_a_kernel():
    x = jnp.ones((4, 3))
    for mode in (False, True):
        with impl.deterministic(mode, profile="complete"):
            for name in PICKS:
                lowered = lower(jax.grad(lambda x, call=PICKS[name][0]: call(x)[0].sum()), x)
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

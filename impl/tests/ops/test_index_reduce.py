"""Reductions by scatter_reduce and index_reduce; and all else of index_reduce.

Tests: impl.ops._reductions.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._indices import at
from impl.tests.support.bits import assert_same_bits, bits
from impl.tests.support.programs import run_together
from spec import oracles

complete = pytest.mark.usefixtures("complete")


@complete
def test_bools_and_complex_numbers_of_which_pytorch_has_few():
    index, some = np.array([0, 0, 1, 1]), np.array([True, False, True, True])
    for reduce, want in (("amax", [True, True]), ("amin", [False, True])):
        got = impl.index_reduce(some[:2], 0, index, some, reduce, include_self=False)
        assert got.tolist() == want
    numbers = np.array([1 + 2j, 3, 2j, 4], np.complex64)
    got = impl.index_reduce(numbers[:2], 0, index, numbers, "mean", include_self=False)
    assert got.tolist() == [2 + 1j, 2 + 1j]
    with pytest.raises(NotImplementedError, match="complex64"):
        impl.index_reduce(numbers[:2], 0, index, numbers, "amax")


@complete
def test_means_of_integers_are_rounded_down_and_do_not_wrap_around():
    def mean(values, index, size, include_self):
        return impl.index_reduce(
            np.full(size, values[0]), 0, index, values, "mean", include_self=include_self
        )

    pairs = np.array([-3, -4, 7, 0, -1, 0], np.int32)
    assert mean(pairs, np.array([0, 0, 1, 1, 2, 2]), 3, include_self=False).tolist() == [-4, 3, -1]
    # PyTorch's sum of narrow integers wraps around before it is divided.
    for number, dtype in ((100, np.int8), (200, np.uint8)):
        many = np.full(300, number, dtype)
        assert mean(many, np.zeros(300, int), 1, include_self=True).tolist() == [number]
    large = np.full(1, 2**32 - 3, np.uint32)
    assert mean(large, np.zeros(1, int), 1, include_self=False).tolist() == large.tolist()


@complete
def test_nans_and_infinities():
    inf, nan = math.inf, math.nan
    index = np.array([0, 0, 1, 2, 2, 3])
    src = np.array([1, nan, nan, -inf, -inf, inf], np.float32)
    input = np.array([0, 2, 5, -inf, nan], np.float32)
    wanted = {
        ("amax", True): [nan, nan, 5, inf, nan],
        ("amin", True): [nan, nan, -inf, -inf, nan],
        ("amax", False): [nan, nan, -inf, inf, nan],
        ("amin", False): [nan, nan, -inf, inf, nan],
        ("mean", False): [nan, nan, -inf, inf, nan],
        ("mean", True): [nan, nan, -inf, nan, nan],
        ("prod", False): [nan, nan, inf, inf, nan],
    }

    @jax.jit
    def calls(x, s):
        return [
            impl.scatter_reduce(x, 0, index, s, reduce, include_self=include_self)
            for reduce, include_self in wanted
        ]

    for got, (case, want) in zip(calls(input, src), wanted.items(), strict=True):
        np.testing.assert_array_equal(got, np.array(want, np.float32), err_msg=str(case))


# Bits. The suite tests them with the index as an argument; here it is part of the program.

RNG = np.random.default_rng(0)
MANY = RNG.integers(0, 4, 2100)
SOURCE = (1 + RNG.standard_normal(2100) / 16).astype(np.float32)
#: No index is 4.
FIVE = np.array([0.3, -0.0, 1e30, -0.0, np.nan], np.float32)


@pytest.mark.usefixtures("portable")
def test_a_division_by_a_known_count_is_exact():
    mean = functools.partial(lambda x, s: impl.index_reduce(x, 0, MANY, s, "mean"))
    arrays = {d.__name__: (FIVE.astype(d), SOURCE.astype(d)) for d in (np.float32, jnp.bfloat16)}
    results = run_together({name: (mean, *pair) for name, pair in arrays.items()})
    terms = (np.bincount(MANY, minlength=5) + 1).astype(np.float32)
    for name, got in results.items():
        initial, source = (array.astype(np.float32) for array in arrays[name])
        total = oracles.source(initial, MANY, source)
        want = np.where(terms > 1, total / terms, initial)
        assert_same_bits(got, want.astype(got.dtype), name)
        # A multiplication by the reciprocal would show.
        product = np.where(terms > 1, total * (np.float32(1) / terms), initial)
        assert bits(want) != bits(product)


@complete
def test_a_mean_does_not_touch_elements_without_updates():
    # Not even a subnormal, which a division by 1 may flush to zero.
    tiny = np.array([1e-40, 1], np.float32)
    for include_self in (True, False):
        got = impl.index_reduce(tiny, 0, at(1), tiny[1:], "mean", include_self=include_self)
        assert_same_bits(got, tiny)


@complete
@pytest.mark.usefixtures("lowering")
def test_extremes_of_zeros_are_ordered_by_sign():
    zeros = np.array([-0.0, 0.0], np.float32)
    index = np.zeros(2, int)

    @jax.jit
    def calls(x, s):
        return [
            impl.index_reduce(x, 0, index, s, reduce, include_self=include_self)
            for reduce in ("amin", "amax")
            for include_self in (True, False)
        ]

    for source in (zeros, zeros[::-1].copy()):
        signs = np.signbit(calls(zeros[:1], source)).ravel().tolist()
        assert signs == [True, True, False, False]


# Derivatives.

ROWS = np.array([2, 0, 2, 1, 2])


@complete
@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_an_infinity_that_is_not_in_the_input_has_no_share(reduce):
    infinity = -np.inf if reduce == "amax" else np.inf
    index, source = np.array([0, 0, 1]), np.array([infinity, infinity, 1], np.float32)

    def loss(x, s, include_self):
        return impl.scatter_reduce(x, 0, index, s, reduce, include_self=include_self)[0]

    gradients = jax.jit(jax.grad(loss, (0, 1)), static_argnums=2)
    x = np.full(2, infinity, np.float32)
    assert [g.tolist() for g in gradients(x, source, False)] == [[0, 0], [0.5, 0.5, 0]]
    third = float(np.float32(1) / np.float32(3))
    assert [g.tolist() for g in gradients(x, source, True)] == [[third, 0], [third, third, 0]]


@complete
def test_integers_are_differentiated_through():
    def function(x, n):
        lowest = impl.scatter_reduce(n, 0, ROWS, n[:5], "amin", include_self=False)
        mean = impl.index_reduce(n, 0, ROWS, n[:5], "mean")
        return (x * (lowest + mean)).sum()

    gradient = jax.jit(jax.grad(function))(jnp.ones(6), jnp.arange(6))
    assert gradient.dtype == np.float32
    assert gradient[5] == 10

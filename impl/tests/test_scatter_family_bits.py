"""scatter, scatter_reduce, index_reduce, index_copy: bits."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.testing import lower
from impl.tests._support import LOWERINGS, assert_same_bits, bits, kernels, spread
from spec import oracles

pytestmark = pytest.mark.usefixtures("complete")

REDUCTIONS = [
    (reduce, include_self)
    for reduce in ("sum", "prod", "mean", "amax", "amin")
    for include_self in (True, False)
]


# Bits. With arrays as arguments conformance tries them; here the index is part of the program.

RNG = np.random.default_rng(0)
COUNT = 2100
MANY = RNG.integers(0, 4, COUNT)
LONG = (1 + RNG.standard_normal(COUNT) / 16).astype(np.float32)
FIVE = np.array([0.3, -0.0, 1e30, -0.0, np.nan], np.float32)  # Of the last no index is.


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16], ids=lambda d: d.__name__)
@pytest.mark.usefixtures("lowering")
def test_a_division_by_a_known_count_is_exact(dtype):
    initial, source = FIVE.astype(dtype), LONG.astype(dtype)
    wide = initial.astype(np.float32), source.astype(np.float32)
    terms = (np.bincount(MANY, minlength=5) + 1).astype(np.float32)
    want = np.where(terms > 1, oracles.panel(wide[0], MANY, wide[1]) / terms, wide[0])
    got = jax.jit(lambda x, s: impl.index_reduce(x, 0, MANY, s, "mean"))(initial, source)
    assert_same_bits(got, want.astype(dtype))
    # A multiplication by the reciprocal would show.
    times = oracles.panel(wide[0], MANY, wide[1]) * (np.float32(1) / terms)
    assert bits(want) != bits(np.where(terms > 1, times, wide[0]))


@pytest.mark.usefixtures("lowering")
def test_products_of_columns():
    initial, source = spread(RNG, (3, 2)), np.stack([LONG, LONG[::-1]], 1)
    index = np.stack([MANY % 3, MANY[::-1] % 3], 1)
    got = jax.jit(lambda x, i, s: impl.scatter(x, 0, i, s, reduce="multiply"))(
        initial, index, source
    )
    columns = [oracles.panel(initial[:, c], index[:, c], source[:, c], np.multiply) for c in (0, 1)]
    assert_same_bits(got, np.stack(columns, 1))


@pytest.mark.parametrize("name", ["native", "seed 1"])
def test_places_without_updates_keep_their_bits(name):
    initial = np.array([-0.0, 0, np.nan, 7], np.float32)
    initial[2:3] = np.array([0x7FC12345], np.uint32).view(np.float32)
    index, source = np.array([3, 3, 3]), np.array([1, 2, 3], np.float32)

    def calls(x, s):
        written = [impl.scatter(x, 0, index, s), impl.index_copy(x, 0, index, s)]
        return written + [
            impl.scatter_reduce(x, 0, index, s, reduce, include_self=include_self)
            for reduce, include_self in REDUCTIONS
        ]

    with LOWERINGS[name]():
        for got in jax.jit(calls)(initial, source):
            assert_same_bits(got[:3], initial[:3])


def test_a_mean_does_not_touch_what_has_no_updates():
    # Not even a subnormal, which a division by 1 may flush to zero.
    tiny = np.array([1e-40, 1], np.float32)
    for include_self in (True, False):
        got = impl.index_reduce(tiny, 0, np.array([1]), tiny[1:], "mean", include_self=include_self)
        assert_same_bits(got, tiny)


def test_extremes_of_zeros_are_ordered_by_sign(lowering):
    del lowering
    zeros = np.array([-0.0, 0.0], np.float32)
    for source in (zeros, zeros[::-1].copy()):
        got = [
            impl.index_reduce(
                zeros[:1], 0, np.zeros(2, int), source, reduce, include_self=include_self
            )
            for reduce in ("amin", "amax")
            for include_self in (True, False)
        ]
        assert np.signbit(got).ravel().tolist() == [True, True, False, False]


def test_unique_indices_need_no_order():
    index = np.array([[2], [0], [3]])
    source, initial = np.array([[2.0], [3], [4]], np.float32), np.ones((4, 1), np.float32)
    for function, want in [
        (lambda x, **o: impl.scatter(x, 0, index, source, **o), [3, 1, 2, 4]),
        (lambda x, **o: impl.scatter(x, 0, index, source, reduce="multiply", **o), [3, 1, 2, 4]),
        (lambda x, **o: impl.scatter_reduce(x, 0, index, source, "sum", **o), [4, 1, 3, 5]),
        (
            lambda x, **o: impl.index_reduce(x, 0, index[:, 0], source, "mean", **o),
            [2, 1, 1.5, 2.5],
        ),
        (lambda x, **o: impl.index_copy(x, 0, index[:, 0], source, **o), [3, 1, 2, 4]),
    ]:
        assert function(initial, unique_indices=True)[:, 0].tolist() == want
        free = lower(functools.partial(function, unique_indices=True), initial)
        with impl.deterministic(False):
            off = lower(function, initial)
        assert kernels(free) == kernels(off) != kernels(lower(function, initial))

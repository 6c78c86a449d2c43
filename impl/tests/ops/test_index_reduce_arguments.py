"""Bad arguments of index_reduce, and indices that are out of range."""

import jax
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import ONE, PAIR, M, S, V, at
from impl.tests.ops._scatters import (
    IN_RANGE,
    INDEX,
    SIZE,
    assert_dropped_updates_have_no_gradient,
    assert_wide_indices_are_dropped,
)
from impl.tests.support import references
from impl.tests.support.bits import assert_all_same_bits
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.numbers import whole
from impl.tests.support.refusals import BadArguments, Call

complete = pytest.mark.usefixtures("complete")

I = ONE  # noqa: E741
CALLS: list[Call] = [
    ("index_reduce", (V, 0, I, S, "sum"), {}, RuntimeError, "'prod', 'mean', 'amax', 'amin', but"),
    ("index_reduce", (V, 0, I, S, 1), {}, TypeError, "'reduce' must be str"),
    ("index_reduce", (V, 0, I, S, "mean"), {"include_self": None}, TypeError, "must be bool"),
    ("index_reduce", (V, 0, at(3), S, "mean"), {}, IndexError, "index 3 is out of bounds"),
    ("index_reduce", (M, 0, at(0, -1), PAIR, "amax"), {}, IndexError, "index -1 is out of"),
    ("index_reduce", (V, 0, I[None], S, "prod"), {}, IndexError, "to be a vector, but got dim: 2"),
    ("index_reduce", (V, 0, I, PAIR[0], "prod"), {}, RuntimeError, "Number of indices (1)"),
    ("index_reduce", (M, 0, I, S, "prod"), {}, RuntimeError, "source.shape = [1]"),
    ("index_reduce", (V, 0, I, S.astype(np.int32), "prod"), {}, RuntimeError, "the same dtype"),
]
UNLIKE_TORCH: list[Call] = [
    ("index_reduce", (V, 0, I, S, "mean"), {"unique_indices": 1}, TypeError, "unique_indices"),
]


class TestBadArguments(BadArguments):
    calls = CALLS
    unlike_torch = UNLIKE_TORCH


#: The keywords of some reductions.
SOME = [
    {"reduce": "mean", "include_self": False},
    {"reduce": "amax", "include_self": False},
    {"reduce": "prod", "include_self": True},
]


def results_and_references(x, index, source, in_range):
    """Returns some reductions for traced arrays, and for the indices in range.

    The arrays hold whole numbers, for which a reference has the bits of every order.
    """
    results = jax.jit(lambda x, i, s: [impl.index_reduce(x, 0, i, s, **o) for o in SOME])
    wanted = [
        references.scattered(x, 0, index[in_range], source[in_range], **options).astype(x.dtype)
        for options in SOME
    ]
    return results(x, index, source), wanted


@pytest.mark.usefixtures("path")
def test_updates_out_of_range_are_dropped():
    rng = np.random.default_rng(0)
    input, source = whole(rng, (SIZE, 2)), whole(rng, (len(INDEX), 2))
    assert_all_same_bits(*results_and_references(input, INDEX, source, IN_RANGE))


@complete
@pytest.mark.parametrize("name", ["native", "seed 1"])
def test_a_wide_index_is_not_narrowed_first(name):
    with LOWERINGS[name]():
        assert_wide_indices_are_dropped(results_and_references)


@complete
def test_gradients_of_dropped_updates_are_zero():
    assert_dropped_updates_have_no_gradient(
        lambda x, i, s: [impl.index_reduce(x, 0, i, s, **options) for options in SOME]
    )

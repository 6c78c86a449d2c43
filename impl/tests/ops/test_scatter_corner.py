"""scatter, scatter_add and scatter_reduce, whose index has as many dimensions as the input.

Tests: impl.ops.scatter_add, impl.ops.scatter_reduce.
"""

import functools

import jax
import numpy as np
import pytest

import impl
from impl.tests.ops._scatters import (
    REDUCTIONS,
    assert_unique_indices_need_no_order,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.lowerings import LOWERINGS

complete = pytest.mark.usefixtures("complete")

# Values.


# Bits. The suite tests them with the index as an argument; here it is part of the program.

RNG = np.random.default_rng(0)
MANY = RNG.integers(0, 4, 2100)


@complete
@pytest.mark.parametrize("name", ["native", "seed 1"])
def test_elements_without_updates_keep_their_bits(name):
    initial = np.array([-0.0, 0, np.nan, 7], np.float32)
    initial[2:3] = np.array([0x7FC12345], np.uint32).view(np.float32)
    index, source = np.array([3, 3, 3]), np.array([1, 2, 3], np.float32)

    def calls(x, s):
        return [
            impl.scatter(x, 0, index, s),
            *(impl.scatter_reduce(x, 0, index, s, **options) for options in others),
        ]

    # An exact sum turns -0 into 0, since the initial value is one of its terms.
    others = [options for options in REDUCTIONS if options["reduce"] not in ("sum", "mean")]
    with LOWERINGS[name]():
        for got in jax.jit(calls)(initial, source):
            assert_same_bits(got[:3], initial[:3])


@pytest.mark.triton
@complete
@pytest.mark.parametrize(
    ("op", "arguments", "want"),
    [
        ("scatter", (), [3, 1, 2, 4]),
        ("scatter", ("multiply",), [3, 1, 2, 4]),
        ("scatter_reduce", ("sum",), [4, 1, 3, 5]),
    ],
)
def test_unique_indices_need_no_order(op, arguments, want):
    index, source = np.array([[2], [0], [3]]), np.array([[2.0], [3], [4]], np.float32)
    options = {"reduce": arguments[0]} if arguments else {}
    function = functools.partial(
        lambda x, **more: getattr(impl, op)(x, 0, index, source, **options, **more)
    )
    writes = op == "scatter" and not arguments
    assert_unique_indices_need_no_order(function, np.ones((4, 1), np.float32), want, writes=writes)

"""gather: bits of its gradient, bad arguments, and indices that are out of range.

Tests: impl._primitives.gather.
"""

import jax
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import ONE, POINT, SCALAR, SHORT, SQUARE, M, V, at
from impl.tests.ops._scatters import contributions
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.refusals import BadArguments, Call
from impl.tests.support.sums import in_order

complete = pytest.mark.usefixtures("complete")


@complete
def test_integers_are_differentiated_through():
    index = np.array([[2, 2, 2], [0, 1, 0], [2, 0, 2], [1, 1, 1], [2, 2, 0]])

    def function(x, i):
        counts = impl.bincount(i, minlength=3)
        best = impl.kthvalue(i, 1).indices
        return (impl.gather(x, 0, index) * impl.cumsum(counts, 0)[2]).sum() + best

    gradient = jax.grad(function)(np.ones((3, 3), np.float32), np.array([2, 0, 2, 1, 2]))
    want = np.zeros((3, 3), np.float32)
    for row in index:
        want[row, [0, 1, 2]] += 5
    assert_same_bits(gradient, want)


@complete
@pytest.mark.usefixtures("lowering")
def test_bits_of_the_gradient():
    initial, index, weight = contributions(3, 1030, 2, np.float16)
    x, weight = initial[:, :1], weight[:, :1]
    pullback = jax.jit(lambda x, w: jax.vjp(lambda x: impl.gather(x, 1, index[None]), x)[1](w)[0])
    want = in_order(np.zeros_like(x), index, weight)
    assert_same_bits(pullback(x.T, weight.T), want.T)


# Bad arguments, and indices that are out of range.

CALLS: list[Call] = [
    ("gather", (V, 2, ONE), {}, IndexError, "but got 2"),
    ("gather", (V, None, ONE), {}, TypeError, "'dim' must be int, not NoneType"),
    ("gather", ([1.0], 0, ONE), {}, TypeError, "'input' must be"),
    ("gather", (V, 0, SHORT), {}, RuntimeError, "for index but got: int16"),
    ("gather", (M, 0, ONE), {}, RuntimeError, "as many dimensions"),
    ("gather", (M, 0, POINT), {}, RuntimeError, "as many dimensions"),
    ("gather", (M, 1, POINT), {}, RuntimeError, "as many dimensions"),
    ("gather", (SCALAR, 0, SQUARE), {}, RuntimeError, "as many dimensions"),
    ("gather", (M, 0, np.zeros((1, 3), int)), {}, RuntimeError, "index [1, 3] to be no larger"),
    ("gather", (V, 0, at(0, 3)), {}, RuntimeError, "index 3 is out of bounds"),
    ("gather", (V, 0, at(-1)), {}, RuntimeError, "position [0]"),
    ("gather", (V[:0], 0, ONE), {}, RuntimeError, "none is allowed"),
]


class TestBadArguments(BadArguments):
    calls = CALLS


def test_a_known_index_is_checked_under_jit_too():
    with pytest.raises(RuntimeError, match="index 3 is out of bounds"):
        jax.jit(lambda x: impl.gather(x, 0, at(3)))(V)

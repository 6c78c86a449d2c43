"""adaptive_avg_pool1d, 2d and 3d; ``test_pooling`` has the properties of all pools."""

import jax
import numpy as np
import pytest

import impl
from impl.tests.nn.support import window_sums
from impl.tests.nn.support.arrays import ones
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.lowerings import DISTINCT, LOWERINGS
from impl.tests.support.numbers import spread
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


@pytest.mark.parametrize("name", DISTINCT)
def test_bits_of_adaptive_avg_pool2d(name):
    x = total = spread(np.random.default_rng(0), (3, 7, 11))
    windows = [window_sums.adaptive(7, 3), window_sums.adaptive(11, 4)]
    for axis in (2, 1):
        of_dim = windows[axis - 1]
        most = max(map(len, of_dim))
        indices = np.array([window + [-1] * (most - len(window)) for window in of_dim])
        total = np.moveaxis(oracles.window(np.moveaxis(total, axis, 0), indices), 0, axis)
    count = window_sums.count_within(windows, [(0, 7), (0, 11)])
    with LOWERINGS[name]():
        got = jax.jit(lambda x: F.adaptive_avg_pool2d(x, (3, 4)))(x)
    assert_same_bits(got, total * (1 / count).astype(np.float32))


def test_the_facts_state_one_element_per_channel_and_overlapping_windows():
    def facts(op, output_size):
        with impl.testing.questions() as questions:
            jax.eval_shape(lambda x: op(x, output_size), ones(3, 6, 5))
        (question,) = questions
        assert question.direction == "backward"
        return tuple(question.facts[name] for name in ("output_size_is_one", "overlapping"))

    assert facts(F.adaptive_avg_pool2d, 1) == (True, False)
    assert facts(F.adaptive_avg_pool2d, (1, 5)) == (False, False)
    assert facts(F.adaptive_avg_pool2d, (1, 3)) == (False, True)
    assert facts(F.adaptive_avg_pool1d, 1) == (True, False)
    assert facts(F.adaptive_avg_pool1d, 10) == (False, True)


L, HW, DHW = ones(2, 3, 6), ones(3, 6, 6), ones(3, 6, 6, 6)
#: op, positional arguments, exception, fragment of the message
BAD: list[Call] = [
    ("adaptive_avg_pool1d", (ones(6), 1), RuntimeError, "2 or 3 (batch mode)"),
    ("adaptive_avg_pool2d", (ones(6, 6), 2), RuntimeError, "3 or 4 (batch mode)"),
    ("adaptive_avg_pool3d", (ones(1, 1, 1, 6, 6, 6), 2), RuntimeError, "4 or 5 (batch mode)"),
    ("adaptive_avg_pool1d", (ones(2, 3, 0), 2), RuntimeError, "non-zero size"),
    ("adaptive_avg_pool2d", (ones(2, 3, 6, 0), 0), RuntimeError, "non-zero size"),
    ("adaptive_avg_pool1d", (L, -1), RuntimeError, "greater than or equal to 0, but got [-1]"),
    ("adaptive_avg_pool2d", (HW, (1, -2)), RuntimeError, "but got [1, -2]"),
    ("adaptive_avg_pool1d", (L, None), TypeError, "'output_size' must be int, not NoneType"),
    ("adaptive_avg_pool1d", (L, (None,)), TypeError, "must be int, not NoneType"),
    ("adaptive_avg_pool2d", (HW, None), TypeError, "must be int, not NoneType"),
    ("adaptive_avg_pool1d", (L, (2, 2)), RuntimeError, "must be an int or 1 of them"),
    ("adaptive_avg_pool2d", (HW, (2,)), RuntimeError, "must be an int or 2 of them"),
    ("adaptive_avg_pool3d", (DHW, (2, 2)), RuntimeError, "must be an int or 3 of them"),
    ("adaptive_avg_pool2d", (HW, (1, 2, 3)), ValueError, "at least 4 dimensions for 3 sizes"),
    ("adaptive_avg_pool2d", (ones(2, 3, 6, 6), (1, 2, 3)), RuntimeError, "an int or 2 of them"),
    ("adaptive_avg_pool2d", (ones(6, 6), (1, 2)), ValueError, "'output_size', but has 2"),
    ("adaptive_avg_pool3d", (DHW, (1, 2, 3, 4)), ValueError, "at least 5 dimensions"),
    ("adaptive_avg_pool1d", (L, 2.0), TypeError, "'output_size' must be int, not float"),
    ("adaptive_avg_pool2d", (HW, True), TypeError, "'output_size' must be int, not bool"),
    ("adaptive_avg_pool1d", (L.astype(int), 2), NotImplementedError, "not implemented for int32"),
    ("adaptive_avg_pool3d", (DHW.astype(bool), 2), NotImplementedError, "takes floats"),
    ("adaptive_avg_pool2d", (HW.astype(np.complex64), 2), NotImplementedError, "for complex64"),
]  # fmt: skip
#: PyTorch takes anything for an array here, and fails in the functions that it calls.
OWN: list[Call] = [
    ("adaptive_avg_pool1d", ([1.0], 1), TypeError, "'input' must be"),
]


class TestBadArguments(BadArgumentsOfFunctional):
    calls = BAD
    unlike_torch = OWN

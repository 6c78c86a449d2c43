"""Pools of means and of norms.

Tests: impl.nn.functional._pools.
"""

import jax
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


def test_quotients_of_integers_are_rounded_towards_zero_by_avg_pool1d_and_avg_pool2d():
    x = np.array([[-3, 0, 5, 2, -7, 4]], np.int32)
    assert F.avg_pool1d(x, 2).tolist() == [[-1, 3, -1]]
    assert F.avg_pool1d(x, 2, 2, 1, count_include_pad=False).tolist() == [[-3, 2, -2, 4]]
    assert F.avg_pool2d(x[None], (1, 2), divisor_override=-2).tolist() == [[[1, -3, 1]]]
    assert F.avg_pool2d(x[None], (1, 2), divisor_override=2**40).tolist() == [[[0, 0, 0]]]
    with jax.enable_x64(True):
        got = F.avg_pool1d(x.astype(np.int64) * 2**40, 2)
        assert got.dtype == np.int64
        assert got.tolist() == [[-3 * 2**39, 7 * 2**39, -3 * 2**39]]


def test_the_facts_state_one_element_per_channel():
    def facts(op, output_size):
        with impl.testing.questions() as questions:
            jax.eval_shape(lambda x: op(x, output_size), np.ones((3, 6, 5), np.float32))
        (question,) = questions
        assert question.direction == "backward"
        return question.facts["output_size_is_one"]

    assert facts(F.adaptive_avg_pool2d, 1)
    assert not facts(F.adaptive_avg_pool2d, (1, 5))
    assert facts(F.adaptive_avg_pool1d, 1)
    assert not facts(F.adaptive_avg_pool1d, 10)


def test_the_gradient_of_no_elements_is_zero():
    @jax.jit
    @jax.grad
    def gradient(x):
        key = jax.random.key(0)
        results = (
            F.adaptive_avg_pool2d(x, (0, 3)),
            F.adaptive_max_pool2d(x, (3, 0)),
            F.fractional_max_pool2d(x, 2, (3, 0), key=key),
            F.interpolate(x, 0, mode="area"),
            *(F.pad(x, (1, 1, -3, -3), mode) for mode in ("reflect", "replicate", "circular")),
        )
        return sum(result.sum() for result in results)

    x = np.ones((2, 3, 6, 5), np.float32)
    assert_same_bits(gradient(x), np.zeros_like(x))


def test_lp_pool2d_gives_the_gradient_to_the_first_of_equal_elements():
    x = np.array([[[-2, 2, 2], [2, -2, 2]]], np.float32)
    for power in (np.inf, -np.inf):
        norm = lambda x, power=power: F.lp_pool2d(x, power, (2, 3)).sum()  # noqa: E731
        out, gradient = jax.jit(jax.value_and_grad(norm))(x)
        assert out == 2
        assert gradient.tolist() == [[[-1, 0, 0], [0, 0, 0]]]

"""Pools of means and of norms.

Tests: impl.nn.functional._pools.
"""

import jax
import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import normal, ones
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.refusals import Call, bad_arguments

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


L, HW, DHW = ones(2, 3, 6), ones(3, 6, 6), ones(3, 6, 6, 6)
#: Calls of pools of windows, and of adaptive ones: number of dimensions, positional arguments,
#: keywords, exception, fragment of the message.
OF_WINDOWS: list[Call] = [
    (1, ([[1.0]], 1), TypeError, "'input' must be"),
    (1, (ones(6), 2), RuntimeError, "2 or 3 (batch mode) dimensions, but got"),
    (1, (ones(1, 1, 1, 6), 2), RuntimeError, "but got shape [1, 1, 1, 6]"),
    (2, (ones(1, 1, 1, 6, 6), 2), RuntimeError, "3 or 4 (batch mode)"),
    (3, (ones(6, 6, 6), 2), RuntimeError, "4 or 5 (batch mode)"),
    (1, (ones(2, 0, 6), 2), RuntimeError, "but got shape [2, 0, 6]"),
    (3, (ones(2, 3, 6, 0, 6), 2), RuntimeError, "non-zero size"),
    (1, (L, 0), RuntimeError, "kernel_size should be greater than zero"),
    (2, (HW, (2, -1)), RuntimeError, "kernel_size should be greater than zero"),
    (1, (L, 2, 0), RuntimeError, "stride should be greater than zero, but got [0]"),
    (3, (DHW, 2, (1, -1, 1)), RuntimeError, "stride should be greater than zero"),
    (1, (L, 2, 1, -1), RuntimeError, "padding must be non-negative, but got [-1]"),
    (2, (HW, 3, 1, (1, 2)), RuntimeError, "at most half of kernel_size"),
    (1, (L, 8), RuntimeError, "size 6 gives an output of size 0"),
    (1, (L, (2, 2)), RuntimeError, "'kernel_size' must be an int or 1 of them"),
    (2, (HW, (2, 2, 2)), RuntimeError, "'kernel_size' must be an int or 2 of them"),
    (3, (DHW, 2, (2, 2)), RuntimeError, "'stride' must be an int or 3 of them"),
    (2, (HW, 2, 2, (0, 0, 0)), RuntimeError, "'padding' must be an int or 2"),
    (1, (L, 2.0), TypeError, "'kernel_size' must be int, not float"),
    (1, (L, True), TypeError, "'kernel_size' must be int, not bool"),
    (2, (HW, None), TypeError, "'kernel_size' must be int, not NoneType"),
    (2, (HW, 2, "2"), TypeError, "'stride' must be int, not str"),
    (2, (HW, 2), {"ceil_mode": 1}, TypeError, "'ceil_mode' must be bool, not int"),
    (2, (HW.astype(bool), 2), NotImplementedError, "not implemented for bool"),
    (3, (DHW.astype(np.complex64), 2), NotImplementedError, "for complex64"),
]  # fmt: skip
OF_SIZES: list[Call] = [
    (1, (ones(6), 1), RuntimeError, "2 or 3 (batch mode)"),
    (2, (ones(6, 6), 2), RuntimeError, "3 or 4 (batch mode)"),
    (3, (ones(1, 1, 1, 6, 6, 6), 2), RuntimeError, "4 or 5 (batch mode)"),
    (1, (ones(2, 3, 0), 2), RuntimeError, "non-zero size"),
    (2, (ones(2, 3, 6, 0), 0), RuntimeError, "non-zero size"),
    (1, (L, -1), RuntimeError, "greater than or equal to 0, but got [-1]"),
    (2, (HW, (1, -2)), RuntimeError, "but got [1, -2]"),
    (1, (L, None), TypeError, "'output_size' must be int, not NoneType"),
    (1, (L, (None,)), TypeError, "must be int, not NoneType"),
    (2, (HW, None), TypeError, "must be int, not NoneType"),
    (1, (L, (2, 2)), RuntimeError, "must be an int or 1 of them"),
    (2, (HW, (2,)), RuntimeError, "must be an int or 2 of them"),
    (3, (DHW, (2, 2)), RuntimeError, "must be an int or 3 of them"),
    (2, (HW, (1, 2, 3)), ValueError, "at least 4 dimensions for 3 sizes"),
    (2, (ones(2, 3, 6, 6), (1, 2, 3)), RuntimeError, "an int or 2 of them"),
    (2, (ones(6, 6), (1, 2)), ValueError, "'output_size', but has 2"),
    (3, (DHW, (1, 2, 3, 4)), ValueError, "at least 5 dimensions"),
    (1, (L, 2.0), TypeError, "'output_size' must be int, not float"),
    (2, (HW, True), TypeError, "'output_size' must be int, not bool"),
    (1, (L.astype(int), 2), NotImplementedError, "not implemented for int32"),
    (3, (DHW.astype(bool), 2), NotImplementedError, "takes floats"),
    (2, (HW.astype(np.complex64), 2), NotImplementedError, "for complex64"),
]  # fmt: skip
#: op, and the rest of such an entry
BAD: list[Call] = [
    *(
        (f"{kind}{dims}d", *call)
        for pool in ("avg_pool", "max_pool")
        for kind, calls in ((pool, OF_WINDOWS), (f"adaptive_{pool}", OF_SIZES))
        for dims, *call in calls
    ),
    ("avg_pool2d", (ones(2, 0, 6), 2), RuntimeError, "non-zero size"),
    ("avg_pool2d", (HW, (2, 7)), RuntimeError, "gives an output of size 3x0"),
    ("avg_pool3d", (DHW, 7, 1, 1), RuntimeError, "smaller than kernel_size [7, 7, 7]"),
    ("avg_pool2d", (HW, 2, 2, (0, 0.5)), TypeError, "'padding[1]' must be int, not float"),
    ("avg_pool1d", (L, 2), {"count_include_pad": 0}, TypeError, "'count_include_pad' must be bool"),
    ("avg_pool2d", (HW, 2), {"divisor_override": 0}, RuntimeError, "must be not zero"),
    ("avg_pool3d", (DHW, 2), {"divisor_override": 2.0}, TypeError, "must be int, not float"),
    ("avg_pool2d", (HW, 2), {"divisor_override": True}, TypeError, "must be int, not bool"),
    ("avg_pool1d", (L.astype(np.uint8), 2), NotImplementedError, "not implemented for uint8"),
    ("lp_pool1d", (ones(6), 2, 2), RuntimeError, "2 or 3 (batch mode)"),
    ("lp_pool2d", (ones(1, 1, 1, 6, 6), 2, 2), RuntimeError, "3 or 4 (batch mode)"),
    ("lp_pool2d", (ones(2, 0, 6), 2, 2), RuntimeError, "non-zero size"),
    ("lp_pool1d", (L, 0, 2), ZeroDivisionError, "norm_type must not be zero"),
    ("lp_pool2d", (HW, "2", 2), TypeError, "'norm_type' must be a number, not str"),
    ("lp_pool1d", (L, None, 2), TypeError, "must be a number, not NoneType"),
    ("lp_pool1d", (L, 2, 0), RuntimeError, "kernel_size should be greater than zero"),
    ("lp_pool2d", (HW, 2, 2, 0), RuntimeError, "stride should be greater than zero"),
    ("lp_pool1d", (L, 2, 9), RuntimeError, "too small"),
    ("lp_pool2d", (HW, 2, 2.0), TypeError, "'kernel_size' must be int, not float"),
    ("lp_pool1d", (L, 2, 2, 2, 1), TypeError, "'ceil_mode' must be bool, not int"),
    ("lp_pool1d", (L.astype(np.int32), 2, 2), NotImplementedError, "not implemented for int32"),
    ("lp_pool2d", (HW.astype(np.complex64), 2, 2), NotImplementedError, "for complex64"),
]  # fmt: skip
#: PyTorch takes anything for an array here, and fails in the functions that it calls.
OWN: list[Call] = [
    ("adaptive_avg_pool1d", ([1.0], 1), TypeError, "'input' must be"),
    ("lp_pool1d", ([1.0], 2, 1), TypeError, "'input' must be"),
]
TestBadArguments = bad_arguments(BAD, OWN)


def test_forms_of_the_arguments_of_avg_pool2d():
    x = normal((3, 6, 6))
    want = F.avg_pool2d(x, (2, 2), (2, 2), (0, 0))
    for arguments in [(2,), ([2],), ((2,), []), ([2, 2], (2,), [0]), (np.int64(2), None)]:
        assert_same_bits(F.avg_pool2d(x, *arguments), want)


def test_the_facts_state_one_element_per_channel():
    def facts(op, output_size):
        with impl.testing.questions() as questions:
            jax.eval_shape(lambda x: op(x, output_size), ones(3, 6, 5))
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

    x = ones(2, 3, 6, 5)
    assert_same_bits(gradient(x), np.zeros_like(x))


def test_lp_pool2d_gives_the_gradient_to_the_first_of_equal_elements():
    x = np.array([[[-2, 2, 2], [2, -2, 2]]], np.float32)
    for power in (np.inf, -np.inf):
        norm = lambda x, power=power: F.lp_pool2d(x, power, (2, 3)).sum()  # noqa: E731
        out, gradient = jax.jit(jax.value_and_grad(norm))(x)
        assert out == 2
        assert gradient.tolist() == [[[-1, 0, 0], [0, 0, 0]]]

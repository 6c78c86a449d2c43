"""avg_pool1d, avg_pool2d and avg_pool3d; ``test_pooling`` has the properties of all pools."""

import jax
import numpy as np
import pytest

import impl
from impl.tests.nn.support import window_sums
from impl.tests.nn.support.arrays import normal, ones
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.lowerings import DISTINCT, LOWERINGS
from impl.tests.support.numbers import spread
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")


@pytest.mark.parametrize("name", DISTINCT)
def test_bits_of_avg_pool3d(name):
    x = spread(np.random.default_rng(0), (2, 9, 3, 11))
    total = x
    for axis, k in ((3, 5), (2, 2), (1, 4)):
        indices = np.array(window_sums.fixed(x.shape[axis], k, 1))
        total = np.moveaxis(oracles.window(np.moveaxis(total, axis, 0), indices), 0, axis)
    with LOWERINGS[name]():
        got = jax.jit(lambda x: F.avg_pool3d(x, (4, 2, 5), 1))(x)
    assert_same_bits(got, total * np.float32(1 / 40))


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
#: op, positional arguments, keywords, exception, fragment of the message
BAD: list[Call] = [
    ("avg_pool1d", ([[1.0]], 1), {}, TypeError, "'input' must be"),
    ("avg_pool1d", (ones(6), 2), {}, RuntimeError, "2 or 3 (batch mode) dimensions, but got"),
    ("avg_pool1d", (ones(1, 1, 1, 6), 2), {}, RuntimeError, "but got shape [1, 1, 1, 6]"),
    ("avg_pool2d", (ones(1, 1, 1, 6, 6), 2), {}, RuntimeError, "3 or 4 (batch mode)"),
    ("avg_pool3d", (ones(6, 6, 6), 2), {}, RuntimeError, "4 or 5 (batch mode)"),
    ("avg_pool1d", (ones(2, 0, 6), 2), {}, RuntimeError, "but got shape [2, 0, 6]"),
    ("avg_pool2d", (ones(2, 0, 6), 2), {}, RuntimeError, "non-zero size"),
    ("avg_pool3d", (ones(2, 3, 6, 0, 6), 2), {}, RuntimeError, "non-zero size"),
    ("avg_pool1d", (L, 0), {}, RuntimeError, "kernel_size should be greater than zero"),
    ("avg_pool2d", (HW, (2, -1)), {}, RuntimeError, "kernel_size should be greater than zero"),
    ("avg_pool1d", (L, 2, 0), {}, RuntimeError, "stride should be greater than zero, but got [0]"),
    ("avg_pool3d", (DHW, 2, (1, -1, 1)), {}, RuntimeError, "stride should be greater than zero"),
    ("avg_pool1d", (L, 2, 1, -1), {}, RuntimeError, "padding must be non-negative, but got [-1]"),
    ("avg_pool2d", (HW, 3, 1, (1, 2)), {}, RuntimeError, "at most half of kernel_size"),
    ("avg_pool1d", (L, 8), {}, RuntimeError, "size 6 gives an output of size 0"),
    ("avg_pool2d", (HW, (2, 7)), {}, RuntimeError, "gives an output of size 3x0"),
    ("avg_pool3d", (DHW, 7, 1, 1), {}, RuntimeError, "smaller than kernel_size [7, 7, 7]"),
    ("avg_pool1d", (L, (2, 2)), {}, RuntimeError, "'kernel_size' must be an int or 1 of them"),
    ("avg_pool2d", (HW, (2, 2, 2)), {}, RuntimeError, "'kernel_size' must be an int or 2 of them"),
    ("avg_pool3d", (DHW, 2, (2, 2)), {}, RuntimeError, "'stride' must be an int or 3 of them"),
    ("avg_pool2d", (HW, 2, 2, (0, 0, 0)), {}, RuntimeError, "'padding' must be an int or 2"),
    ("avg_pool1d", (L, 2.0), {}, TypeError, "'kernel_size' must be int, not float"),
    ("avg_pool1d", (L, True), {}, TypeError, "'kernel_size' must be int, not bool"),
    ("avg_pool2d", (HW, None), {}, TypeError, "'kernel_size' must be int, not NoneType"),
    ("avg_pool2d", (HW, 2, "2"), {}, TypeError, "'stride' must be int, not str"),
    ("avg_pool2d", (HW, 2, 2, (0, 0.5)), {}, TypeError, "'padding[1]' must be int, not float"),
    ("avg_pool2d", (HW, 2), {"ceil_mode": 1}, TypeError, "'ceil_mode' must be bool, not int"),
    ("avg_pool1d", (L, 2), {"count_include_pad": 0}, TypeError, "'count_include_pad' must be bool"),
    ("avg_pool2d", (HW, 2), {"divisor_override": 0}, RuntimeError, "must be not zero"),
    ("avg_pool3d", (DHW, 2), {"divisor_override": 2.0}, TypeError, "must be int, not float"),
    ("avg_pool2d", (HW, 2), {"divisor_override": True}, TypeError, "must be int, not bool"),
    ("avg_pool1d", (L.astype(np.uint8), 2), {}, NotImplementedError, "not implemented for uint8"),
    ("avg_pool2d", (HW.astype(bool), 2), {}, NotImplementedError, "not implemented for bool"),
    ("avg_pool3d", (DHW.astype(np.complex64), 2), {}, NotImplementedError, "for complex64"),
]  # fmt: skip


class TestBadArguments(BadArgumentsOfFunctional):
    calls = BAD


def test_forms_of_the_arguments_of_avg_pool2d():
    x = normal((3, 6, 6))
    want = F.avg_pool2d(x, (2, 2), (2, 2), (0, 0))
    for arguments in [(2,), ([2],), ((2,), []), ([2, 2], (2,), [0]), (np.int64(2), None)]:
        assert_same_bits(F.avg_pool2d(x, *arguments), want)

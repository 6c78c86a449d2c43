"""take_along_dim: bad arguments, indices that are out of range."""

import jax
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import COLUMN, POINT, SCALAR, M, V, at
from impl.tests.ops._indices import (
    WIDE,
    assert_reads_out_of_range_are_filled,
)
from impl.tests.support.refusals import BadArguments, Call

complete = pytest.mark.usefixtures("complete")


CALLS: list[Call] = [
    ("take_along_dim", (M, COLUMN, 2), {}, IndexError, "but got 2"),
    ("take_along_dim", (M, COLUMN, 1.0), {}, TypeError, "'dim' must be int, not float"),
    ("take_along_dim", (SCALAR, POINT, 0), {}, IndexError, "Dimension specified as 0"),
    ("take_along_dim", (M, at(0), 0), {}, RuntimeError, "same number of dimensions, but got 2"),
    ("take_along_dim", (M, COLUMN[:2], 1), {}, RuntimeError, "(2) at non-singleton dimension 0"),
    ("take_along_dim", (V, at(3)), {}, RuntimeError, "index 3 is out of bounds for an input of 3"),
    ("take_along_dim", (V, at(-1)), {}, RuntimeError, "allowed are 0 to 2"),
    ("take_along_dim", (V, at(0.0)), {}, RuntimeError, "int32/int64 for indices but got: float64"),
    ("take_along_dim", (V, [0]), {}, TypeError, "'indices' must be"),
]
UNLIKE_TORCH: list[Call] = [
    # On a CPU, PyTorch takes these indices modulo the size.
    ("take_along_dim", (M, COLUMN + 2, 1), {}, RuntimeError, "index 2 is out of bounds"),
    ("take_along_dim", (M, COLUMN - 3, 1), {}, RuntimeError, "allowed are -2 to 1"),
]


class TestBadArguments(BadArguments):
    calls = CALLS
    unlike_torch = UNLIKE_TORCH


@pytest.mark.usefixtures("path")
def test_reads_out_of_range_give_the_fill_value_and_no_gradient():
    assert_reads_out_of_range_are_filled(
        [
            lambda x, index: impl.take_along_dim(x, index[:, None], 0),
            lambda x, index: impl.take_along_dim(x.T[None], index[None, None], -1)[0].T,
        ]
    )


def test_a_wide_index_is_not_narrowed_first():
    with jax.enable_x64(True):
        got = jax.jit(lambda x, i: impl.take_along_dim(x, i, 0))(np.zeros(3), WIDE)
        assert np.isnan(got).tolist() == [True, False, True, True]


def test_under_jit_an_axis_without_elements():
    # No index can be in range, and still the program is traced: the value may never be read.
    got = jax.jit(lambda x, i: impl.take_along_dim(x, i, 0))(V[:0], at(0, -1))
    assert np.isnan(got).tolist() == [True, True]

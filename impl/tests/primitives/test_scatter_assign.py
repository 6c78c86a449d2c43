"""Scatter-assign: derivatives follow the write that stayed; batches."""

import functools

import jax
import numpy as np
import pytest

from impl._primitives.scatter_assign import scatter_assign
from impl.tests.primitives._scatters import (
    INDEX,
    assert_batch_has_the_bits_of_its_members,
    decision,
    lanes,
)
from impl.tests.support.lowerings import DISTINCT, LOWERINGS


@pytest.mark.parametrize("name", DISTINCT)
def test_a_gradient_belongs_to_the_write_that_stayed(name):
    x, u = lanes(1, 2, 3, 4), lanes(10, 20, 30, 40, 50, 60, 70, 80)
    with LOWERINGS[name]():
        assign = functools.partial(scatter_assign, decision=decision())
        out, pullback = jax.vjp(lambda x, u: assign(x, INDEX, u), x, u)
    np.testing.assert_array_equal(np.asarray(out).ravel(), [50, 40, 60, 4])
    of_x, of_u = (np.asarray(g).ravel() for g in pullback(lanes(1, 2, 3, 5)))
    np.testing.assert_array_equal(of_x, [0, 0, 0, 5])
    np.testing.assert_array_equal(of_u, [0, 0, 0, 2, 1, 3, 0, 0])


def test_a_batch_gives_the_bits_of_its_members():
    function = functools.partial(scatter_assign, decision=decision())
    assert_batch_has_the_bits_of_its_members(function)

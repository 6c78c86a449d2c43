"""Derivatives of scatter-accumulate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from impl._primitives.scatter_accumulate import scatter_accumulate
from impl.tests.primitives._scatters import INDEX, decision, lanes


def accumulate(by, path="ordered"):
    return lambda x, u: scatter_accumulate(x, INDEX, u, decision=decision(path), by=by)


@pytest.mark.parametrize("path", ["atomic", "ordered"])
@pytest.mark.parametrize("by", ["add", "mul", "min", "max"])
def test_derivatives_agree_with_finite_differences(by, path):
    x = lanes(0.5, -1.5, 2.5, 1.25)
    u = lanes(1.0, -2.0, 3.0, 0.75, -0.5, 1.75, 9.0, 9.0)
    check_grads(accumulate(by, path), (x, u), order=1, modes=["fwd", "rev"], atol=2e-2, rtol=2e-2)


def test_derivatives_of_products_with_zeros():
    def gradients(x, u):
        out, pullback = jax.vjp(accumulate("mul"), x, u)
        return [np.asarray(g).ravel() for g in pullback(jnp.ones_like(out))]

    # The first element has two zeros among its factors, the second has one, the third none.
    of_x, of_u = gradients(lanes(0, 2, 3, 5), lanes(4, 2, 0, 0, 6, 7, 9, 9))
    np.testing.assert_array_equal(of_x, [0, 0, 14, 1])
    np.testing.assert_array_equal(of_u, [0, 21, 0, 2, 0, 6, 0, 0])


@pytest.mark.parametrize("by", ["min", "max"])
def test_equal_extremes_share_their_gradient_evenly(by):
    x, u = lanes(3, 1, 2, 0), lanes(3, 2, 3, 1, 3, 2, 9, 9)
    out, pullback = jax.vjp(accumulate(by), x, u)
    np.testing.assert_array_equal(np.asarray(out).ravel(), [3, 1, 2, 0])
    of_x, of_u = (np.asarray(g).ravel() for g in pullback(lanes(1, 1, 1, 1)))
    third = np.float32(1) / np.float32(3)
    np.testing.assert_array_equal(of_x, [0.25, 0.5, third, 1])
    np.testing.assert_array_equal(of_u, [0.25, third, 0.25, 0.5, 0.25, third, 0, 0])

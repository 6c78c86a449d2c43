"""A device that keeps subnormal floats drops those that a CPU takes for zero, and no other.

A CPU of this kind flushes whatever a program does, so NumPy plays the device that keeps them.

Tests: impl._exact.arithmetic.
"""

import jax
import numpy as np
import pytest
from jax.extend.core import Literal

from impl._exact import arithmetic
from impl._portable.rules import rounding
from spec.oracles import nearest

#: In units of half of the last bit of a float below the least normal one.
STEPS = np.concatenate([np.linspace(-4, 4, 65), np.random.default_rng(0).uniform(-4, 4, 2000)])
BELOW_AND_ABOVE = 2.0**-126 * (1 + STEPS * 2.0**-25)

NUMPY = {
    "abs": np.abs,
    "and": np.bitwise_and,
    "lt": np.less,
    "min": np.minimum,
    "mul": np.multiply,
    "select_n": lambda chosen, other, one: np.where(chosen, one, other),
}
WITH_PARAMETERS = {
    "bitcast_convert_type": lambda x, new_dtype: x.view(new_dtype),
    "broadcast_in_dim": lambda x, shape, **_: np.broadcast_to(x, shape),
    "convert_element_type": lambda x, new_dtype, **_: x.astype(new_dtype),
}


def by_numpy(function, *arrays):
    """Computes a function of jax.lax with NumPy, which keeps subnormal floats."""
    with arithmetic.wide():
        closed = jax.make_jaxpr(function)(*arrays)
    known = dict(zip(closed.jaxpr.invars, arrays, strict=True))
    known |= dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    for equation in closed.jaxpr.eqns:
        operands = [
            np.asarray(v.val if isinstance(v, Literal) else known[v]) for v in equation.invars
        ]
        name = equation.primitive.name
        if name in NUMPY:
            result = NUMPY[name](*operands)
        else:
            result = WITH_PARAMETERS[name](*operands, **equation.params)
        known[equation.outvars[0]] = result
    return known[closed.jaxpr.outvars[0]]


def test_products():
    a = np.random.default_rng(1).uniform(1, 2, STEPS.size).astype(np.float32)
    b = (BELOW_AND_ABOVE / a * 2.0**63).astype(np.float32)
    a *= np.float32(2.0**-63)
    of_cpu = np.asarray(jax.jit(jax.lax.mul)(a, b))
    found = by_numpy(lambda a, b: rounding.product(a, b, flushes=True), a, b)
    assert np.array_equal(found, of_cpu)
    assert 0 < np.count_nonzero(found) < found.size
    special = np.array([0.0, -0.0, 3e38, np.inf, -np.inf, np.nan, 1.5], np.float32)
    a, b = (each.ravel() for each in np.meshgrid(special, np.float32([0, -2, 3e38, np.inf])))
    with np.errstate(all="ignore"):
        found = by_numpy(lambda a, b: rounding.product(a, b, flushes=True), a, b)
        expected = a * b
    assert np.array_equal(found, expected, equal_nan=True)
    finite = ~np.isnan(expected)
    assert np.array_equal(np.signbit(found)[finite], np.signbit(expected)[finite])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rounding_once(dtype):
    results = []
    for are_kept in (True, False):
        with arithmetic.wide(), arithmetic.where_subnormals(are_kept=are_kept):
            results.append(jax.jit(lambda x: arithmetic.narrow(x, dtype))(BELOW_AND_ABOVE))
    kept, flushed = (np.asarray(result).astype(np.float64) for result in results)
    assert np.array_equal(kept, flushed)
    assert 0 < np.count_nonzero(kept) < kept.size
    of_oracle = nearest(BELOW_AND_ABOVE[None], dtype)
    assert np.array_equal(kept, of_oracle.astype(np.float64))

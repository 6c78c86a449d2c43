"""Calls that are written out: which calls, and that the equations compute the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._core.jax_internals import jaxpr_as_fun, jaxprs
from impl._reading.inlining import inlined

X = jnp.arange(3.0)


@jax.jit
def twice(x):
    return x + x


def nested(x):
    return jax.jit(lambda x: twice(x) * x)(x) - twice(x)


def names(jaxpr):
    return [each.primitive.name for each in jaxpr.eqns]


def test_nested_calls_become_one_flat_list_that_computes_the_same():
    closed = jax.make_jaxpr(nested)(X)
    flat = inlined(closed.jaxpr)
    assert names(flat) == ["add", "mul", "add", "sub"]
    result = jaxpr_as_fun(jaxprs.reclosed(closed, flat))(X)[0]
    np.testing.assert_array_equal(result, nested(X))


@pytest.mark.parametrize(
    "call",
    [
        jax.checkpoint(twice),
        jax.jit(twice, out_shardings=jax.sharding.SingleDeviceSharding(jax.devices()[0])),
    ],
    ids=["remat", "shardings"],
)
def test_a_call_that_means_more_than_its_equations_stays(call):
    jaxpr = jax.make_jaxpr(call)(X).jaxpr
    assert names(inlined(jaxpr)) == names(jaxpr)
    assert len(names(jaxpr)) == 1


def test_a_jaxpr_without_calls_stays_the_same_object():
    jaxpr = jax.make_jaxpr(jnp.sin)(X).jaxpr
    assert inlined(jaxpr) is jaxpr

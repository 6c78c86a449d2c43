"""Values that are known before a program runs, against the values when it runs."""

# ruff: noqa: ARG005  # Each of these programs gets all of the arguments.

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from impl._reading.values import Scope

#: Programs of integers, which read their argument only for its shape.
KNOWN = {
    "arithmetic": lambda x: (3 * jnp.arange(7) - 4) * jnp.arange(7),
    "wraps": lambda x: jnp.arange(7, dtype=jnp.int8) * jnp.int8(60),
    "unsigned": lambda x: jnp.arange(7, dtype=jnp.uint8) - jnp.uint8(3),
    "division": lambda x: (jnp.arange(-7, 7) // 3) * 10 + jnp.arange(-7, 7) % 3,
    "lax division": lambda x: lax.div(jnp.arange(-7, 7), 3) + lax.rem(jnp.arange(-7, 7), 4),
    "choice": lambda x: jnp.where(jnp.arange(6) < 3, jnp.arange(6) + 6, -jnp.arange(6)),
    "bools": lambda x: (jnp.arange(6) >= 2) & ~(jnp.arange(6) == 4) | (jnp.arange(6) != 1),
    "bounds": lambda x: jnp.clip(jnp.arange(9), 2, 6) + jnp.minimum(jnp.arange(9), 3),
    "shapes": lambda x: jnp.arange(12).reshape(3, 4).T[::-1, 1:][None].squeeze(0),
    "grid": lambda x: jnp.stack(jnp.meshgrid(jnp.arange(3), jnp.arange(2)), -1).reshape(-1, 2),
    "constant": lambda x: jnp.asarray(np.array([4, 1, 1])) + 1,
    "signs": lambda x: jnp.sign(jnp.arange(-2, 3)) + jnp.abs(jnp.arange(-2, 3)),
    "inside jit": lambda x: jax.jit(lambda n: jnp.concatenate([n, n + 5]))(jnp.arange(4)),
}
UNKNOWN = {
    "argument": lambda x: x.astype(int),
    "mixed": lambda x: jnp.arange(3) + x.astype(int),
    "floats": lambda x: jnp.arange(3.0),
    "carry": lambda x: lax.fori_loop(0, 3, lambda i, n: n + i, jnp.arange(3)),
}


def scope_of(function):
    closed = jax.make_jaxpr(function)(jnp.ones(3))
    constants = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    return Scope(closed.jaxpr, constants), closed.jaxpr.outvars[0]


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_value_is_the_value_of_a_run(name):
    scope, out = scope_of(KNOWN[name])
    value = scope.value(out)
    assert value is not None
    np.testing.assert_array_equal(value, KNOWN[name](jnp.ones(3)))
    assert value.dtype == out.aval.dtype


@pytest.mark.parametrize("name", UNKNOWN)
def test_other_values_are_unknown(name):
    scope, out = scope_of(UNKNOWN[name])
    assert scope.value(out) is None


def test_columns_are_known_one_by_one():
    scope, out = scope_of(
        lambda x: jnp.stack([jnp.arange(3), x.astype(int)], axis=-1).astype(jnp.int8)
    )
    first, second = scope.columns(out)
    np.testing.assert_array_equal(first, [0, 1, 2])
    assert second is None


@pytest.mark.parametrize(
    ("function", "axes", "constant"),
    [
        (lambda x: jnp.broadcast_to(x[0], (4,)), [0], True),
        (lambda x: jnp.broadcast_to(x, (4, 3)), [0], True),
        (lambda x: jnp.broadcast_to(x, (4, 3)), [0, 1], False),
        (lambda x: jnp.broadcast_to(x, (4, 3)).T * 2, [1], True),
        (lambda x: jnp.broadcast_to(x, (4, 3)).T * 2, [0], False),
        (lambda x: jnp.full((4, 3), 2.0).reshape(12), [0], True),
        (lambda x: x, [0], False),
        (lambda x: x, [], True),
        (lambda x: jnp.asarray(np.ones(3)), [0], True),
        (lambda x: jnp.asarray(np.arange(3.0)), [0], False),
        (lambda x: jnp.cumsum(jnp.ones(3)), [0], False),
    ],
)
def test_whether_a_value_is_constant_along_axes(function, axes, constant):
    scope, out = scope_of(function)
    assert scope.is_constant(out, axes) is constant

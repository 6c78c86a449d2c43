"""Calls read the arrays that transposes and conversions made their operands of.

Tests: impl._native.operation, impl._jax.repeated.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._native import library

pytestmark = pytest.mark.skipif(not library.is_available(), reason="needs the library in C++")

#: Dimension numbers of ``lax.dot_general`` for an array of three axes and one of two.
NUMBERS = [
    *((((i,), (j,)), ((), ())) for i in range(3) for j in range(2)),
    (((0,), (0,)), ((2,), (1,))),
    (((2, 1), (0, 1)), ((), ())),
    (((), ()), ((1, 0), (0, 1))),
]


def compiled(function, *arrays):
    with impl.deterministic(guarantee="portable"):
        return jax.jit(function).lower(*arrays).compile()


@pytest.mark.parametrize("axes", [*itertools.permutations(range(3))])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_axes_in_any_order(dtype, axes):
    rng = np.random.default_rng(0)
    whole = jnp.asarray(rng.normal(size=np.take((3, 3, 3), axes)), dtype)
    other = jnp.asarray(rng.normal(size=(3, 3)), dtype)

    def own(x, y):
        x = lax.transpose(x.astype(jnp.float32), axes)
        y = lax.transpose(y, (1, 0)).astype(jnp.float32)
        return of_values(x, y)

    def of_values(x, y):
        products = [lax.dot_general(x, y, numbers) for numbers in NUMBERS]
        turned = [lax.dot_general(y, x, ((b, a), (d, c))) for (a, b), (c, d) in NUMBERS]
        return products, turned, x.sum(0), x.sum((0, 2)), x.sum(), x.sum(2), y.sum(1)

    values = whole.astype(jnp.float32).transpose(axes), other.T.astype(jnp.float32)
    expected = compiled(of_values, *values)(*values)
    got = compiled(own, whole, other)(whole, other)
    for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(got), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_is_copied():
    x, y = jnp.ones((3, 4)), jnp.ones((3, 5))
    short = jnp.ones((3, 4), jnp.bfloat16)
    for text in (
        compiled(lambda a, b: a.T @ b, x, y).as_text(),
        compiled(lambda a: a.T.astype(jnp.float32).sum(1), short).as_text(),
    ):
        assert "samebits_" in text
        assert "fusion" not in text


def test_equal_operands_are_not_of_equal_arrays():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(4, 4)), jnp.float32)

    def step(x):
        return x.T @ x, x @ x, x.T @ x.T, x @ x.T

    expected = [a @ b for a, b in [(x.T, x), (x, x), (x.T, x.T), (x, x.T)]]
    for a, b in zip(expected, compiled(step, x)(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def bits(x):
    return lax.bitcast_convert_type(x, jnp.int32)


@pytest.mark.parametrize(
    "zeros",
    [
        jnp.zeros_like,
        lambda x: jnp.zeros_like(x) * jnp.zeros_like(x),
        lambda x: (0 * bits(x)).astype(jnp.float32),
        lambda x: (bits(x) - bits(x)).astype(jnp.float32),
        lambda x: lax.bitcast_convert_type(bits(x) & 0, jnp.float32),
        lambda x: lax.pad(x, jnp.float32(0), [(4, 0, 0)])[:4],
        lambda x: jnp.where(jnp.arange(4) < 4, 0.0, x),
        lambda x: lax.scan(lambda carry, _: (carry, carry + x), jnp.zeros(4), None, 1)[1][0] * 0,
    ],
)
def test_a_zero_that_xla_knows_is_added(zeros):
    x = jnp.full(4, -0.0)
    for add in (lambda x, y: x + y, jax.jit(lambda x, y: y + x), lambda x, y: x - (-y)):
        total = compiled(lambda x, add=add: add(x, zeros(x)), x)(x)
        assert not np.signbit(total).any()


def test_sums_of_parameters_are_sums_alone():
    def step(x, y):
        z = x @ y
        return (x * y + z) * 0.5 - x / z + jnp.tanh(y), x + 0.0

    with impl.deterministic(guarantee="portable"):
        x = jnp.ones((3, 3))
        text = jax.jit(step).lower(x, x).as_text()
    assert text.count("stablehlo.subtract") == 1
    assert text.count("stablehlo.and") == 1  # of the known 0

"""The primitive ``total``: sums along an axis in the order of halves."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl._mode.decide import decide
from impl._primitives.total import total
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import spread
from spec import oracles

pytestmark = pytest.mark.usefixtures("complete")
COUNTS = (0, 1, 2, 7, 64, 129)


def decision():
    """Returns the decision of an op whose row keeps the order of halves."""
    facts = {"dtype": "floating", "input_ndim": 3}
    return decide("nn.functional.scaled_dot_product_attention", **facts)


def expected(values):
    wide = values.astype(np.float32)
    sums = oracles.halves(np.moveaxis(wide, -1, 0))[..., None]
    return np.broadcast_to(sums, wide.shape).astype(values.dtype)


def test_bits_of_the_sums_and_of_their_transposes():
    rng = np.random.default_rng(0)
    arrays = [spread(rng, (3, count)) for count in COUNTS] + [
        spread(rng, (2, 4, 33)).astype(jnp.bfloat16)
    ]

    def both(x, ct):
        out, pullback = jax.vjp(lambda x: total(x, decision=decision()), x)
        of_batch = jax.vmap(lambda x: total(x, decision=decision()), in_axes=x.ndim - 2)
        return out, *pullback(ct), jnp.moveaxis(of_batch(x), 0, x.ndim - 2)

    @jax.jit
    def run(arrays):
        return [both(x, -x) for x in arrays]

    for x, (out, gradient, of_batch) in zip(arrays, run(arrays), strict=True):
        assert_same_bits(out, expected(x))
        assert_same_bits(of_batch, expected(x))
        assert_same_bits(gradient, expected(-x))


@pytest.mark.parametrize("level", [1, 3])  # XLA contracts nothing at level 0.
def test_products_are_rounded_before_they_are_added(level):
    rng = np.random.default_rng(1)
    shapes = [(3, count) for count in COUNTS]
    factors = [rng.uniform(-1, 1, (2, *shape)).astype(np.float32) for shape in shapes]
    others = [rng.uniform(-1, 1, (2, *shape)).astype(np.float32) for shape in shapes]

    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": level})
    def run(factors, others):
        results = []
        for (a, b), (c, d) in zip(factors, others, strict=True):
            out, pullback = jax.vjp(lambda x: total(x, decision=decision()), a * b)
            results.append((out, *pullback(c * d)))
        return results

    for (a, b), (c, d), (out, gradient) in zip(factors, others, run(factors, others), strict=True):
        assert_same_bits(out, expected(a * b))
        assert_same_bits(gradient, expected(c * d))


def test_the_mode_off_takes_a_reduction_of_xla():
    def count(name):
        program = jax.jit(lambda x: total(x, decision=decision())).lower(np.ones((3, 7)))
        return program.as_text().count(name)

    assert (count("stablehlo.reduce"), count("stablehlo.slice")) == (0, 6)
    with impl.deterministic(False):
        assert (count("stablehlo.reduce("), count("stablehlo.slice")) == (1, 0)

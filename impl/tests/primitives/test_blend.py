"""The primitive ``blend``, which only grid_sample uses."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._mode.decide import Action, Decision
from impl._primitives.blend import blend
from impl.tests.nn.support.derivatives import assert_derivatives
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.lowerings import DISTINCT, LOWERINGS
from impl.tests.support.numbers import spread

pytestmark = [pytest.mark.usefixtures("complete"), pytest.mark.once]


def blend_operands(path="ordered", weights=4):
    """Returns values, weights and indices, some of no row, and a function of the first two."""
    rng = np.random.default_rng(0)
    shape = (2, 6, weights)
    values, factors = rng.standard_normal((2, 5, 19)), rng.standard_normal(shape)
    indices = rng.integers(-1, 7, shape).astype(np.int32)
    decision = Decision(elsewhere=Action(path=path))
    return values, factors, indices, functools.partial(blend, indices=indices, pullback=decision)


#: The numbers of weights of the modes bilinear and bicubic.
@pytest.mark.parametrize("count", [4, 16])
def test_blend_adds_products_in_the_order_of_their_weights(count):
    values, weights, indices, function = blend_operands(weights=count)
    values, weights = values.astype(np.float32), weights.astype(np.float32)
    cotangent = spread(np.random.default_rng(0), (2, 6, 19))

    @jax.jit
    def run(values, weights, cotangent):
        out, pullback = jax.vjp(function, values, weights)
        return out, *pullback(cotangent)

    extended = np.concatenate([values, np.zeros((2, 1, 19), np.float32)], 1)
    rows = np.where((indices >= 0) & (indices < 5), indices, 5)
    products = weights[..., None] * extended[np.arange(2)[:, None, None], rows]
    products = np.where((rows < 5)[..., None], products, 0)
    want = functools.reduce(np.add, np.moveaxis(products, 2, 0))
    out, *gradients = run(values, weights, cotangent)
    assert_same_bits(out, want)
    for name in set(DISTINCT) - {"native"}:
        with LOWERINGS[name]():
            results = run(values, weights, cotangent)
        jax.tree.map(assert_same_bits, tuple(results), (out, *gradients))


@pytest.mark.parametrize("count", [1, 4])
def test_rows_are_chosen_once_for_all_columns(count):
    """XLA on a CPU computes whatever is fused with the reads again for each column."""
    _, _, _, function = blend_operands()
    values, weights = jnp.ones((2, 50, 64)), jnp.ones((2, 90, count))
    indices = jax.ShapeDtypeStruct((2, 90, count), np.int32)

    @jax.jit
    def run(indices):
        return functools.partial(function, indices=indices + 1)(values, weights)

    computations = run.lower(indices).compile().as_text().split("\n\n")
    reading = [text for text in computations if " gather(" in text]
    assert reading
    for text in reading:
        assert not re.search(r"s32\[[^ ]* (add|compare|select)\(|compare\([^)]*s32", text), text


@pytest.mark.parametrize("path", ["ordered", "atomic"])
def test_derivatives_of_blend_are_blends(path):
    values, weights, _, function = blend_operands(path)
    # The derivatives of a square depend on both operands, up to the third.
    assert_derivatives(lambda v, w: (function(v, w) ** 2).sum(), (values, weights), rtol=1e-4)


def test_blend_of_no_weights():
    values, weights = jnp.ones((2, 3, 4)), jnp.ones((2, 5, 0))
    decision = Decision(elsewhere=Action(path="ordered"))
    indices = jnp.zeros((2, 5, 0), jnp.int32)
    out, pullback = jax.vjp(lambda v, w: blend(v, w, indices, pullback=decision), values, weights)
    assert_same_bits(out, np.zeros((2, 5, 4), np.float32))
    assert_same_bits(pullback(out)[0], np.zeros((2, 3, 4), np.float32))

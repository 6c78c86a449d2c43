"""A product of the user's program is rounded before it enters an op.

XLA may contract a product and a sum to a fused multiply-add, which would give other bits than the
op gives when it is called alone.
"""

import functools

import jax
import numpy as np

from conformance.tests.every_op.calls import parametrize_pairs
from conformance.tests.every_op.programs import smooth_outputs
from impl.tests.support.bits import assert_all_same_bits


def factors_of(arrays, rng):
    """Returns two factors of each array; most of their products are rounded."""
    return [tuple(rng.uniform(-1, 1, (2, *a.shape)).astype(a.dtype)) for a in arrays]


def products(factors):
    """Returns the product of each pair of factors."""
    return [a * b for a, b in factors]


def by_one(arrays):
    """Returns pairs of factors of ``arrays``, of which one is 1, so that nothing is rounded."""
    return [(a, np.ones_like(a)) for a in arrays]


# XLA contracts nothing at level 0.
@parametrize_pairs("level", [1, 3], lambda s: s.same_bits and bool(s.floats))
def test_operands_and_cotangents(call, level, rng):
    smooth = functools.partial(smooth_outputs, call)

    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": level})
    def program(operands, cotangents):
        outputs, pullback = jax.vjp(smooth, *products(operands))
        return outputs, pullback(products(cotangents))

    operands = factors_of(call.floats, rng)
    cotangents = factors_of(jax.eval_shape(smooth, *call.floats), rng)
    outputs, gradient = program(operands, cotangents)
    # A fused multiply-add of a product by 1 rounds as the sum alone does. So the same program, with
    # factors of 1, gives the bits that are wanted.
    alone = program(by_one(products(operands)), by_one(products(cotangents)))
    assert_all_same_bits(outputs, alone[0], "outputs")
    assert_all_same_bits(gradient, alone[1], "gradient")

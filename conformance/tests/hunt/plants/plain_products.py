"""XLA's own product of matrices rounds each step, in an order of its own."""

import dataclasses

from jax import lax

from impl._portable.rules import RULES


def product(a, b, *, out_sharding=None, **params):
    del out_sharding
    return lax.dot_general(a, b, **params)


RULES["dot_general"] = dataclasses.replace(
    RULES["dot_general"], compute=product, over_devices=product
)

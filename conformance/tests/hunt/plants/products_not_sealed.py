"""XLA contracts a product and a sum where it fuses them: neither is sealed by its bits."""

import dataclasses

from jax import lax

from impl._core.numerics import fence
from impl._exact import arithmetic
from impl._portable.rules import RULES


def multiply(a, b, **_):
    return lax.mul(a, b)


def add(a, b, **_):
    # The fence hides the second term from XLA, so that zeros are added.
    return arithmetic.seal(lax.add(a, fence(b)))


RULES["mul"] = dataclasses.replace(RULES["mul"], compute=multiply)
RULES["add"] = dataclasses.replace(RULES["add"], compute=add)

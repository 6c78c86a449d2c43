"""XLA removes an addition of what it proves to be 0: -0.0 + 0.0 depends on the setting."""

import dataclasses

from jax import lax

from impl._portable.rules import RULES


def add(a, b, **_):
    return lax.add(a, b)


RULES["add"] = dataclasses.replace(RULES["add"], compute=add)

"""All devices split the terms of a sum over devices at the units of the first one."""

import jax.numpy as jnp
from jax import lax

from impl._core.devices import Devices


def of_the_first(self, value):
    if not self.names:
        return value
    is_first = lax.axis_index(self.names) == 0
    return self._reduced(lax.psum, jnp.where(is_first, value, jnp.zeros_like(value)))


setattr(Devices, "max", of_the_first)  # noqa: B010

"""All devices bound the error of a sum over devices by the terms of the first one."""

import jax.numpy as jnp
from jax import lax

from impl._exact.sums import reduction


def of_the_first(self, value):
    if not self.names:
        return value
    is_first = lax.axis_index(self.names) == 0
    return self._reduced(lax.psum, jnp.where(is_first, value, jnp.zeros_like(value)))


setattr(reduction._Devices, "max", of_the_first)  # noqa: B010

"""What many writers to one place may be combined by."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal, TypeAlias

import jax
import jax.numpy as jnp

from impl._core import numerics

ReductionName: TypeAlias = Literal["add", "mul", "min", "max"]


@dataclasses.dataclass(frozen=True)
class Reduction:
    """An associative operation with an identity; floats keep to it only in a fixed order.

    Attributes:
        name: Also that of the method of ``jax.numpy.ndarray.at`` that scatters with it.
        combine: The operation on two arrays.
        identity: A number that changes no bit of what it is combined with, by dtype.
    """

    name: ReductionName
    combine: Callable[[jax.Array, jax.Array], jax.Array]
    identity: Callable[[jax.typing.DTypeLike], float | int]

    def full(self, shape: tuple[int, ...], dtype: jax.typing.DTypeLike) -> jax.Array:
        """An array that holds the identity."""
        return jnp.full(shape, self.identity(dtype), dtype)


ADD = Reduction("add", lambda a, b: a + b, numerics.identity)
MUL = Reduction("mul", lambda a, b: a * b, lambda _: 1)
#: These two are for integers. ``impl._lowerings.scatter_accumulate_extreme`` maps floats to them.
MIN = Reduction("min", jnp.minimum, lambda dtype: int(jnp.iinfo(dtype).max))
MAX = Reduction("max", jnp.maximum, lambda dtype: int(jnp.iinfo(dtype).min))

"""The operations by which a scatter combines the contributions to one destination."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Literal, TypeAlias

import jax

from impl._core import numerics

ReductionName: TypeAlias = Literal["add", "mul", "min", "max"]


@dataclasses.dataclass(frozen=True)
class Reduction:
    """A commutative operation with an identity; on floats its result depends on the order.

    Attributes:
        name: The name; ``jax.numpy.ndarray.at[...]`` has a method of this name.
        combine: The operation on two arrays.
        identity: Returns, for a dtype, the number that leaves every value its bits when combined
            with it.
    """

    name: ReductionName
    combine: Callable[[jax.Array, jax.Array], jax.Array]
    identity: Callable[[jax.typing.DTypeLike], float | int]


ADD = Reduction("add", lambda a, b: a + b, numerics.identity)
MUL = Reduction("mul", lambda a, b: a * b, lambda _: 1)

"""A call whose cost is counted, and its budget."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

Shape = jax.ShapeDtypeStruct


@dataclasses.dataclass(frozen=True)
class Budget:
    """The most that a program may cost. None sets no bound.

    Attributes:
        launches: The launches with the mode on.
        floors: The bytes with the mode on, in floors: each operand read once, each result written
            once.
        off: The bytes with the mode off, as a multiple of plain JAX's bytes.
    """

    launches: int | None = None
    floors: float | None = None
    off: float | None = 1.0


@dataclasses.dataclass(frozen=True)
class CostCase:
    """A call at one size.

    Attributes:
        name: The op, the direction if it is backward, and the size.
        op: The op.
        direction: ``forward`` or ``backward``.
        call: The call, as a function of arrays of ``inputs``.
        inputs: The shapes and dtypes of the arrays.
        plain: The same with JAX alone; None if JAX has nothing that does it.
        budget: The most that it may cost.
        unlikely: A part of the scopes of launches in a branch that random data does not take.
            Another branch of the conditional counts instead.
    """

    name: str
    op: str
    direction: str
    call: Callable[..., Any]
    inputs: tuple[Shape, ...]
    plain: Callable[..., Any] | None = None
    budget: Budget = Budget()
    unlikely: str | None = None


def floats(*dimensions: int, dtype: DTypeLike = jnp.float32) -> Shape:
    """Returns the shape of an array of floats."""
    return Shape(dimensions, dtype)


def ints(*dimensions: int) -> Shape:
    """Returns the shape of an array of indices."""
    return Shape(dimensions, jnp.int32)


def gradient(call: Callable[..., Any], wrt: int = 0) -> Callable[..., Any]:
    """Returns the gradient of a call, as a function of the cotangent and the call's arrays."""

    def function(cotangent: Any, *arrays: Any) -> Any:
        def of_one(array: Any) -> Any:
            return call(*arrays[:wrt], array, *arrays[wrt + 1 :])

        _, pullback = jax.vjp(of_one, arrays[wrt])
        return pullback(cotangent)[0]

    return function


def label(*numbers: int) -> str:
    """Returns sizes in short: ``100k-1M-1``."""
    return "-".join(map(_short, numbers))


def _short(number: int) -> str:
    for unit, factor in (("M", 10**6), ("k", 1000)):
        if number >= factor and number % (factor // 10) == 0:
            return f"{number / factor:g}{unit}"
    return str(number)


def scaled(number: int, times: float, *, least: int = 1) -> int:
    """Returns a size multiplied by a factor, rounded up."""
    return max(least, math.ceil(number * times))


#: The number of launches of a sum by index: 16 take about 32 us, in which a GPU moves 150 MB.
MANY = 16
#: The sizes of a benchmark, and ten times smaller and larger.
SCALES = (0.1, 1.0, 10.0)

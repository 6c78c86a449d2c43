"""Elementary functions, element by element, as calls of the engine ``native``."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.jax_internals.shardings import Names
from impl._exact import elementary
from impl._native import assembler
from impl._native.call import computed
from impl._native.operation import Operation, longs, names, takes

#: The least steps of a function that is a call: XLA fuses a shorter one with its neighbours.
_FEWEST_STEPS = 40
#: The most steps of all elements. The engine interprets them at a third of the speed of code that
#: XLA compiles in ten times the time, so such a call is at most 20 microseconds slower.
_MOST_WORK = 200_000


@dataclasses.dataclass(frozen=True)
class Function(Operation):
    """A function of arrays of one shape.

    Attributes:
        name: The name of the primitive.
        params: The parameters of the primitive.
        arity: The number of arrays.
        rank: The number of axes of each array.
    """

    name: str
    params: tuple[tuple[str, Any], ...]
    arity: int
    rank: int

    @property
    def result(self) -> Names:  # type: ignore[override]
        return names(self.rank)

    @property
    def operands(self) -> tuple[Names, ...]:  # type: ignore[override]
        return (self.result,) * self.arity

    def nearest(self, *operands: jax.Array) -> jax.Array:
        program = _program(self.name, self.params, tuple(each.dtype for each in operands))
        result: jax.Array = jax.ffi.ffi_call(
            "samebits_function", jax.ShapeDtypeStruct(operands[0].shape, operands[0].dtype)
        )(
            *operands,
            steps=longs(program.steps),
            constants=longs(program.constants).view(np.float64),
            registers=np.int64(program.registers),
            result=np.int64(program.result),
        )
        return result


@functools.cache
def _program(
    name: str, params: tuple[tuple[str, Any], ...], dtypes: tuple[Any, ...]
) -> assembler.Program:
    function = functools.partial(elementary.FUNCTIONS[name], **dict(params))
    return assembler.assembled(function, dtypes)


def call(name: str, *operands: jax.Array, **params: Any) -> jax.Array | None:
    """Returns an elementary function of arrays; None if there is no call.

    Args:
        name: The name of the primitive.
        *operands: The arrays, all of one shape. The first one has the dtype of the result.
        **params: The parameters of the primitive.
    """
    x, *more = operands
    if not takes([x], x.dtype) or any(each.shape != x.shape for each in more):
        return None
    for number, each in enumerate(more):
        if jnp.issubdtype(each.dtype, jnp.integer) and each.dtype != np.uint64:
            # The call takes int32 and int64.
            is_short = np.can_cast(each.dtype, np.int32)
            more[number] = lax.convert_element_type(each, np.int32 if is_short else np.int64)
        elif each.dtype != x.dtype:
            return None
    kept = tuple(sorted(params.items()))
    if x.size > _MOST_WORK // _FEWEST_STEPS:
        return None
    try:
        count = len(_program(name, kept, tuple(each.dtype for each in (x, *more))).steps)
    except NotImplementedError:  # A release of JAX writes other equations.
        return None
    if count < _FEWEST_STEPS or x.size * count > _MOST_WORK:
        return None
    function = Function(name, kept, len(operands), x.ndim)
    return computed(function, [x, *more])

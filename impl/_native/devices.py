"""Exact sums whose terms several devices hold, rounded once.

Each device adds its own terms, and the devices add their sums exactly. Nearly all results are
decided by approximations, as on one device; the digits of exact sums decide the rest::

    bounds      each device: approximate sums, and bounds of their errors, float64
    psum        of both
    decide      rounds the results that the bounds decide, and lists positions of all other ones
    digits      each device: its exact sums at these positions, as integers
    psum        of the integers, which makes no error
    finish      rounds these results

The last three repeat if more results are in doubt than one list holds. All devices that share a
sum have equal bounds after the first ``psum``, so they agree on each list and on their number.
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._native.operation import Summing

_Tree = TypeVar("_Tree")
#: Results, the positions of some that are in doubt, and the first position of the next list.
_State: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]

#: One list holds one result in this many, and this many more.
_ONE_IN, _FEWEST = 64, 64


class Group(abc.ABC):
    """The devices that share sums with this one.

    Attributes:
        number: Their number.
    """

    number: int

    @abc.abstractmethod
    def sum(self, value: _Tree) -> _Tree:
        """Returns the sums of arrays over the devices."""

    @abc.abstractmethod
    def is_first(self) -> jax.Array:
        """Returns whether this is the first of the devices, as a scalar."""


@dataclasses.dataclass(frozen=True)
class AxesOfMesh(Group):
    """The devices along axes of the mesh of a ``shard_map``.

    Attributes:
        names: The names of the axes.
    """

    names: tuple[Any, ...]

    @property
    def number(self) -> int:  # type: ignore[override]  # an attribute that is computed
        return math.prod(lax.axis_size(name) for name in self.names)

    def sum(self, value: _Tree) -> _Tree:
        total: _Tree = lax.psum(value, self.names)
        return total

    def is_first(self) -> jax.Array:
        return lax.eq(lax.axis_index(self.names), np.int32(0))


def add_exactly(operation: Summing, operands: Sequence[jax.Array], group: Group) -> jax.Array:
    """Returns the results of an operation on the operands of all devices of a group.

    Args:
        operation: The operation.
        operands: The operands of this device.
        group: The devices.
    """
    operands = [
        _on_one(each, group) if number in operation.once else each
        for number, each in enumerate(operands)
    ]
    total, error = group.sum(operation.bounds(*operands, parts=group.number))
    capacity = total.size // _ONE_IN + _FEWEST

    def decide(first: jax.Array) -> _State:
        call = jax.ffi.ffi_call(
            "samebits_decide",
            (
                jax.ShapeDtypeStruct(total.shape, operation.dtype),
                jax.ShapeDtypeStruct((capacity,), np.int64),
                jax.ShapeDtypeStruct((), np.int64),
            ),
        )
        result, positions, after = call(total, error, first)
        return result, positions, after

    def is_open(state: _State) -> jax.Array:
        positions = state[1]
        return lax.ge(lax.index_in_dim(positions, 0, keepdims=False), np.int64(0))

    def finish(state: _State) -> _State:
        result, positions, first = state
        digits = group.sum(operation.digits(positions, *operands))
        shape = jax.ShapeDtypeStruct(result.shape, result.dtype)
        call = jax.ffi.ffi_call("samebits_finish", shape, input_output_aliases={0: 0})
        _, more, after = decide(first)
        return call(result, positions, digits), more, after

    state = decide(jnp.zeros((), np.int64))
    result: jax.Array = lax.while_loop(is_open, finish, state)[0]
    return result


def _on_one(value: jax.Array, group: Group) -> jax.Array:
    """Returns an array on the first device of a group, and zeros on the other ones."""
    is_first = jnp.broadcast_to(group.is_first(), value.shape)
    return lax.select(is_first, value, lax.full_like(value, 0))

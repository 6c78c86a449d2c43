"""The interface of the operations of the engine ``native``.

On one device an operation is one call, which rounds its results (``Operation.nearest``). A device
that holds a part of the terms of a sum adds them exactly to the terms of the other devices
(``impl._native.devices``), and a program that XLA partitions has a rule of sharding
(``impl._native.call``). All of it follows from the names of axes. For a product::

    operands    ("m", "k") and ("k", "n")      result      ("m", "n")
    "m" is cut over devices                    each device has rows of the result
    "k" is cut over devices                    each device has terms of each sum
"""

from __future__ import annotations

import abc
import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from impl._core.shard_axes import Devices
from impl._jax.shardings import Names

#: The dtypes that the engine adds and multiplies, and rounds to: ``Format`` of ``src/calls.h``.
FORMATS = tuple(map(jnp.dtype, (jnp.float32, jnp.bfloat16, jnp.float16, jnp.float64)))
DTYPES = frozenset(FORMATS)
#: The digits of an exact sum: ``Accumulator::kDigits`` of ``src/numbers.h``, and of
#: ``src/wide_accumulator.h`` for float64.
DIGITS, WIDE_DIGITS = 24, 136
#: The words of 32 bits of a state of a sum (``src/states.h``).
PLANES = 6


def takes(arrays: Sequence[jax.Array], dtype: jax.typing.DTypeLike) -> bool:
    """Returns whether the engine has arrays of these dtypes and sizes, and results of a dtype."""
    has_sizes = all(isinstance(size, int) for array in arrays for size in array.shape)
    dtypes = {jnp.dtype(dtype), *(array.dtype for array in arrays)}
    # A sum of float64 is rounded to one.
    are_one_kind = len(dtypes) == 1 or np.dtype(np.float64) not in dtypes
    return has_sizes and dtypes <= DTYPES and are_one_kind


def names(rank: int) -> tuple[str, ...]:
    """Returns a name for each axis of an array."""
    return tuple(f"axis{axis}" for axis in range(rank))


def are_ascending(axes: Sequence[int]) -> bool:
    """Returns whether axes are in ascending order."""
    return [*axes] == sorted(axes)


def strides(shape: Sequence[int]) -> list[int]:
    """Returns the distance of neighbours along each axis of a row-major array, in elements."""
    found: list[int] = []
    step = 1
    for size in reversed(shape):
        found.append(step)
        step *= size
    return found[::-1]


def longs(values: Sequence[int | Sequence[int]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns integers, or rows of them one after the other, as an attribute of a call."""
    return np.array(values, np.int64).reshape(-1)


class Call(NamedTuple):
    """A call of the library with one result.

    Attributes:
        name: Its name.
        result: The type of the result.
        attributes: Numbers, and arrays of numbers.
        aliases: The number of the operand whose memory the result may have, with 0.
    """

    name: str
    result: jax.ShapeDtypeStruct
    attributes: Mapping[str, Any]
    aliases: Mapping[int, int] = MappingProxyType({})


class Operation(abc.ABC):
    """An operation that the engine has as one call.

    A subclass is a frozen dataclass: JAX keeps programs by it, and its ``repr`` is a part of the
    key of JAX's cache on disk. The methods take operands of any sizes that fit together, such as
    the parts that one device holds.

    Attributes:
        operands: The names of the axes of each operand.
        result: The names of the axes of the result.
        reads_sources: Whether a call reads the arrays that its operands are made of (``reading``).
    """

    operands: tuple[Names, ...]
    result: Names
    reads_sources: ClassVar[bool] = False

    @abc.abstractmethod
    def call(self, *operands: Any) -> Call:
        """Returns the call that rounds the results once, of arrays or their types."""

    def reading(self, *axes: Sequence[int]) -> Operation | None:  # noqa: ARG002  # of a subclass
        """Returns the operation on the arrays that transposes made the operands of, if it has one.

        ``axes`` has, for each operand, the axis of the array that each axis of the operand is.
        """
        return None

    def nearest(self, *operands: jax.Array) -> jax.Array:
        """Returns the results, rounded once."""
        call = self.call(*operands)
        aliases = dict(call.aliases)
        function = jax.ffi.ffi_call(call.name, call.result, input_output_aliases=aliases)
        result: jax.Array = function(*operands, **call.attributes)
        return result


@dataclasses.dataclass(frozen=True)
class Elementwise(Operation):
    """An operation on the elements of arrays of one shape.

    Attributes:
        arity: The number of arrays.
        rank: The number of axes of each array.
    """

    arity: int
    rank: int

    @property
    def result(self) -> Names:  # type: ignore[override]
        return names(self.rank)

    @property
    def operands(self) -> tuple[Names, ...]:  # type: ignore[override]
        return (self.result,) * self.arity


class Summing(Operation):
    """An operation whose terms several devices may share: a product, a reduction, a scatter.

    An axis of operands whose name the result does not have is summed.

    Attributes:
        dtype: The dtype of the results.
        once: The numbers of the operands that are terms themselves. Where XLA partitions the
            operation, devices that share a sum have the same such operand, and one of them adds it.
        has_cheap_digits: Whether the digits of all sums take about as long as bounds, and tell
            infinities and NaNs.
    """

    dtype: Any
    once: tuple[int, ...] = ()
    has_cheap_digits = False
    #: The name of the call; the ones for bounds and digits add their own names to it.
    _name: str

    @abc.abstractmethod
    def layout(self, *operands: Sequence[int]) -> tuple[tuple[int, ...], dict[str, Any]]:
        """Returns the shape of the result and the attributes of calls, of shapes of operands."""

    def call(self, *operands: Any) -> Call:
        shape, attributes = self._layout(operands)
        return Call(self._name, jax.ShapeDtypeStruct(shape, self.dtype), attributes)

    @property
    def digit_count(self) -> int:
        """The number of digits of each sum."""
        return WIDE_DIGITS if self.dtype == np.float64 else DIGITS

    def state(self, *operands: jax.Array, parts: int) -> jax.Array:
        """Returns the states of sums of float64, from the call that adds to a state.

        They are uint32, shape [PLANES, n], of which each of ``parts`` devices has an equal share.
        Zeros follow the sums.
        """
        shape, attributes = self._layout(operands)
        state = np.zeros((PLANES, -(-math.prod(shape) // parts) * parts), np.uint32)
        call = jax.ffi.ffi_call(f"{self._name}_state", jax.ShapeDtypeStruct(state.shape, np.uint32))
        # At this level, products of float64 have fewer bits: digits decide the elements in doubt.
        result: jax.Array = call(np.int32(-2), state, *operands, **attributes)
        return result

    def bounds(self, *operands: jax.Array, parts: int) -> tuple[jax.Array, jax.Array]:
        """Returns approximate sums and bounds of their errors, as flat arrays.

        An infinity or a NaN of a sum is the one of the exact sum. The sums are no float64.

        Args:
            *operands: The operands.
            parts: The number of devices whose sums and bounds are added, in any order. The sum of
                the bounds then bounds the error of this addition too. Both arrays have an equal
                share for each device, so up to ``parts - 1`` zeros follow the results.

        Returns:
            The sums, float64, and the bounds, float32, in units of 2**-40.
        """
        shape, attributes = self._layout(operands)
        size = -(-math.prod(shape) // parts) * parts
        types = [jax.ShapeDtypeStruct((size,), dtype) for dtype in (np.float64, np.float32)]
        call = jax.ffi.ffi_call(f"{self._name}_bounds", types)
        sums, errors = call(*operands, **attributes, parts=np.int64(parts))
        return sums, errors

    def digits(self, positions: Any, *operands: jax.Array) -> jax.Array:
        """Returns the exact sums at positions, as digits: int64, shape [n, digit_count].

        The positions in the flat result are int64, shape [n]. A position of -1 is for none, and has
        zeros.
        """
        digits = jax.ShapeDtypeStruct((*positions.shape, self.digit_count), np.int64)
        call = jax.ffi.ffi_call(f"{self._name}_digits", digits)
        result: jax.Array = call(positions, *operands, **self._layout(operands)[1])
        return result

    def shared(self, operands: Sequence[jax.Array], group: Devices) -> jax.Array | None:  # noqa: ARG002  # of a subclass
        """Returns the sums over devices; None if ``devices.add_exactly`` adds them."""
        return None

    def _layout(self, operands: Sequence[Any]) -> tuple[tuple[int, ...], dict[str, Any]]:
        return self.layout(*(operand.shape for operand in operands))

    @property
    def summed(self) -> frozenset[str]:
        """The names of the axes along which devices may share sums."""
        names = {name for number, each in enumerate(self.operands) for name in each}
        return frozenset(name for name in names if name is not None) - {*self.result}

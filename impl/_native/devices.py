"""Exact sums whose terms several devices hold, rounded once.

Each device adds its own terms, and the devices add their sums exactly. Nearly all results are
decided by approximations, as on one device; the digits of exact sums decide the rest. Each device
decides its share of the results::

    bounds         each device: approximate sums, float64, and bounds of their errors, float32
    psum_scatter   of both
    decide         rounds the results that the bounds decide, and lists some of all other ones
    all_gather     of the lists
    digits         each device: its exact sums of the results on all lists, as integers
    psum_scatter   of the integers, which makes no error
    finish         rounds these results, and lists the next ones
    all_gather     of the results

The four lines from the lists on repeat until all lists are empty. Where a few results are sums of
an array, the digits of all of them are added, and nothing is in doubt::

    digits         each device: its exact sums
    psum           of the integers
    round

One float64 cannot decide the sums of float64. There, the first two lines are::

    state          each device: sums as two float64 within a third one (``src/states.h``)
    all_to_all     of states: each device adds its share
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import numpy as np
from jax import lax

from impl._core.shard_axes import Devices
from impl._jax.shardings import Names
from impl._native.operation import DIGITS, Call, Operation, Summing, names

#: A device's share of the results, its list, the lists of all devices, and whether they have any.
_State: TypeAlias = tuple[jax.Array, jax.Array, jax.Array, jax.Array]

#: One list holds one result in this many of a share, and this many more.
_ONE_IN, _FEWEST = 256, 16
#: The most digits that are added at once: 48 KiB.
_FEW = 256 * DIGITS


def add_exactly(operation: Summing, operands: Sequence[jax.Array], group: Devices) -> jax.Array:
    """Returns the sums of the results of an operation over devices, each with its own operands."""
    shared = operation.shared(operands, group)
    if shared is not None:
        return shared
    shape, _ = operation.layout(*(operand.shape for operand in operands))
    size = math.prod(shape)
    if operation.has_cheap_digits and size * operation.digit_count <= _FEW:
        digits = group.sum(operation.digits(np.arange(size), *operands))
        result: jax.Array = _call("samebits_round", (shape, operation.dtype))(digits)
        return result
    parts = group.number
    total: list[Any]
    if operation.dtype == np.float64:
        total = [shares(operation.state(*operands, parts=parts), group), np.empty(0, np.float32)]
    else:
        total = [*map(group.scattered, operation.bounds(*operands, parts=parts))]
    share = total[0].shape[-1]
    a_share = (share,), operation.dtype
    a_list = (share // _ONE_IN + _FEWEST,), np.int64

    def state(result: jax.Array, own: jax.Array) -> _State:
        lists = group.gathered(own)
        call = _call("samebits_positions", (lists.shape, np.int64), ((), np.bool_))
        return result, own, *call(lists, parts=np.int64(parts), share=np.int64(share))

    def finish(of: _State) -> _State:
        result, own, positions, _ = of
        digits = group.scattered(operation.digits(positions, *operands))
        call = _call("samebits_finish", a_share, a_list, input_output_aliases={0: 0, 1: 1})
        return state(*call(result, own, digits, *total))

    first = state(*_call("samebits_decide", a_share, a_list)(*total))
    own = lax.while_loop(lambda of: of[3], finish, first)[0]
    return lax.slice_in_dim(group.gathered(own), 0, size).reshape(shape)


def shares(states: jax.Array, group: Devices) -> jax.Array:
    """Returns a device's share of the second axis of states, added up over the devices."""
    planes, size = states.shape
    parts = states.reshape(planes, group.number, size // group.number).transpose(1, 0, 2)
    return merged(group.exchanged(parts))


@dataclasses.dataclass(frozen=True)
class Merging(Operation):
    """The sum of a state and of one or several ones along a new first axis.

    Attributes:
        rank: The number of axes of a state.
    """

    rank: int

    @property
    def result(self) -> Names:  # type: ignore[override]
        return (None, *names(self.rank - 1))

    @property
    def operands(self) -> tuple[Names, ...]:  # type: ignore[override]
        return self.result, self.result

    def call(self, *operands: Any) -> Call:
        result = jax.ShapeDtypeStruct(operands[0].shape, operands[0].dtype)
        return Call("samebits_merge", result, {}, {0: 0})


def merged(states: jax.Array) -> jax.Array:
    """Returns the sum of states along a new first axis."""
    return Merging(states.ndim - 1).nearest(states[0], states[1:])


def _call(name: str, *results: tuple[tuple[int, ...], Any], **keywords: Any) -> Any:
    """Returns a call of the library, whose results have these shapes and dtypes."""
    types = [jax.ShapeDtypeStruct(*each) for each in results]
    return jax.ffi.ffi_call(name, types[0] if len(types) == 1 else types, **keywords)

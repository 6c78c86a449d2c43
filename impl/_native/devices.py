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

from collections.abc import Sequence
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.devices import Devices
from impl._native.operation import Summing

#: Results, the positions of some that are in doubt, and the first position of the next list.
_State: TypeAlias = tuple[jax.Array, jax.Array, jax.Array]

#: One list holds one result in this many, and this many more.
_ONE_IN, _FEWEST = 64, 64


def add_exactly(operation: Summing, operands: Sequence[jax.Array], group: Devices) -> jax.Array:
    """Returns the sums of the results of an operation over devices, each with its operands.

    Args:
        operation: The operation.
        operands: The operands of this device.
        group: The devices.
    """
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

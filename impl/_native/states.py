"""States of sums (``impl._exact.unrounded``) to which the engine ``native`` adds.

A call adds the sums of an operation to a state, which may keep its memory::

    state u32[6, 5, 7], a f32[48, 5], b f32[48, 7]
    samebits_product_state level state a b              the state of 48 products more

Devices that share the sums of an operation exchange their states, of 24 bytes for each sum: each
device adds its share of them, and all gather the shares.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.shard_axes import Devices
from impl._jax.shardings import Names
from impl._native import devices, products, scatters, sums
from impl._native.call import Found, computed
from impl._native.operation import FORMATS, Call, Summing

#: The least number of sums for each device where devices share the work of adding states.
_FEW = 64

_CALLS: Mapping[str, Callable[..., Found | None]] = {
    "conv_general_dilated": products.convolution,
    "dot_general": products.product,
    "reduce_sum": sums.reduction,
    "scatter-add": scatters.scatter,
}


@dataclasses.dataclass(frozen=True)
class State(Summing):
    """The addition of an operation's sums to a state.

    The operands are the level, the state, and the operands of the operation.

    Attributes:
        terms: The operation.
    """

    terms: Summing

    @property
    def operands(self) -> tuple[Names, ...]:  # type: ignore[override]
        return (), self.result, *self.terms.operands

    @property
    def result(self) -> Names:  # type: ignore[override]
        return (None, *self.terms.result)

    @property
    def once(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(2 + number for number in self.terms.once)

    dtype = np.dtype(np.uint32)

    @property
    def _name(self) -> str:  # type: ignore[override]
        return f"{self.terms._name}_state"  # noqa: SLF001  # of an operation

    def layout(self, *operands: Sequence[int]) -> tuple[tuple[int, ...], dict[str, Any]]:
        _, state, *of_terms = operands
        return tuple(state), self.terms.layout(*of_terms)[1]

    def call(self, *operands: Any) -> Call:
        return super().call(*operands)._replace(aliases={1: 0})

    def shared(self, operands: Sequence[jax.Array], group: Devices) -> jax.Array:
        level, state, *terms = operands
        first = jnp.broadcast_to(group.is_first(), state.shape)
        own = self.nearest(level, lax.select(first, state, lax.full_like(state, 0)), *terms)
        planes, *shape = state.shape
        size, number = math.prod(shape), group.number
        if size < number * _FEW:
            return devices.merged(group.gathered(own[None]))
        # Each device adds its share of the sums.
        flat = own.reshape(planes, size)
        flat = lax.pad(flat, np.uint32(0), [(0, 0, 0), (0, -size % number, 0)])
        share = devices.shares(flat, group)
        whole = group.gathered(share[None]).transpose(1, 0, 2).reshape(planes, -1)
        return whole[:, :size].reshape(state.shape)


def merged(state: jax.Array, other: jax.Array) -> jax.Array | None:
    """Returns a state as ``impl._exact.unrounded.states.merged`` does."""
    return computed(devices.Merging(state.ndim), (state, other))


@dataclasses.dataclass(frozen=True)
class Counting(devices.Merging):
    """One more count of all terms of sums.

    Attributes:
        format: The number of the sums' dtype: ``Format`` of ``src/calls.h``.
    """

    format: int

    @property
    def operands(self) -> tuple[Names, ...]:  # type: ignore[override]
        return (), self.result, self.result

    def call(self, *operands: Any) -> Call:
        result = jax.ShapeDtypeStruct(operands[1].shape, operands[1].dtype)
        return Call("samebits_counted", result, {"format": np.int64(self.format)}, {1: 0})


def counted(
    level: jax.Array, counts: jax.Array, state: jax.Array, *, dtype: Any
) -> jax.Array | None:
    """Returns counts as ``impl._exact.unrounded.states.counted`` does."""
    operation = Counting(state.ndim, FORMATS.index(jnp.dtype(dtype)))
    return computed(operation, (level, counts, state))


def added(
    name: str,
    params: Mapping[str, Any],
    axis_names: Sequence[Any],
    level: jax.Array,
    state: jax.Array,
    *operands: jax.Array,
) -> jax.Array | None:
    """Returns a state as ``impl._exact.unrounded.operations.added`` does; None without a call."""
    found = _CALLS[name](*operands, **params)
    if found is None:
        return None
    operation, terms = found
    if any(0 in each.shape for each in terms):
        return None
    return computed(State(operation), (level, state, *terms), axis_names)

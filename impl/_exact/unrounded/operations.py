"""The operations whose sums can stay unrounded: what each adds to a state of sums.

``operation`` finds, for a primitive of JAX, how it adds its terms. For example, of ::

    c:f32[5,7] = dot_general[dimension_numbers=(([0], [0]), ([], []))] a:f32[48,5] b:f32[48,7]

``added`` returns the state of 35 sums of 48 products, uint32 of shape [6, 5, 7].
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
from impl._exact import arithmetic
from impl._exact.products import convolution, dot_general
from impl._exact.products.layout import Layout
from impl._exact.unrounded import states
from impl._native import states as native
from impl._native.scope import or_native

#: The dtypes of results, by their names.
DTYPES = frozenset({"float16", "bfloat16", "float32", "float64"})
#: The dtypes of operands of other results than float64, whose values float32 holds.
_OPERANDS = DTYPES - {"float64"} | {"int8", "uint8", "int16", "uint16", "bool"}


@dataclasses.dataclass(frozen=True)
class Operation:
    """An operation that adds terms.

    Attributes:
        how: How it adds them; takes float64.
        taken: The positions of the operands that have terms. The other operands are indices.
    """

    how: Any
    taken: Sequence[int]


def is_known(name: str, operands: Sequence[Any], result: Any) -> bool:
    """Returns whether sums of a primitive, by its name and its types, can stay unrounded."""
    if name not in _OPERATIONS or str(result.dtype) not in DTYPES:
        return False
    index = 1 if name == "scatter-add" else None
    floats = [each for i, each in enumerate(operands) if i != index]
    shapes = [*(each.shape for each in operands), result.shape]
    are_sizes = all(isinstance(size, int) and size > 0 for shape in shapes for size in shape)
    allowed = {"float64"} if result.dtype == np.float64 else _OPERANDS
    return are_sizes and all(str(each.dtype) in allowed for each in floats)


def operation(
    name: str, operands: Sequence[Any], params: Mapping[str, Any], axis_names: Sequence[Any] = ()
) -> Operation:
    """Returns how a primitive, by its name, adds terms of operands of some types.

    The terms are sharded over ``axis_names``, the mesh axes of a ``shard_map``.
    """
    return _OPERATIONS[name](operands, params, Devices(tuple(axis_names)))


@or_native(native.added)
def added(
    name: str,
    params: Mapping[str, Any],
    axis_names: Sequence[Any],
    level: jax.Array,
    state: jax.Array,
    *operands: jax.Array,
) -> jax.Array:
    """Returns a state with what an operation adds. Call this inside ``arithmetic.wide()``.

    Args:
        name: The name of the primitive.
        params: The parameters of its equation.
        axis_names: The mesh axes of a ``shard_map`` over which the terms are sharded.
        level: ``terms.PLAIN``, or the level to count, int32, shape [].
        state: The state of the terms before.
        *operands: The operands of the operation.
    """
    found = operation(name, operands, params, axis_names)
    wide = [dot_general.double(operands[i]) for i in found.taken]
    others = [each for i, each in enumerate(operands) if i not in found.taken]
    how = found.how
    if others:
        how = dataclasses.replace(how, add=lambda *taken: found.how.add(*others, *taken))
    parts = how.parts(level, *wide)
    return states.with_parts(state, *parts)


def _product(operands: Sequence[Any], params: Mapping[str, Any], devices: Devices) -> Operation:
    numbers = params["dimension_numbers"]
    left, right = operands
    layout = Layout.of(left.shape, right.shape, numbers, devices)
    how = states.Products(
        layout.terms,
        devices,
        _is_long(left),
        lambda x, y: dot_general.plain_product(x, y, numbers),
        tuple(numbers[0][0]),
        tuple(numbers[0][1]),
        lambda x, y: lax.mul(layout.lhs_in_result(x), layout.rhs_in_result(y)),
    )
    return Operation(how, (0, 1))


def _convolution(operands: Sequence[Any], params: Mapping[str, Any], devices: Devices) -> Operation:
    call, is_long = convolution.Convolution.of(params), _is_long(operands[0])
    left, right = (each.shape for each in operands)
    image, feature = call.numbers.lhs_spec[0], call.numbers.rhs_spec[0]
    left_axes, right_axes = (
        tuple(d for d in range(len(shape)) if d != kept)
        for shape, kept in ((left, image), (right, feature))
    )

    def multiply(x: jax.Array, y: jax.Array) -> jax.Array:
        images, kernel = call.grouped(x, y)
        windows = call.windows(images, kernel)
        return call.in_order(dot_general.plain_product(windows, kernel, call.dimension_numbers))

    def outer(of_left: jax.Array, of_right: jax.Array) -> jax.Array:
        batches = call.groups[1]
        if batches > 1:  # An output adds terms of one of several images.
            of_left = jnp.broadcast_to(jnp.max(of_left), (left[image] // batches,))
        kinds = [jax.ShapeDtypeStruct(shape, np.float64) for shape in (left, right)]
        shape = jax.eval_shape(multiply, *kinds).shape
        to = call.numbers.out_spec[:2]
        each = zip((of_left, of_right), to, strict=True)
        return lax.mul(*(lax.broadcast_in_dim(value, shape, (axis,)) for value, axis in each))

    count = math.prod(right[d] for d in right_axes) * devices.number
    how = states.Products(count, devices, is_long, multiply, left_axes, right_axes, outer)
    return Operation(how, (0, 1))


def _sum(operands: Sequence[Any], params: Mapping[str, Any], devices: Devices) -> Operation:
    axes = tuple(params["axes"])
    count = math.prod(operands[0].shape[axis] for axis in axes) * devices.number
    how = states.Elements(count, devices, _is_long(operands[0]), lambda x: lax.reduce_sum(x, axes))
    return Operation(how, (0,))


def _scatter(operands: Sequence[Any], params: Mapping[str, Any], devices: Devices) -> Operation:
    _, indices, _ = operands
    names = ("dimension_numbers", "indices_are_sorted", "unique_indices", "mode")
    options = {name: params[name] for name in names}

    def add(indices: jax.Array, operand: jax.Array, updates: jax.Array) -> jax.Array:
        return lax.scatter_add(operand, indices, updates, **options)

    count = (math.prod(indices.shape[:-1]) + 1) * devices.number
    return Operation(states.Elements(count, devices, _is_long(operands[0]), add), (0, 2))


def _is_long(operand: Any) -> bool:
    return arithmetic.is_long(operand.dtype)


_OPERATIONS: Mapping[str, Callable[[Sequence[Any], Mapping[str, Any], Devices], Operation]] = {
    "conv_general_dilated": _convolution,
    "dot_general": _product,
    "reduce_sum": _sum,
    "scatter-add": _scatter,
}

"""Sums over axes and devices, along an axis, of arrays, and by index, in the order ``nearest``.

``impl._exact.nearest.exact_sum`` splits the terms, float16, bfloat16, float32 or float64, into
parts. The functions here say how float64 adds them, which depends on no order, so XLA may partition
the sums.

For an array of float32 with two rows::

    x                      [[1, 2**-24, 2**-60], [3, 4, 5]]
    reduce_sum(x, (1,))    [1 + 2**-23, 12]
    cumsum(x, 1)           [[1, 1, 1 + 2**-23], [3, 7, 12]]

Derivatives need the exact sum of a few arrays, element by element: a value that a program uses five
times has a derivative of five parts. Three, as most derivatives have, need no parts and no loop, so
XLA fuses their sum. TwoSum (Knuth, *The Art of Computer Programming* 2, section 4.2.2) adds two of
them, and then the third one, each time with an error. The sum of the errors is rounded to odd
before it is added (Boldo and Melquiond 2008, doi:10.1109/TC.2007.70819)::

    terms, float32         2**60, 1, -2**60
    two of them            2**60 + 1, as 2**60 and the error 1
    with the third         0 and the errors 0 and 1      sum 1

A result of ``scatter_add`` is the exact sum of a destination's terms, rounded once. XLA scatters
parts of all terms, in any order, by atomics, and over devices; float64 adds the parts without error
(``nearest.exact_sum``)::

    updates               3, 0.25, 1, -2**-80       to destinations 0, 0, 1, 1
    multiples of 2**-45   3, 0.25, 1, 0             sums 3.25, 1
    multiples of 2**-93   0, 0, 0, -2**-80          sums 0, -2**-80
    results               3.25, 1

No kernel is needed: XLA's scatter of float64 is one relaxed reduction for each update.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import ScatterDimensionNumbers

from impl._core.shard_axes import Devices, Groups, aligned
from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.nearest.exact_sum import Addition
from impl._native import scatters
from impl._native import sums as native
from impl._native.scope import or_native

#: The names of mesh axes.
Names: TypeAlias = Sequence[Any]


@or_native(native.reduce_sum)
def reduce_sum(
    x: jax.Array,
    axes: Sequence[int],
    dtype: jax.typing.DTypeLike | None = None,
    *,
    axis_names: Names = (),
    axis_index_groups: Groups = None,
    **_: Any,
) -> jax.Array:
    """Returns the sum of floats over axes and over named axes of a ``shard_map``, rounded once.

    The result has the dtype of ``x``, or another one. If there is nothing to sum over, it is ``x``
    itself. The groups are as ``lax.psum`` takes them.
    """
    dtype = x.dtype if dtype is None else dtype
    if not axes and not axis_names:
        return lax.convert_element_type(x, dtype)
    axes = sorted(axis % x.ndim for axis in axes)
    if x.size == 0:
        shape = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
        return lax.full(shape, 0, dtype)
    devices = Devices(tuple(axis_names), axis_index_groups)
    count = math.prod(x.shape[axis] for axis in axes) * devices.number

    def add(terms: jax.Array) -> jax.Array:
        return devices.sum(lax.reduce_sum(terms, axes))

    return Addition(add, count, devices).rounded(dtype, x)


@or_native(native.reduce_scatter)
def reduce_scatter(
    x: jax.Array,
    axis_name: Any,
    *,
    scatter_dimension: int,
    axis_index_groups: Groups = None,
    tiled: bool = False,
    **_: Any,
) -> jax.Array:
    """Returns one part of the sum of floats over a named axis, as ``lax.psum_scatter`` does."""
    names = tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)
    devices = Devices(names, axis_index_groups)
    add = functools.partial(
        lax.psum_scatter,
        axis_name=axis_name,
        scatter_dimension=scatter_dimension,
        axis_index_groups=axis_index_groups,
        tiled=tiled,
    )
    return Addition(add, devices.number, devices).rounded(x.dtype, x)


@or_native(native.cumsum)
def cumsum(x: jax.Array, axis: int, *, reverse: bool = False) -> jax.Array:
    """Returns the running sums of floats along an axis; with ``reverse``, from its end."""
    if x.size == 0:
        return x
    axis %= x.ndim
    # A bounded symbolic size (jax.export) is refused here: XLA calls no such program, because the
    # windows of running sums of digits are as long as the axis ("Error refining shapes").
    length = operator.index(x.shape[axis])
    add = functools.partial(lax.cumsum, axis=axis, reverse=reverse)
    return Addition(add, length).rounded(x.dtype, x)


@or_native(native.add)
def add(*terms: jax.Array) -> jax.Array:
    """Returns the exact sum of arrays, rounded once to the nearest float, ties to even.

    A sum is -0 if all terms are -0; any other sum of 0 is 0. Subnormal terms and results count as
    zero, except for float16. With an infinity or a NaN, the sum is the one of IEEE 754, which has
    no order.

    Args:
        *terms: float16, bfloat16, float32 or float64, at least two of one shape and dtype. Call
            the function inside ``arithmetic.wide()``.
    """
    dtype, count = terms[0].dtype, len(terms)
    if count != 3 or dtype in (np.float16, np.float64):
        total = Addition(_plain, count).rounded(dtype, *terms)
    else:
        wide = [arithmetic.widen(term) for term in terms]
        high, low = arithmetic.two_sum(*wide[1:])
        last, error = arithmetic.two_sum(wide[0], high)
        whole = arithmetic.add_to_odd(last, arithmetic.add_to_odd(error, low))
        plain = _plain(*wide)
        # An infinity or a NaN has no order.
        whole = lax.select(lax.is_finite(plain), whole, plain)
        total = interval.positive_zero(arithmetic.narrow(whole, dtype))
    are_minus_zeros = functools.reduce(lax.bitwise_and, map(_is_minus_zero, terms))
    return lax.select(are_minus_zeros, lax.full_like(total, -0.0), total)


def _plain(*terms: jax.Array) -> jax.Array:
    return functools.reduce(lax.add, terms)


def _is_minus_zero(term: jax.Array) -> jax.Array:
    """Returns whether elements are -0, by their bits, also where a device keeps subnormals."""
    word = jnp.dtype(f"uint{8 * term.dtype.itemsize}")
    raw = lax.bitcast_convert_type(term, word)
    sign = 1 << (8 * term.dtype.itemsize - 1)
    # A float16 is never subnormal in float32, in which it is computed.
    least = 1 if term.dtype == np.float16 else int(np.array(jnp.finfo(term.dtype).tiny).view(word))
    return lax.lt(lax.bitwise_xor(raw, lax.full_like(raw, sign)), lax.full_like(raw, least))


@or_native(scatters.scatter_add)
def scatter_add(
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    *,
    dimension_numbers: ScatterDimensionNumbers,
    mode: Any = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    subtract: bool = False,
    axis_names: Sequence[Any] = (),
) -> jax.Array:
    """Returns the operand with updates added to it, as ``lax.scatter_add`` does.

    The operand is of float16, bfloat16, float32 or float64. With ``subtract``, the updates are
    subtracted. Over ``axis_names``, mesh axes of a ``shard_map``, operands and updates of all
    devices are added in one sum.
    """
    if operand.size == 0:
        return operand
    operand, indices, updates = aligned(operand, indices, updates)
    updates = lax.neg(updates) if subtract else updates
    devices = Devices(tuple(axis_names))

    def add(operand: jax.Array, updates: jax.Array) -> jax.Array:
        total = lax.scatter_add(
            operand,
            indices,
            updates,
            dimension_numbers,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
            mode=mode,
        )
        return devices.sum(total)

    batch = dimension_numbers.scatter_indices_batching_dims
    sizes = [size for axis, size in enumerate(indices.shape[:-1]) if axis not in batch]
    # Each window writes an element at most once.
    count = (1 if unique_indices else math.prod(sizes)) + 1
    how = Addition(add, count * devices.number, devices)
    return how.rounded(operand.dtype, operand, updates)

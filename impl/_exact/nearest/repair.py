"""The elements in doubt, computed again: some at a time, until none is left.

To find them, each group of 16 neighbours gets a mask: 2**15 if the first one is in doubt, plus
2**14 if the second one is, and so on. A trip of the loop picks the groups with the greatest masks,
by ``top_k``. It computes the first element in doubt of each of them exactly, stores it over its
mark, and drops it from the mask::

    in doubt          elements 3, 5 and 40            of 48
    masks             2**12 + 2**10, 0, 2**7
    trip 1            elements 3 and 40
    masks             2**10, 0, 0
    trip 2            element 5

The loop ends when all masks are 0. Few small products have a mark, and their loops take no trip.

Compiling takes as long as there are kernels that differ, so most of a trip is about arrays of
``_ELEMENTS``, which are equal for all products.

No element is in doubt whose terms float64 adds without error (``error_of_products``). The last bit
of terms is the greatest power of two of which all of them are multiples. If float64 has the bits
from it up to the sum of magnitudes, it adds the terms without error, in any
order. That decides ties, which no bound of an error can::

    terms                  0.75, 1024, 2**-10
    last bit               2**-10
    sum of magnitudes      2048 at most, 2**21 last bits: exact
    of 1, 2**-80           2**81 last bits: float64 may err

Two measures of float32 suffice: the least magnitude that is not 0, and the bits that any term has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax

from impl._core.numerics import fence, in_any_order
from impl._core.shard_axes import Devices
from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.nearest.exact_sum import Addition, Scaled, full, reduced
from impl._exact.nearest.interval import is_doubt, word_of, word_type

#: The greatest numbers of elements, and of their terms, that a trip computes.
_ELEMENTS, _TERMS = 32, 1 << 17
#: The number of elements in a group.
_GROUP = 16
#: A position after the end of each array.
_NOWHERE = np.iinfo(np.int32).max


def repaired(
    coded: jax.Array,
    dtype: jax.typing.DTypeLike,
    terms: int,
    exact: Callable[[jax.Array], jax.Array],
) -> jax.Array:
    """Returns the result with the elements in doubt computed by ``exact``.

    Args:
        coded: Words of ``interval.rounded``, any shape.
        dtype: The dtype of the values.
        terms: The number of terms of an element, on a device.
        exact: Takes positions in the flat result, int32, shape [n], and returns the elements. If
            fewer are in doubt, the first element fills up, and may be undefined.
    """
    # XLA for a TPU drops an axis of one element by a sum with -0, which may change a mark.
    is_float = np.dtype(dtype) == np.float32 and 1 not in coded.shape
    kind = np.float32 if is_float else coded.dtype
    count = min(_ELEMENTS, max(1, _TERMS // (1 << (terms - 1).bit_length())))

    def trip(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        out, masks = state
        mask, group = lax.top_k(masks, count)
        first = _leading(mask)
        is_asked = lax.gt(mask, lax.full_like(mask, 0))
        before = lax.mul(group, lax.full_like(group, _GROUP))
        position = lax.add(before, _distance(first))
        position = lax.select(is_asked, position, lax.full_like(position, 0))
        slot = lax.select(is_asked, position, lax.full_like(position, _NOWHERE))
        values = lax.bitcast_convert_type(word_of(exact(position)), kind)
        out = lax.reshape(_stored(_flat(out), slot, values), coded.shape)
        return out, _stored(masks, group, lax.sub(mask, first))

    # XLA copies an array to make floats of its words, or does so on its way into the loop. It may
    # change the bits of a NaN of 16 bits. The words of a flat array would take three times as long:
    # XLA would divide the position of each one.
    out = lax.bitcast_convert_type(coded, kind)
    with in_any_order():
        # Without the fences, XLA would compute the words once more for the masks.
        out = fence(out)
        masks = fence(_masks(out))
        groups: Any = masks.size
        count = min(count, groups) if isinstance(groups, int) else count
        out, _ = lax.while_loop(
            lambda state: lax.gt(lax.reduce_max(state[1], (0,)), np.float32(0)), trip, (out, masks)
        )
    return lax.bitcast_convert_type(out, dtype)


def repaired_sums(
    coded: jax.Array,
    dtype: jax.typing.DTypeLike,
    count: int,
    terms: Callable[[jax.Array], jax.Array | Scaled],
    devices: Devices,
) -> jax.Array:
    """Returns sums with the elements in doubt added exactly.

    Args:
        coded: Words of ``interval.rounded``, any shape.
        dtype: The dtype of the sums.
        count: The number of terms of a sum, on a device.
        terms: Takes positions in the flat result, int32, shape [n]; returns the terms of these
            sums, float64, shape [n, K].
        devices: The devices that share the sums.
    """

    def add(parts: jax.Array) -> jax.Array:
        return devices.sum(lax.reduce_sum(parts, (1,)))

    def exact(at: jax.Array) -> jax.Array:
        rows = terms(at)
        count = rows.shape[1] * devices.number
        return Addition(add, count, devices, are_products=True).rounded(dtype, rows)

    return repaired(coded, dtype, count, exact)


def _flat(value: jax.Array) -> jax.Array:
    return lax.reshape(value, (value.size,))


def _masks(coded: jax.Array) -> jax.Array:
    """Returns the mask of each group of 16 elements: an integer of 16 bits, float32."""
    flat = _flat(coded)
    words = lax.bitcast_convert_type(flat, word_type(flat.dtype))
    marks = lax.convert_element_type(is_doubt(words), np.float32)
    size: Any = flat.size
    # A symbolic size (jax.export) is not an int, and may be less than the groups of a trip.
    missing = -size % _GROUP + (0 if isinstance(size, int) else _GROUP * _ELEMENTS)
    marks = lax.pad(marks, np.float32(0), [(0, missing, 0)])
    rows = lax.reshape(marks, (marks.size // _GROUP, _GROUP))
    bits = np.exp2(np.arange(_GROUP - 1, -1, -1)).astype(np.float32)
    return lax.reduce_sum(lax.mul(rows, lax.broadcast_in_dim(bits, rows.shape, (1,))), (1,))


def _leading(mask: jax.Array) -> jax.Array:
    """Returns the leading bit of each mask, float32; 0 for 0."""
    raw = lax.bitcast_convert_type(mask, np.int32)
    exponent = lax.full_like(raw, np.array(np.inf, np.float32).view(np.int32))
    return lax.bitcast_convert_type(lax.bitwise_and(raw, exponent), np.float32)


def _distance(bit: jax.Array) -> jax.Array:
    """Returns how many marks of a group are before the one of a bit of its mask, int32."""
    raw = lax.bitcast_convert_type(bit, np.int32)
    field = lax.shift_right_logical(raw, lax.full_like(raw, 23))
    return lax.sub(lax.full_like(field, 127 + _GROUP - 1), field)


def _stored(out: jax.Array, slots: jax.Array, values: jax.Array) -> jax.Array:
    """Returns a flat array with values at slots; a slot after its end is dropped."""
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    stored: jax.Array = lax.scatter(
        out,
        lax.broadcast_in_dim(slots, (*slots.shape, 1), (0,)),
        values,
        numbers,
        unique_indices=True,
        mode=lax.GatherScatterMode.FILL_OR_DROP,
    )
    return stored


#: All bits of a float32 but its sign, and the bits of the greatest finite one.
_MAGNITUDE, _HUGE = 0x7FFFFFFF, 0x7F7FFFFF
#: The bits of a float32 after its leading bit, which is the next one.
_FRACTION = 23
#: The number of results from which on the ties among them take longer than the last bits.
_MANY = 4096
#: The greatest number of terms of a sum that several devices compare last bits for.
_FEW = 64


def _of_all(terms: jax.Array) -> jax.Array:
    """Returns an int32 e for all float32 of an array, which are multiples of 2**(e - 126)."""
    # Equal kernels are compiled once, so the shape is left out.
    raw = lax.bitcast_convert_type(lax.reshape(terms, (terms.size,)), np.int32)
    magnitude = lax.bitwise_and(raw, lax.full_like(raw, _MAGNITUDE))
    is_zero = lax.eq(magnitude, lax.full_like(raw, 0))
    # An order of magnitudes is an order of their bits, where a NaN comes last.
    magnitude = lax.select(is_zero, lax.full_like(raw, _HUGE), magnitude)
    least, bits = reduced([magnitude, raw], [lax.min, lax.bitwise_or], (0,))
    # The last bit of the terms is the least one that is set in any of them.
    bits = lax.bitwise_or(bits, lax.full_like(bits, 1 << _FRACTION))
    after = lax.sub(lax.bitwise_and(bits, lax.neg(bits)), lax.full_like(bits, 1))
    field = lax.shift_right_logical(least, lax.full_like(least, _FRACTION))
    last = lax.add(field, lax.population_count(after))
    return lax.sub(last, lax.full_like(last, _FRACTION + 1))


def error_of_products(
    error: jax.Array,
    chain: Any,
    factors: Sequence[jax.Array],
    terms: Any,
    devices: Devices,
    *,
    is_partitioned: bool,
) -> jax.Array:
    """Returns bounds of the errors of sums of products: 0 where float64 adds without error.

    Few results are soon computed again. Where XLA partitions a product, it exchanges the bits
    between devices, which only sums of few terms are worth: weights of an interpolation make ties
    of those. All other bounds stay as they are.

    Args:
        error: Bounds of the errors: ``chain`` times bounds of the sums of magnitudes, float64.
        chain: As ``interval.of_chain`` returns it.
        factors: The left factors and the right ones, float32.
        terms: The number of terms of a sum; a symbolic size of jax.export, too.
        devices: The devices that share the sums.
        is_partitioned: Whether XLA may partition the product.
    """
    results: Any = error.size
    if isinstance(results, int) and results < _MANY:
        return error
    if is_partitioned and not (isinstance(terms, int) and terms <= _FEW):
        return error
    lhs, rhs = (devices.min(_of_all(each)) for each in factors)
    return _unless_exact(error, chain, lhs, rhs)


def _unless_exact(error: jax.Array, chain: Any, lhs: jax.Array, rhs: jax.Array) -> jax.Array:
    """Returns bounds of errors, 0 where they are exact, by the exponents of both factors."""
    last = arithmetic.power_of_two(lax.sub(lax.add(lhs, rhs), np.int32(2 * 126)))
    # The bound itself may be off by less than this.
    most = chain / interval.ROUNDING * (1 - 2.0**-10)
    is_exact = lax.le(error, full(lax.mul(last, lax.full_like(last, most)), error))
    return lax.select(is_exact, lax.full_like(error, 0), error)

"""Scatters of the measures of terms, and of their parts where the measures leave a doubt.

All forms of ``impl._exact.sums.scatter`` share these steps. A form is a ``Call``: how XLA adds and
takes maxima by index, and over which mesh axes it sums.

1. XLA scatters the measures of all terms (``measures``), in any order.
2. The measures decide the result of a destination, or leave it in doubt.
3. If a destination is in doubt, XLA scatters parts of all terms, multiples of one unit after
   another, until the unit is below the last bits of its terms (``nearest.sums``). Nearly all calls
   skip this step.

For five updates of float32 and an operand of zeros::

    destination           0              1
    terms                 3, 0.25        1, 2**-24, -2**-80
    value                 3.25           1 + 2**-24, a tie
    last bits             from 2**-25    from 2**-103
    result of measures    3.25, exact    in doubt
    multiples of 2**-46   not asked for  1, 2**-24, 0
    multiples of 2**-94   not asked for  0, 0, -2**-80
    result                3.25           1
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.numerics import fence, in_any_order
from impl._core.shard_axes import aligned, vary_like
from impl._exact import arithmetic
from impl._exact.nearest import interval, long_sums
from impl._exact.nearest import sums as sums_of
from impl._exact.nearest.reductions import greatest_of_all
from impl._exact.products.shards import Cuts
from impl._exact.sums.measures import Measures

#: The exponent that stands for no term.
_NONE = -(1 << 30)
#: How two measures are combined.
_COMBINED = {"add": lax.add, "max": lax.max}


class Call(Protocol):
    """A scatter, by its parameters."""

    @property
    def cuts(self) -> Cuts:
        """The mesh axes to sum over."""

    def add(self, operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        """Returns the operand with updates added to it, in any order."""

    def max(self, operand: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        """Returns the maximum of the operand and the updates."""


def nearest(
    call: Call,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    measures: Measures,
    *,
    chunk: int | None = None,
) -> jax.Array:
    """Returns the operand with updates added to it, in the spec's order ``nearest``.

    Args:
        call: How XLA scatters.
        operand: float16, bfloat16, float32 or float64.
        indices: As ``call`` takes them.
        updates: The dtype of ``operand``.
        measures: The measures of the sums.
        chunk: The number of updates, along the first axis, to scatter at a time; None for all.
    """
    if measures.is_plain:
        value = _measured(call, operand, indices, updates, measures, chunk)[0]
        return measures.plain(value)
    sums = _measured(call, operand, indices, updates, measures, chunk)
    coded = measures.coded(sums)
    span = _span(measures, sums, interval.is_doubt(coded))
    # XLA copies an array to make floats of its words. It may change a NaN of 16 bits.
    kind = np.float32 if jnp.dtype(measures.dtype) == np.float32 else coded.dtype

    def resolve(state: tuple[jax.Array, _Span]) -> tuple[jax.Array, _Span]:
        out, span = state
        exact = _exact(call, operand, indices, updates, measures, sums[0], span, chunk)
        coded = lax.bitcast_convert_type(out, interval.word_type(out.dtype))
        coded = lax.select(interval.is_doubt(coded), interval.word_of(exact), coded)
        return lax.bitcast_convert_type(coded, kind), span

    state = lax.bitcast_convert_type(coded, kind), span
    out, _ = if_in_doubt(state, lambda state: state[1].has_doubt, resolve)
    return lax.bitcast_convert_type(out, measures.dtype)


def resolved(
    call: Call,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    measures: Measures,
    out: jax.Array,
) -> jax.Array:
    """Returns results with exact ones for NaNs that stand for results in doubt.

    Args:
        call: How XLA scatters.
        operand: As for ``nearest``.
        indices: As for ``nearest``.
        updates: As for ``nearest``.
        measures: As for ``nearest``.
        out: The results. A NaN of any bits, where the value is finite, stands for one in doubt.
    """
    sums = _measured(call, operand, indices, updates, measures, None)
    asked = lax.bitwise_and(lax.ne(out, out), lax.is_finite(sums[0]))
    span = _span(measures, sums, asked)
    exact = _exact(call, operand, indices, updates, measures, sums[0], span, None)
    return lax.select(asked, exact, out)


def if_in_doubt(
    state: Any, has_doubt: Callable[[Any], jax.Array], resolve: Callable[[Any], Any]
) -> Any:
    """Returns ``resolve(state)`` if ``has_doubt(state)``, and ``state`` otherwise.

    A loop of one step or none would save XLA a copy of the state, but XLA crashes where it
    partitions a branch in a loop (jax 0.10 to 0.12).
    """
    state = fence(state)
    with in_any_order():
        return lax.cond(has_doubt(state), resolve, lambda state: state, state)


class _Span(NamedTuple):
    """The exponents of the terms of all sums in doubt, int32.

    Attributes:
        above: 2**above is above the sums of magnitudes; ``_NONE`` if no sum is in doubt.
        grid: All terms are multiples of 2**grid.
    """

    above: jax.Array
    grid: jax.Array

    @property
    def has_doubt(self) -> jax.Array:
        """Whether a sum is in doubt."""
        return lax.gt(self.above, np.int32(_NONE))


def _span(measures: Measures, sums: Sequence[jax.Array], asked: jax.Array) -> _Span:
    """Returns the exponents of the terms of the sums that are asked for."""
    top, last, asked = aligned(*measures.span(sums), asked)
    none = lax.full_like(top, _NONE)
    above, depth = greatest_of_all(
        lax.select(asked, top, none), lax.select(asked, lax.neg(last), none)
    )
    return _Span(above, lax.neg(depth))


def _measured(
    call: Call,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    measures: Measures,
    chunk: int | None,
) -> list[jax.Array]:
    """Returns the measures of the sums; the arguments are as for ``nearest``."""

    def scattered(numbers: Sequence[int]) -> list[jax.Array]:
        def add(sums: list[jax.Array], indices: jax.Array, updates: jax.Array) -> list[jax.Array]:
            return [
                getattr(call, measures.combinations[k])(
                    total, indices, measures.functions[k](updates)
                )
                for k, total in zip(numbers, sums, strict=True)
            ]

        own = [measures.functions[k](operand) for k in numbers]
        initial = [lax.full_like(each, 0) for each in own]
        found = in_chunks(add, initial, indices, updates, chunk)
        # The last kernel reads the operand, so none converts it before.
        return [
            _COMBINED[measures.combinations[k]](*pair)
            for k, *pair in zip(numbers, found, own, strict=True)
        ]

    numbers = range(len(measures.functions))
    # Two tables of wide rows would fill the cache of a CPU.
    groups = [numbers] if measures.counts is None else [numbers[:1], numbers[1:]]
    local = [each for group in groups for each in scattered(group)]
    joined = {"add": call.cuts.sum, "max": call.cuts.max}
    pairs = zip(measures.combinations, local, strict=True)
    return [joined[combination](each) for combination, each in pairs]


def _exact(
    call: Call,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    measures: Measures,
    values: jax.Array,
    span: _Span,
    chunk: int | None,
) -> jax.Array:
    """Returns exact sums, rounded once, where ``span`` is right.

    Args:
        call: As for ``nearest``.
        operand: As for ``nearest``.
        indices: As for ``nearest``.
        updates: As for ``nearest``.
        measures: As for ``nearest``.
        values: The values of the sums, float64.
        span: The exponents of the terms of the sums that are asked for.
        chunk: As for ``nearest``.
    """
    above, grid = span
    above = lax.add(above, lax.full_like(above, 1))

    def add(part: Callable[[jax.Array], jax.Array]) -> jax.Array:
        def scatter(
            state: list[jax.Array], indices: jax.Array, updates: jax.Array
        ) -> list[jax.Array]:
            return [call.add(state[0], indices, part(measures.terms(updates)))]

        own = part(measures.terms(operand))
        initial = [vary_like(lax.full_like(own, 0), updates)]
        (total,) = in_chunks(scatter, initial, indices, updates, chunk)
        return call.cuts.sum(lax.add(total, own))

    if measures.is_long:
        return long_sums.exact(add, measures.count, above, grid, values, measures.dtype)
    zero = vary_like(lax.full(values.shape, 0, np.float64), values)
    first, last = arithmetic.power_of_two(above), arithmetic.power_of_two(grid)
    odd = sums_of.exact(add, measures.count, first, last, zero)
    return interval.positive_zero(arithmetic.narrow(odd, measures.dtype))


def in_chunks(
    step: Callable[[list[jax.Array], jax.Array, jax.Array], list[jax.Array]],
    initial: list[jax.Array],
    indices: jax.Array,
    updates: jax.Array,
    chunk: int | None,
) -> list[jax.Array]:
    """Applies ``step`` to all updates, or to one chunk of rows after another."""
    # Without a chunk, the updates may have no axis: one update of one element.
    if chunk is None or updates.shape[0] < 2 * max(1, chunk):
        return step(initial, indices, updates)
    n, length = updates.shape[0], max(1, chunk)

    def part(number: jax.Array, state: list[jax.Array]) -> list[jax.Array]:
        # The last chunk starts earlier, so that it is whole, and drops rows that are done.
        first = number * length
        start = jnp.minimum(first, n - length)
        keys, rows = (
            lax.dynamic_slice_in_dim(array, start, length, 0) for array in (indices, updates)
        )
        is_new = start + lax.iota(np.int32, length) >= first
        return step(state, jnp.where(is_new, keys, np.iinfo(np.int32).max), rows)

    result: list[jax.Array] = lax.fori_loop(0, -(-n // length), part, initial)
    return result

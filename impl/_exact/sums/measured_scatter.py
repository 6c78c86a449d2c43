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
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core.numerics import fence, in_any_order
from impl._core.shard_axes import aligned, vary_like
from impl._exact import arithmetic
from impl._exact.nearest import interval, long_sums
from impl._exact.nearest import sums as sums_of
from impl._exact.products.shards import Cuts
from impl._exact.sums.measures import Measures


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

    def resolve(coded: jax.Array) -> jax.Array:
        asked = interval.is_doubt(coded)
        exact = _exact(call, operand, indices, updates, measures, sums, asked, chunk)
        return lax.select(asked, interval.word_of(exact), coded)

    coded = if_in_doubt(measures.coded(sums), _has_doubt, resolve)
    return lax.bitcast_convert_type(coded, measures.dtype)


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
    exact = _exact(call, operand, indices, updates, measures, sums, asked, None)
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


def _has_doubt(coded: jax.Array) -> jax.Array:
    return lax.reduce_or(interval.is_doubt(coded), tuple(range(coded.ndim)))


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

        initial = [measures.functions[k](operand) for k in numbers]
        return _in_chunks(add, initial, indices, updates, chunk)

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
    sums: Sequence[jax.Array],
    asked: jax.Array,
    chunk: int | None,
) -> jax.Array:
    """Returns exact sums, rounded once, where they are asked for."""
    top, last = aligned(*measures.span(sums))
    end = np.iinfo(np.int32)
    above = sums_of.greatest_of_all(lax.select(asked, top, lax.full_like(top, end.min)))
    above = lax.add(above, lax.full_like(above, 1))
    last = lax.select(asked, last, lax.full_like(last, end.max))
    grid = lax.reduce_min(last, tuple(range(last.ndim)))

    def add(part: Callable[[jax.Array], jax.Array]) -> jax.Array:
        def scatter(
            state: list[jax.Array], indices: jax.Array, updates: jax.Array
        ) -> list[jax.Array]:
            return [call.add(state[0], indices, part(measures.terms(updates)))]

        initial = [vary_like(part(measures.terms(operand)), updates)]
        (total,) = _in_chunks(scatter, initial, indices, updates, chunk)
        return call.cuts.sum(total)

    if measures.is_long:
        return long_sums.exact(add, measures.count, above, grid, sums[0], measures.dtype)
    zero = vary_like(lax.full(top.shape, 0, np.float64), sums[0])
    first, last = arithmetic.power_of_two(above), arithmetic.power_of_two(grid)
    odd = sums_of.exact(add, measures.count, first, last, zero)
    return interval.positive_zero(arithmetic.narrow(odd, measures.dtype))


def _in_chunks(
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

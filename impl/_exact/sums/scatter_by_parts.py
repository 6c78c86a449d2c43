"""A scatter on a CPU whose terms are all added in parts, which float64 adds without error.

``measured_scatter`` scatters three measures of each term, and parts of the terms where the measures
leave a doubt. Here is no doubt: the exponents of all terms, which one reduction finds, say how many
parts they have, and a loop scatters one part after another (``nearest.sums``)::

    updates               3, 0.25, 1, -2**-80       to destinations 0, 0, 1, 1
    exponents             up to 2**2, and all are multiples of 2**-103
    multiples of 2**-45   3, 0.25, 1, 0             sums 3.25, 1
    multiples of 2**-93   0, 0, 0, -2**-80          sums 0, -2**-80
    results               3.25, 1

Usual terms have two or three parts. A part is scattered in the time of a measure or two, so the
results take as long, and this loop has half of the kernels that XLA compiles. Each part also takes
a pass over all destinations. If there are many more destinations than updates, measures take less.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
from jax import lax

from impl._core.shard_axes import vary_like
from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.nearest import sums as sums_of
from impl._exact.nearest.reductions import reduced
from impl._exact.sums.measured_scatter import Call, in_chunks
from impl._exact.sums.measures import Measures

#: The number of destinations, and how many times as many as updates, that parts are worth it for.
_FEW, _TIMES = 1 << 14, 2
#: The greatest exponent field of a float32.
_DEEPEST = 255


def suits(operand: jax.Array, updates: jax.Array, measures: Measures) -> bool:
    """Returns whether parts alone take less time than measures.

    Args:
        operand: The destinations.
        updates: The updates.
        measures: The measures that a sum would have.
    """
    is_small = operand.size <= max(_FEW, _TIMES * updates.size)
    return is_small and not measures.is_long and not measures.is_plain


def nearest(
    call: Call,
    operand: jax.Array,
    indices: jax.Array,
    updates: jax.Array,
    measures: Measures,
    *,
    chunk: int | None,
) -> jax.Array:
    """Returns what ``measured_scatter.nearest`` does, on one device.

    Args:
        call: How XLA scatters.
        operand: float16, bfloat16 or float32.
        indices: As ``call`` takes them.
        updates: The dtype of ``operand``.
        measures: The measures of the sums, which say how many terms they have, and of which bits.
        chunk: The number of updates, along the first axis, to scatter at a time; None for all.
    """

    def add(part: Callable[[jax.Array], jax.Array]) -> jax.Array:
        def scatter(
            state: list[jax.Array], indices: jax.Array, updates: jax.Array
        ) -> list[jax.Array]:
            return [call.add(state[0], indices, part(measures.terms(updates)))]

        own = vary_like(part(measures.terms(operand)), updates)
        return in_chunks(scatter, [own], indices, updates, chunk)[0]

    first, last = _units(measures, operand, updates)
    zero = vary_like(lax.full(operand.shape, 0, np.float64), updates)
    odd = sums_of.exact(add, measures.count, first, last, zero, keeps_special=True)
    result = interval.positive_zero(arithmetic.narrow(odd, measures.dtype))
    return lax.bitcast_convert_type(interval.word_of(result), measures.dtype)


def _units(
    measures: Measures, operand: jax.Array, updates: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Returns a power of two above twice all terms, and one that divides them, for ``exact``."""
    found = [_exponents(measures.field(terms)) for terms in (operand, updates)]
    (top, least), (of_updates, least_of_updates) = found
    top, least = lax.max(top, of_updates), lax.min(least, least_of_updates)
    above = arithmetic.power_of_two(lax.add(top, np.int32(1 - 126)))
    # The last bit of a term with an exponent field f and p more bits is 2**(f - 127 - p).
    return above, arithmetic.power_of_two(lax.sub(least, np.int32(127 + measures.fraction)))


def _exponents(field: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Returns the greatest exponent field and the least one of a term that is not 0, int32."""
    is_zero = lax.eq(field, lax.full_like(field, 0))
    least = lax.select(is_zero, lax.full_like(field, _DEEPEST), field)
    top, least = reduced([field, least], [lax.max, lax.min], range(field.ndim))
    return top, least

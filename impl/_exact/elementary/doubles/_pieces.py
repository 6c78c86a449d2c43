"""Polynomials as pairs, one for each piece of an interval.

Every element takes the coefficients of its piece by selections, which cost less than a product of
pairs, and short pieces need few coefficients.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from jax import lax

from impl._exact.arithmetic import product
from impl._exact.elementary._pairs import Pair, plus_less, plus_pair, times_pair
from impl._exact.elementary._words import constant


def chosen(is_from: Sequence[jax.Array], values: Sequence[float], like: jax.Array) -> jax.Array:
    """Returns the first of some values, or the last one whose condition holds.

    Args:
        is_from: A condition for each value but the first.
        values: The values.
        like: An array of the shape of the result.
    """
    result = constant(like, values[0])
    for condition, value in zip(is_from, values[1:], strict=True):
        result = lax.select(condition, constant(like, value), result)
    return result


def series_by_piece(
    is_from: Sequence[jax.Array],
    coefficients: Sequence[Sequence[tuple[float, float]]],
    x: Pair,
    kept: int,
    exact: bool,
) -> Pair:
    """Returns a polynomial by Horner's rule, with the coefficients of each element's piece.

    Args:
        is_from: For each piece but the first, whether the element is in it or in a later one.
        coefficients: For each power of x, the lowest first, a pair for each piece.
        x: The argument.
        kept: The number of the first powers that are computed as pairs.
        exact: Whether all digits are needed. Otherwise, no term may exceed the one before.
    """
    zero = constant(x[0], 0)
    result = (zero, zero)
    for power, values in reversed(list(enumerate(coefficients))):
        high, low = (chosen(is_from, parts, zero) for parts in zip(*values, strict=True))
        if power < kept:
            more = times_pair(x, result, exact)
            result = plus_pair((high, low), more) if exact else plus_less((high, low), more, exact)
        else:
            result = lax.add(high, product(x[0], result[0])), zero
    return result


@functools.cache
def tables() -> Mapping[str, Any]:
    """Returns the content of ``coefficients.toml``, read when the first function needs it."""
    return tomllib.loads(Path(__file__).with_name("coefficients.toml").read_text(encoding="utf-8"))


def by_table(name: str, x: Pair, exact: bool) -> Pair:
    """Returns the function of a table, with all digits or with about 60 bits."""
    table = tables()[name]
    first = 0 if exact else 1
    is_from = [lax.ge(x[0], constant(x[0], start)) for start in table["starts"][1:]]
    # The engine ``native`` has one step for a table of 8 entries by their numbers.
    number = chosen(is_from, range(len(is_from) + 1), x[0])
    is_from = [lax.ge(number, constant(number, n)) for n in range(1, len(is_from) + 1)]
    centre = chosen(is_from, table["centres"], x[0])
    distance = plus_pair(x, (lax.neg(centre), constant(centre, 0)))
    terms = table["coefficients"][: table["terms"][first]]
    return series_by_piece(is_from, terms, distance, table["pairs"][first], exact)

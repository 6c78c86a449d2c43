"""Section 1 of the demo: one list of numbers, added up in three orders."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable

from impl._demo.report import Report


def left_to_right(numbers: Iterable[float]) -> float:
    """Returns the sum with one rounding for each addition."""
    # sum() would not do: from Python 3.12 on, it compensates the rounding errors.
    return functools.reduce(operator.add, numbers, 0.0)


def three_orders(small: list[float], large: list[float]) -> dict[str, float]:
    """Returns the sum of all numbers of two lists, in three orders."""
    return {
        "separate": left_to_right(small) + left_to_right(large),
        "combined": left_to_right(small + large),
        "interleaved": left_to_right(s + t for s, t in zip(small, large, strict=True)),
    }


def show(report: Report) -> None:
    report.section("1. One sum, three orders (plain Python floats)")
    totals = three_orders([1e-30] * 10_000, [1e-29] * 10_000)
    for order, total in totals.items():
        report.line(f"    {order:<12} {total!r}")
    report.text(
        "Every floating-point addition rounds, so (a + b) + c and a + (b + c) may differ, and a "
        "sum that many threads share depends on who comes first."
    )
    report.claim("three orders, three results", holds=len(set(totals.values())) == 3)

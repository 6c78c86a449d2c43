"""Reads the tree of additions out of an oracle, by what the oracle returns.

Nobody draws an order by hand: if an oracle changes, its picture does. The method is FPRev
(Xie et al., arXiv:2411.00442). All terms are 1, except that term ``i`` is a huge M and term
``j`` is -M. Each 1 that is added to M or to -M is lost, so the result counts the terms that are
added after these two have met. The other terms form the smallest subtree that holds both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

import spec
from spec import oracles

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
#: Sums along the first axis, from shape [terms, probes] to shape [probes].
Sum: TypeAlias = Callable[[Array], Array]

#: 1 + M is M in float32.
_HUGE = np.float32(2.0**60)


@dataclasses.dataclass(frozen=True)
class Fold:
    """Members that are added from left to right.

    Attributes:
        members: Numbers of terms, and folds whose result is added.
    """

    members: tuple[int | Fold, ...]


@dataclasses.dataclass(frozen=True)
class Example:
    """A sum that shows an order.

    Attributes:
        total: The sum.
        names: The name of each term.
    """

    total: Sum
    names: tuple[str, ...]


def examples() -> Mapping[str, Example]:
    """Returns a sum for each order that fixes a tree of additions, by the name of the order."""
    orders = spec.load().orders
    panel = orders["panel"].parameters["minimum"]
    return {
        "panel": Example(_scatter(oracles.panel), _names(2 * panel + panel // 4, initial=True)),
        "source": Example(_scatter(oracles.source), _names(5, initial=True)),
    }


def tree(example: Example) -> Fold:
    """Returns the tree of additions of a sum."""
    result = _subtree(example.total, len(example.names), np.arange(len(example.names)))
    return result if isinstance(result, Fold) else Fold((result,))


def _names(count: int, *, initial: bool = False) -> tuple[str, ...]:
    numbers = tuple(str(number) for number in range(1, count + 1))
    return ("initial", *numbers) if initial else numbers


def _scatter(oracle: Callable[[Array, Array, Array], Array]) -> Sum:
    """Returns the sum of one destination, whose initial value is the first term."""
    return lambda terms: oracle(terms[:1], np.zeros(len(terms) - 1, int), terms[1:])[0]


def _subtree(total: Sum, count: int, chosen: Array) -> int | Fold:
    """Returns the additions of some terms that form a subtree."""
    first, others = int(chosen[0]), chosen[1:]
    if not len(others):
        return first
    probes = np.ones((count, len(others)), np.float32)
    probes[first] = _HUGE
    probes[others, np.arange(len(others))] = -_HUGE
    sizes = count - total(probes).astype(int)
    members = [first, *(_subtree(total, count, others[sizes == n]) for n in np.unique(sizes))]
    if len(members) == 2 and isinstance(members[1], Fold):
        # Addition commutes, so this is the chain of the other members, with the first one at its
        # end.
        members = _falling([*members[1].members, first])
    return Fold(tuple(members))


def _falling(members: list[int | Fold]) -> list[int | Fold]:
    """Exchanges the first two terms, which commute, if the chain then descends from the first."""
    a, b, c = [*members, -1, -1][:3]
    if isinstance(a, int) and isinstance(b, int) and isinstance(c, int) and a < b and b > c >= 0:
        return [b, a, *members[2:]]
    return members

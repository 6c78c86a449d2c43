"""Compares costs with budgets.

A cost above its budget that is known has an entry in ``known_excesses.toml``, with a reason and a
bound, above which it is an error too. An entry whose cost is within its budget is an error too, so
that a budget which is met once has to be met from then on.
"""

from __future__ import annotations

import dataclasses
import heapq
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib.resources import files

from conformance.lab.compiled.costs import records
from conformance.lab.compiled.costs.case import Budget, CostCase
from conformance.lab.compiled.costs.counts import CaseCost
from conformance.lab.compiled.launches import Account

_FILE = "known_excesses.toml"
#: The words for each term of a budget.
TERMS = {
    "launches": "launches",
    "floors": "bytes, in floors",
    "off": "of the bytes of plain JAX",
}
#: The number of launches that a failure names.
_MOST = 4
_ADVICE = (
    "Make the program cheaper, or, if the cost has a reason that stands, add the case to "
    f"{_FILE} with that reason and a bound."
)


@dataclasses.dataclass(frozen=True)
class Excess:
    """A known excess.

    Attributes:
        case: The name of the case.
        term: A field of ``Budget``.
        reason: Why the cost is above the budget.
        bound: The most that it may be.
    """

    case: str
    term: str
    reason: str
    bound: float


def known_excesses() -> tuple[Excess, ...]:
    """Returns the entries of ``known_excesses.toml``.

    Raises:
        ValueError: An entry is malformed.
    """
    path = files("conformance.lab.compiled.costs") / _FILE
    return parse(tomllib.loads(path.read_text(encoding="utf-8")))


def parse(document: Mapping[str, object]) -> tuple[Excess, ...]:
    """Returns the excesses of a file.

    Raises:
        ValueError: An entry is malformed.
    """
    excesses: list[Excess] = []
    entries = document.get("excess", [])
    for entry in entries if isinstance(entries, list) else []:
        if set(entry) != {"reason", "cases"} or not entry["reason"]:
            raise ValueError(f"{_FILE}: an entry has {sorted(entry)}; it needs reason and cases")
        for case, terms in entry["cases"].items():
            unknown = set(terms) - set(TERMS)
            if unknown:
                raise ValueError(f"{_FILE}: {case}: unknown {sorted(unknown)} of {list(TERMS)}")
            if any(isinstance(bound, bool) or bound < 0 for bound in terms.values()):
                raise ValueError(f"{_FILE}: {case}: a bound is a number of at least 0")
            excesses.extend(
                Excess(case, term, entry["reason"], bound) for term, bound in terms.items()
            )
    return tuple(excesses)


def unknown_names(known: Sequence[Excess], names: Collection[str]) -> list[str]:
    """Returns an error for each entry of a case that does not exist."""
    missing = dict.fromkeys(excess.case for excess in known if excess.case not in names)
    return [f"{_FILE}: there is no case {name}; remove the entry" for name in missing]


def failures(case: CostCase, cost: CaseCost, known: Sequence[Excess]) -> Iterator[str]:
    """Yields a message for each error, and each excess over the budget."""
    for side, error in cost.errors.items():
        yield f"{case.name} for {cost.target}, {_mode(side)}: it cannot be counted: {error}"
    excused = {excess.term: excess.bound for excess in known if excess.case == case.name}
    for term, value in _terms(cost):
        budget = getattr(case.budget, term)
        if budget is None:
            continue
        if value > max(budget, excused.get(term, 0)):
            yield _failure(case.budget, cost, term, value, excused.get(term))
        if value <= budget and term in excused:
            yield (
                f"{case.name}: {_number(value)} {TERMS[term]} is within the budget of "
                f"{_number(budget)}: remove {term!r} of {case.name} from {_FILE}"
            )


def _terms(cost: CaseCost) -> Iterator[tuple[str, float]]:
    """Yields the value of each term of a budget that the sides of a case have."""
    on, off, plain = (cost.sides.get(side) for side in ("on", "off", "plain"))
    if on is not None:
        yield "launches", on.cost.launches
        yield "floors", on.cost.moved / max(1, cost.floor)
    if off is not None and plain is not None:
        yield "off", off.cost.moved / max(1, plain.cost.moved)


def _failure(budget: Budget, cost: CaseCost, term: str, value: float, bound: float | None) -> str:
    side = "off" if term == "off" else "on"
    excess = f"{_number(value)} {TERMS[term]}, and the budget is "
    excess += _number(getattr(budget, term))
    if bound is not None:
        excess += f", the bound of the known excess {_number(bound)}"
    return "\n".join(
        [
            f"{cost.case} for {cost.target}, {_mode(side)}: {excess}",
            *_dearest(cost.sides[side], term),
            f"each launch: python -m conformance costs --explain {cost.case}",
            _ADVICE,
        ]
    )


def _dearest(account: Account, term: str) -> Iterator[str]:
    """Yields the launches that cost the most."""
    is_count = term == "launches"
    yield f"the most {'launches' if is_count else 'bytes'} are of:"
    for launch in heapq.nlargest(
        _MOST,
        account.launches,
        key=lambda each: each.cost.launches if is_count else each.cost.moved,
    ):
        yield f"  {records.launch_line(launch)}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _mode(side: str) -> str:
    return "plain JAX" if side == "plain" else f"the mode {side}"

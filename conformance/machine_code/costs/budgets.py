"""Compares costs with budgets.

A cost above its budget that is known has an entry in ``known_excesses.toml``, with a reason. An
entry of which the cost is within its budget is an error, so that a budget, once it is met, holds.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from conformance.machine_code.costs.case import Budget, CostCase
from conformance.machine_code.costs.measured import CaseCost, ProgramCost

_FILE = "known_excesses.toml"
#: The costs that a budget bounds, and the words for each.
TERMS = {field.name: field.name for field in dataclasses.fields(Budget)} | {
    "floors": "bytes, in floors",
    "rounds": "rounds of loops",
    "serial": "bytes moved by one program with a loop",
    "off": "of the estimated time of plain JAX",
}
_CONTRIBUTORS = 4
_ENTRY = re.compile(r"^\[\[excess\]\]\n", re.MULTILINE)
_CASE = re.compile(r'^"([^"]+)" = \[(.*)\]$')
_ADVICE = (
    "Make the program cheaper, or, if the cost has a reason that stands, add the case to "
    f"{_FILE} with that reason."
)


@dataclasses.dataclass(frozen=True)
class Excess:
    """A known excess.

    Attributes:
        case: The name of the case.
        term: A field of ``Budget``.
        reason: Why the cost is above the budget.
    """

    case: str
    term: str
    reason: str


def known_excesses() -> tuple[Excess, ...]:
    """Returns the entries of ``known_excesses.toml``.

    Raises:
        ValueError: An entry is malformed.
    """
    path = files("conformance.machine_code.costs") / _FILE
    return parse(tomllib.loads(path.read_text(encoding="utf-8")))


def parse(document: Mapping[str, object]) -> tuple[Excess, ...]:
    """Returns the excesses of a file.

    Raises:
        ValueError: An entry is malformed.
    """
    found: list[Excess] = []
    entries = document.get("excess", [])
    for entry in entries if isinstance(entries, list) else []:
        if set(entry) != {"reason", "cases"} or not entry["reason"]:
            raise ValueError(f"{_FILE}: an entry has {sorted(entry)}; it needs reason and cases")
        for case, terms in entry["cases"].items():
            unknown = set(terms) - set(TERMS)
            if unknown:
                raise ValueError(f"{_FILE}: {case}: unknown {sorted(unknown)} of {list(TERMS)}")
            found.extend(Excess(case, term, entry["reason"]) for term in terms)
    return tuple(found)


def tightened(text: str, gone: Collection[tuple[str, str]]) -> str:
    """Returns the text of ``known_excesses.toml`` without some terms of cases.

    A case without a term goes, and an entry without a case.

    Args:
        text: The text of the file.
        gone: The cases with the terms that go.
    """
    head, *entries = _ENTRY.split(text)
    kept = []
    for entry in entries:
        lines = [line for line in map(_without(gone), entry.splitlines()) if line is not None]
        if any(_CASE.match(line) for line in lines):
            kept.append("\n".join(lines).rstrip() + "\n\n")
    return "[[excess]]\n".join([head, *kept]).rstrip() + "\n"


def _without(gone: Collection[tuple[str, str]]) -> Callable[[str], str | None]:
    def shortened(line: str) -> str | None:
        match = _CASE.match(line)
        if match is None:
            return line
        terms = [term for term in re.findall(r'"(\w+)"', match[2]) if (match[1], term) not in gone]
        return f'"{match[1]}" = {json.dumps(terms)}' if terms else None

    return shortened


def write_tightened(gone: Collection[tuple[str, str]]) -> None:
    """Removes terms of cases from ``known_excesses.toml``."""
    path = Path(__file__).with_name(_FILE)
    path.write_text(tightened(path.read_text(encoding="utf-8"), gone), encoding="utf-8")


def within(case: CostCase, cost: CaseCost, known: Sequence[Excess]) -> list[tuple[str, str]]:
    """Returns the known excesses of a case that are none any more."""
    excused = {excess.term for excess in known if excess.case == case.name}
    return [
        (case.name, term)
        for term, budget, value in _terms(case, cost)
        if value <= budget and term in excused
    ]


def unknown_names(known: Sequence[Excess], names: Collection[str]) -> list[str]:
    """Returns an error for each entry of a case that is not there."""
    missing = dict.fromkeys(excess.case for excess in known if excess.case not in names)
    return [f"{_FILE}: there is no case {name}; remove the entry" for name in missing]


def exceeded(case: CostCase, cost: CaseCost) -> list[str]:
    """Returns the terms of the budget that the costs of a case exceed."""
    return [term for term, budget, value in _terms(case, cost) if value > budget]


def failures(case: CostCase, cost: CaseCost, known: Sequence[Excess]) -> Iterator[str]:
    """Yields what is wrong with the costs of a case."""
    for side, error in cost.errors.items():
        yield f"{case.name} for {cost.target}, {_mode(side)}: it cannot be counted: {error}"
    for side, program in cost.sides.items():
        for loop in program.loops:
            if loop.count is None:
                yield (
                    f"{case.name} for {cost.target}, {_mode(side)}: nothing bounds the rounds of "
                    f"the loop {loop.scope or loop.name}, which counted once. Bound it in the "
                    "program, or state `rounds` in the case."
                )
    on = cost.sides.get("on")
    if on is None:
        return
    excused = {excess.term for excess in known if excess.case == case.name}
    for term, budget, value in _terms(case, cost):
        if value > budget and term not in excused:
            yield _failure(case, cost, term, budget, value)
        if value <= budget and term in excused:
            yield (
                f"{case.name}: {_number(value)} {TERMS[term]} is within the budget of "
                f"{_number(budget)}: remove {term!r} of {case.name} from {_FILE}, or let --write "
                "do it"
            )


def _terms(case: CostCase, cost: CaseCost) -> Iterator[tuple[str, float, float]]:
    """Yields each term of the budget that can be compared, with its bound and its value."""
    on, off, plain = (cost.sides.get(side) for side in ("on", "off", "plain"))
    values: dict[str, float | None] = {}
    if on is not None:
        values = {
            "launches": on.launches,
            "floors": on.moved / max(1, cost.floor),
            "rounds": on.rounds,
            "serial": on.serial,
        }
    if off is not None and plain is not None:
        values["off"] = off.seconds / max(1e-9, plain.seconds)
    for term in TERMS:
        budget, value = getattr(case.budget, term), values.get(term)
        if budget is not None and value is not None:
            yield term, budget, value


def _failure(case: CostCase, cost: CaseCost, term: str, budget: float, value: float) -> str:
    side = "off" if term == "off" else "on"
    program = cost.sides[side]
    found = f"{_number(value)} {TERMS[term]}, and the budget is {_number(budget)}"
    return "\n".join(
        [
            f"{case.name} for {cost.target}, {_mode(side)}: {found}",
            f"the most {'launches' if term in {'launches', 'rounds'} else 'bytes'} are of:",
            *_contributors(program, by_launches=term in {"launches", "rounds"}),
            f"each launch: python -m conformance costs --explain {case.name}",
            _ADVICE,
        ]
    )


def _contributors(program: ProgramCost, *, by_launches: bool) -> Iterator[str]:
    """Yields the launches that cost the most."""
    launches = [launch for launch, _ in program.parts]
    most = heapq.nlargest(
        _CONTRIBUTORS,
        launches,
        key=lambda each: each.total.launches if by_launches else each.total.moved,
    )
    for launch in most:
        scope = launch.scope or "XLA's own"
        yield (
            f"  {launch.total.moved:>15,} bytes, {launch.total.launches:>4} launches: "
            f"{launch.name}, {launch.kind}, {scope}"
        )


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _mode(side: str) -> str:
    return "plain JAX" if side == "plain" else f"the mode {side}"

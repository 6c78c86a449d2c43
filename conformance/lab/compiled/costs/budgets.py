"""Compares costs with budgets.

A cost above its budget that is known has an entry in ``known_excesses.toml``, with a reason and a
bound, above which it is an error too. An entry of which the cost is within its budget is an error,
so that a budget, once it is met, holds.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
import re
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

from conformance.lab.compiled.costs.case import Budget, CostCase
from conformance.lab.compiled.costs.measured import CaseCost, ProgramCost

_FILE = "known_excesses.toml"
#: The costs that a budget bounds, and the words for each.
TERMS = {field.name: field.name for field in dataclasses.fields(Budget)} | {
    "floors": "bytes, in floors",
    "rounds": "rounds of loops",
    "serial": "bytes moved by one program with a loop",
    "off": "of the estimated time of plain JAX",
    "loads": "of the bytes that the library loads for each product",
    "spilled": "bytes that a thread spills",
}
_CONTRIBUTORS = 4
_ENTRY = re.compile(r"^\[\[excess\]\]\n", re.MULTILINE)
_CASE = re.compile(r'^"([^"]+)" = \{(.*)\}$')
_TERM = re.compile(r"(\w+) = ([\d.]+)")
#: A bound is the cost when it was written, rounded up to a multiple of one by this number.
_STEPS = 10
_ADVICE = (
    "Make the program cheaper, or, if the cost has a reason that stands, add the case to "
    f"{_FILE} with that reason and a bound."
)


#: A case and a term of its budget.
_Term: TypeAlias = tuple[str, str]
#: For each the bound of its excess; None if there is no excess any more.
Bounds: TypeAlias = Mapping[_Term, float | None]


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
    found: list[Excess] = []
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
            found.extend(
                Excess(case, term, entry["reason"], bound) for term, bound in terms.items()
            )
    return tuple(found)


def tightened(text: str, bounds: Bounds) -> str:
    """Returns the text of ``known_excesses.toml`` with other bounds.

    A case without a term goes, and an entry without a case.

    Args:
        text: The text of the file.
        bounds: The bounds that change, as ``lowered`` returns them.
    """
    head, *entries = _ENTRY.split(text)
    kept = []
    for entry in entries:
        lines = [line for line in map(_with(bounds), entry.splitlines()) if line is not None]
        if any(_CASE.match(line) for line in lines):
            kept.append("\n".join(lines).rstrip() + "\n\n")
    return "[[excess]]\n".join([head, *kept]).rstrip() + "\n"


def _with(bounds: Bounds) -> Callable[[str], str | None]:
    def changed(line: str) -> str | None:
        match = _CASE.match(line)
        if match is None:
            return line
        terms = {term: bounds.get((match[1], term), old) for term, old in _TERM.findall(match[2])}
        kept = [f"{term} = {bound}" for term, bound in terms.items() if bound is not None]
        return f'"{match[1]}" = {{ {", ".join(kept)} }}' if kept else None

    return changed


def write_tightened(bounds: Bounds) -> None:
    """Changes bounds in ``known_excesses.toml``."""
    path = Path(__file__).with_name(_FILE)
    path.write_text(tightened(path.read_text(encoding="utf-8"), bounds), encoding="utf-8")


def lowered(case: CostCase, cost: CaseCost, known: Sequence[Excess]) -> dict[_Term, float | None]:
    """Returns the bounds of a case that are too high: what they may be, or None for no excess."""
    excused = {excess.term: excess.bound for excess in known if excess.case == case.name}
    found: dict[_Term, float | None] = {}
    for term, budget, value in _terms(case, cost):
        if term in excused and value <= budget:
            found[case.name, term] = None
        elif term in excused and _rounded_up(value) < excused[term]:
            found[case.name, term] = _rounded_up(value)
    return found


def _rounded_up(value: float) -> float:
    return value if isinstance(value, int) else math.ceil(value * _STEPS) / _STEPS


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
    excused = {excess.term: excess.bound for excess in known if excess.case == case.name}
    for term, budget, value in _terms(case, cost):
        if value > max(budget, excused.get(term, 0)):
            yield _failure(case, cost, term, value, excused.get(term))
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
            "spilled": on.spilled,
        }
        if case.library is not None and on.multiplication is not None:
            values["loads"] = case.library / on.multiplication.intensity
    if off is not None and plain is not None:
        values["off"] = off.seconds / max(1e-9, plain.seconds)
    for term in TERMS:
        budget, value = getattr(case.budget, term), values.get(term)
        if budget is not None and value is not None:
            yield term, budget, value


def _failure(case: CostCase, cost: CaseCost, term: str, value: float, bound: float | None) -> str:
    side = "off" if term == "off" else "on"
    program = cost.sides[side]
    found = f"{_number(value)} {TERMS[term]}, and the budget is "
    found += _number(getattr(case.budget, term))
    if bound is not None:
        found += f", the bound of the known excess {_number(bound)}"
    return "\n".join(
        [
            f"{case.name} for {cost.target}, {_mode(side)}: {found}",
            *(_spillers(program) if term == "spilled" else _contributors(program, term)),
            f"each launch: python -m conformance costs --explain {case.name}",
            _ADVICE,
        ]
    )


def _contributors(program: ProgramCost, term: str) -> Iterator[str]:
    """Yields the launches that cost the most."""
    by_launches = term in {"launches", "rounds"}
    launches = [launch for launch, _ in program.parts]
    most = heapq.nlargest(
        _CONTRIBUTORS,
        launches,
        key=lambda each: each.total.launches if by_launches else each.total.moved,
    )
    yield f"the most {'launches' if by_launches else 'bytes'} are of:"
    for launch in most:
        scope = launch.scope or "XLA's own"
        yield (
            f"  {launch.total.moved:>15,} bytes, {launch.total.launches:>4} launches: "
            f"{launch.name}, {launch.kind}, {scope}"
        )


def _spillers(program: ProgramCost) -> Iterator[str]:
    """Yields the kernels that spill."""
    for launch, kernel in program.parts:
        if launch.kind == "Pallas" and kernel.spilled:
            yield f"  {kernel.spilled:,} bytes, {kernel.registers} registers: {launch.note}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def _mode(side: str) -> str:
    return "plain JAX" if side == "plain" else f"the mode {side}"

"""The records of a report, one for each row, behaviour and GPU, from checked calls."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from conformance.lab.compiled.row_calls import CheckedCall, CompiledProgram
from conformance.reporting.report import Record

#: The name of the check, by what the mode does. Only the first is evidence of determinism.
CHECKS = {
    "deterministic": "compiled",
    "raise": "compiled, warn only",
    "fill": "compiled, filled",
    None: "compiled, as with the mode off",
}
#: The name of the check of a whole program.
PROGRAM_CHECK = "program compiled"
_MAX_DETAIL = 300


def records(calls: Iterable[CheckedCall]) -> Iterator[Record]:
    """Yields a record for all calls of one row, direction, behaviour and GPU."""
    groups: dict[tuple[object, ...], list[CheckedCall]] = defaultdict(list)
    for call in calls:
        fields = ("row", "op", "direction", "behaviour")
        groups[(*map(call.about.get, fields), call.target)].append(call)
    for group in groups.values():
        yield _record(group)


def unique_programs(calls: Iterable[CheckedCall]) -> list[CompiledProgram]:
    """Returns the programs of some calls, each once."""
    return list({id(call.program): call.program for call in calls}.values())


def _record(group: Sequence[CheckedCall]) -> Record:
    first = group[0]
    behaviour = first.about["behaviour"]
    faults = dict.fromkeys(f"{call.name}: {fault}" for call in group for fault in call.faults)
    programs = unique_programs(group)
    profiles = {call.about.get("profile") for call in group}
    details = [*faults] or [first.detail or _in_words(programs)]
    return Record(
        row=first.about.get("row"),
        op=first.about["op"],
        direction=first.about.get("direction"),
        device=first.about["device"],
        profile=profiles.pop() if len(profiles) == 1 else None,
        lowering=first.target,
        check=CHECKS[behaviour] if "sample" in first.about else PROGRAM_CHECK,
        sample=None,
        behaviour=behaviour,
        outcome="failed" if faults else "passed",
        evidence="compiled" if behaviour == "deterministic" else None,
        seconds=round(sum(program.seconds for program in programs), 1),
        detail="; ".join(details)[:_MAX_DETAIL],
    )


def _in_words(programs: Sequence[CompiledProgram]) -> str:
    """Returns the numbers of programs, kernels and launches, in words."""
    # XLA chooses CUB's radix sort by timing, or for large arrays, where there is a device.
    sorting = any("XLA" in program.sorts for program in programs)
    sort = " (XLA's own sort stands in for CUB's, which a device may take)" if sorting else ""
    kernels = sum(len(program.kernels) for program in programs)
    launches = max(program.cost.launches for program in programs)
    counted = f", at most {launches} launches" if launches else ""
    return f"{len(programs)} programs{sort}, {kernels or 'no'} kernels{counted}"


def summary(made: Sequence[Record], programs: Sequence[CompiledProgram]) -> Iterator[str]:
    """Yields lines of text: the programs, and the outcomes."""
    sorting = sum("XLA" in program.sorts for program in programs)
    cub = sum("CUB" in program.sorts for program in programs)
    yield f"{len(programs)} programs compiled"
    yield f"  {sorting} sort by XLA's own sort, which stands in for CUB's on a device; {cub} by CUB"
    outcomes: Counter[tuple[str, str | None, str]] = Counter(
        (record.check, record.lowering, record.outcome) for record in made
    )
    for (check, target, outcome), count in sorted(outcomes.items(), key=str):
        yield f"{check}, {target}: {count} {outcome}"

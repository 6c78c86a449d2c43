"""The records of a report, one for each row, behaviour and GPU, from checked calls."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from conformance.lab.compiled.known_faults import KnownFault
from conformance.lab.compiled.row_calls import CheckedCall, CompiledProgram
from conformance.reporting.report import Outcome, Record

#: The name of the check, by what the mode does. Only the first is evidence of determinism.
CHECKS = {
    "deterministic": "compiled",
    "raise": "compiled, warn only",
    "fill": "compiled, filled",
    None: "compiled, as with the mode off",
}
#: The name of the check of a kernel alone, which belongs to no row.
KERNEL_CHECK = "kernel compiled"
_MAX_DETAIL = 300


def records(calls: Iterable[CheckedCall], known: Sequence[KnownFault]) -> Iterator[Record]:
    """Yields a record for all calls of one row, direction, behaviour and GPU.

    Its outcome is ``failed`` if a call has an unknown fault, and ``skipped`` if one has a known
    fault.
    """
    groups: dict[tuple[object, ...], list[CheckedCall]] = defaultdict(list)
    for call in calls:
        fields = ("row", "op", "direction", "behaviour")
        groups[(*map(call.about.get, fields), call.target)].append(call)
    for group in groups.values():
        yield _record(group, known)


def unique_programs(calls: Iterable[CheckedCall]) -> list[CompiledProgram]:
    """Returns the programs of some calls, each once."""
    return list({id(call.program): call.program for call in calls}.values())


def _record(group: Sequence[CheckedCall], known: Sequence[KnownFault]) -> Record:
    first = group[0]
    behaviour = first.about["behaviour"]
    unknown_faults: dict[str, None] = {}
    reasons: dict[str, None] = {}
    for call in group:
        for fault in call.faults:
            entry = next((entry for entry in known if entry.matches(call, fault)), None)
            if entry is None:
                unknown_faults[f"{call.name}: {fault}"] = None
            else:
                reasons[entry.reason] = None
    programs = unique_programs(group)
    profiles = {call.about.get("profile") for call in group}
    outcome: Outcome = "failed" if unknown_faults else "skipped" if reasons else "passed"
    details = [*unknown_faults, *reasons] or [_resources(programs)]
    return Record(
        row=first.about.get("row"),
        op=first.about["op"],
        direction=first.about.get("direction"),
        device=first.about["device"],
        profile=profiles.pop() if len(profiles) == 1 else None,
        lowering=first.target,
        check=CHECKS[behaviour] if "sample" in first.about else KERNEL_CHECK,
        sample=None,
        behaviour=behaviour,
        outcome=outcome,
        evidence="compiled" if behaviour == "deterministic" else None,
        seconds=round(sum(program.seconds for program in programs), 1),
        detail="; ".join(details)[:_MAX_DETAIL],
    )


def _resources(programs: Sequence[CompiledProgram]) -> str:
    """Returns the number of programs and kernels, and the resources of the kernels, in words."""
    text = f"{len(programs)} programs{_stand_in_sort(programs)}"
    kernels = [kernel for program in programs for kernel in program.kernels.values()]
    if not kernels:
        return f"{text}, no kernels"
    text += f", {len(kernels)} kernels"
    assembled = [kernel for kernel in kernels if kernel is not None]
    if len(assembled) < len(kernels):
        return f"{text}, registers not known"
    most = max(kernel.registers for kernel in assembled)
    spilled = max(kernel.spilled for kernel in assembled)
    return f"{text}, at most {most} registers, " + (
        f"{spilled} bytes spilled" if spilled else "no spills"
    )


def _stand_in_sort(programs: Sequence[CompiledProgram]) -> str:
    """Returns which sort the programs have in the code, where the device may run another."""
    # XLA chooses CUB's radix sort by timing, or for large arrays, where there is a device.
    sorting = any("XLA" in program.sorts for program in programs)
    return " (XLA's own sort stands in for CUB's, which a device may take)" if sorting else ""


def summary(made: Sequence[Record], programs: Sequence[CompiledProgram]) -> Iterator[str]:
    """Yields lines of text: the programs, the resources of each kernel, and the outcomes."""
    kernels = [(name, kernel) for program in programs for name, kernel in program.kernels.items()]
    yield f"{len(programs)} programs compiled, with {len(kernels)} kernels in them"
    sorting = sum("XLA" in program.sorts for program in programs)
    cub = sum("CUB" in program.sorts for program in programs)
    yield f"  {sorting} sort by XLA's own sort, which stands in for CUB's on a device; {cub} by CUB"
    registers: dict[str, int] = {}
    spilled: dict[str, int] = {}
    for name, kernel in kernels:
        if kernel is not None:
            registers[name] = max(registers.get(name, 0), kernel.registers)
            spilled[name] = max(spilled.get(name, 0), kernel.spilled)
    for name, count in sorted(registers.items()):
        yield f"  {name}: at most {count} registers, {spilled[name]} bytes spilled"
    outcomes: Counter[tuple[str, str | None, str]] = Counter(
        (record.check, record.lowering, record.outcome) for record in made
    )
    for (check, target, outcome), count in sorted(outcomes.items(), key=str):
        yield f"{check}, {target}: {count} {outcome}"

"""From what was compiled to the records of a report: one for each row, behaviour and GPU."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from conformance.compiled.known import Known
from conformance.compiled.programs import Made, Tried
from conformance.reporting.report import Outcome, Record

#: What was checked, by what the mode does. Only the first is a proof of determinism.
CHECKS = {
    "deterministic": "compiled",
    "raise": "compiled, warn only",
    "fill": "compiled, filled",
    None: "compiled, as with the mode off",
}
#: Of kernels by themselves, which no row is about.
KERNEL = "kernel compiled"
_MOST = 300


def records(found: Iterable[Tried], known: Sequence[Known]) -> Iterator[Record]:
    """A record for all calls of one row, direction, behaviour and GPU.

    It failed if one of them has a fault, and is skipped if one has a fault that is known.
    """
    groups: dict[tuple[object, ...], list[Tried]] = defaultdict(list)
    for each in found:
        about = each.about
        names = ("row", "op", "direction", "behaviour")
        groups[(*map(about.get, names), each.target)].append(each)
    for group in groups.values():
        yield _record(group, known)


def _record(group: Sequence[Tried], known: Sequence[Known]) -> Record:
    first = group[0]
    behaviour = first.about["behaviour"]
    new: dict[str, None] = {}
    excused: dict[str, None] = {}
    for each in group:
        for fault in each.faults:
            entry = next((entry for entry in known if entry.is_of(each, fault)), None)
            if entry is None:
                new[f"{each.name}: {fault}"] = None
            else:
                excused[entry.reason] = None
    programs = list({id(each.made): each.made for each in group}.values())
    profiles = {each.about.get("profile") for each in group}
    outcome: Outcome = "failed" if new else "skipped" if excused else "passed"
    said = [*new, *excused] or [_resources(programs)]
    return Record(
        row=first.about.get("row"),
        op=first.about["op"],
        direction=first.about.get("direction"),
        device=first.about["device"],
        profile=profiles.pop() if len(profiles) == 1 else None,
        lowering=first.target,
        check=CHECKS[behaviour] if "sample" in first.about else KERNEL,
        sample=None,
        behaviour=behaviour,
        outcome=outcome,
        evidence="compiled" if behaviour == "deterministic" else None,
        seconds=round(sum(made.seconds for made in programs), 1),
        detail="; ".join(said)[:_MOST],
    )


def _resources(programs: Sequence[Made]) -> str:
    """How many programs and kernels there are, and what the kernels take."""
    text = f"{len(programs)} programs"
    kernels = [kernel for made in programs for kernel in made.kernels.values()]
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


def summary(made: Sequence[Record], programs: Sequence[Made]) -> Iterator[str]:
    """What was compiled and read, as lines of text."""
    kernels = [(name, one) for each in programs for name, one in each.kernels.items()]
    yield f"{len(programs)} programs compiled, with {len(kernels)} kernels in them"
    registers: dict[str, int] = {}
    for name, one in kernels:
        if one is not None:
            registers[name] = max(registers.get(name, 0), one.registers)
    for name, most in sorted(registers.items()):
        spilled = max(one.spilled for each, one in kernels if each == name and one is not None)
        yield f"  {name}: at most {most} registers, {spilled} bytes spilled"
    outcomes: Counter[tuple[str, str | None, str]] = Counter(
        (record.check, record.lowering, record.outcome) for record in made
    )
    for (check, target, outcome), count in sorted(outcomes.items(), key=str):
        yield f"{check}, {target}: {count} {outcome}"

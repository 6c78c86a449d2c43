"""Items about a program that ran: what it compiled, and its generators of random numbers.

``python -m impl doctor --after train.py`` runs the file here, in this process, while ``_programs``
records each program that JAX lowers and ``_generators`` watches generators. This module turns what
they saw into items of the report. A scatter-add that was compiled with the mode off becomes::

    Varies per process (1)
      train.py:4  lax.scatter_add  f32[8] i32[64,1] f32[64]
          It can give other bits in each run on cuda (R0400). It was compiled with the mode off. To
          do: Turn the mode on: it adds in a fixed order. ...
"""

from __future__ import annotations

import dataclasses
import itertools
import linecache
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from impl._mode.modes import Mode
from impl.diagnosis import _generators, _programs, _running
from impl.diagnosis._generators import Watch
from impl.diagnosis._programs import Judged
from impl.diagnosis._report import Item, Verdict
from impl.programs import Finding

SECTION = "Programs"
GENERATORS = "Generators"

_TURN_ON = "Call impl.use_deterministic_algorithms(True) before the program is compiled."
#: The number of names that a report has room for.
_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Ran:
    """A file that ran while the doctor watched.

    Attributes:
        file: The file.
        failure: Its failure in words, such as "raised ValueError"; None if there was none.
        judged: The verdicts on the programs that it compiled.
        watch: The generators that it made and used.
    """

    file: Path
    failure: str | None
    judged: Judged
    watch: Watch

    def as_dict(self) -> dict[str, str | int | None]:
        """Returns the facts about the run as plain data."""
        return {
            "file": str(self.file),
            "failure": self.failure,
            "device": self.judged.device,
            "functions": self.judged.functions,
            "operations": self.judged.operations,
            "equations": self.judged.equations,
        }

    def items(self) -> Iterator[Item]:
        """Yields the items about the run."""
        if self.failure is not None:
            yield Item(
                SECTION,
                str(self.file),
                self.failure,
                "unknown",
                "The report is about what it did before.",
                "Correct the error, and run the doctor again.",
            )
        yield from _of_findings(self.judged)
        yield from _of_unread(self.judged)
        yield from _of_off(self.judged)
        yield _of_the_rest(self)
        yield from _of_generators(self.watch)


def ran(file: Path, arguments: Sequence[str], device: str) -> Ran:
    """Runs a file in this process, and judges what it compiled and drew.

    Args:
        file: The file.
        arguments: The arguments of the program.
        device: The device of the spec that the verdicts are about.
    """
    recorder = _programs.Recorder()
    with recorder.watched(), _generators.watched() as watch:
        failure = _running.attempt(file, arguments)
    return Ran(file, failure, _programs.judged(recorder.programs, device), watch)


def _of_findings(judged: Judged) -> Iterator[Item]:
    """Yields an item for each line and primitive that varies or is unknown."""
    bad = [
        (finding, mode, count)
        for (finding, mode), count in judged.findings.items()
        if finding.verdict in ("varies", "unknown")
    ]
    bad.sort(key=lambda entry: (entry[0].verdict != "varies", _key(entry[0])))
    for _, group in itertools.groupby(bad, key=lambda entry: _key(entry[0])):
        entries = list(group)
        finding = entries[0][0]
        count = sum(number for _, _, number in entries)
        times = f"{count} x " if count > 1 else ""
        shapes = [*dict.fromkeys(f.shapes for f, _, _ in entries)]
        off = any(not mode.enabled for _, mode, _ in entries)
        remedy = finding.remedy or _TURN_ON
        if finding.row is None and not all(mode.enabled for _, mode, _ in entries):
            remedy = _TURN_ON
        yield Item(
            SECTION,
            f"{finding.source}  {times}{finding.primitive}",
            _few(shapes, "; "),
            "varies per process" if finding.verdict == "varies" else "unknown",
            _reason(finding, judged.device, off, [mode for _, mode, _ in entries]),
            remedy,
        )


def _key(finding: Finding) -> tuple[str, str, str]:
    return finding.source, finding.primitive, finding.verdict


def _reason(finding: Finding, device: str, off: bool, modes: Iterable[Mode]) -> str:
    if finding.row is None:
        reason = "Nothing tells whether it varies as it was compiled"
    elif finding.verdict == "varies":
        reason = f"It can give other bits in each run on {device} ({finding.row})"
    else:
        reason = f"Nothing tells whether it varies on {device} ({finding.row})"
    if off:
        reason += ". It was compiled with the mode off"
    elif any(mode.warn_only for mode in modes):
        reason += ". The mode only warned of it"
    if finding.library is not None:
        reason += f". The line calls {finding.library}"
    if finding.inside:
        reason += f". It is in {' > '.join(finding.inside)}"
    return f"{reason}."


def _of_unread(judged: Judged) -> Iterator[Item]:
    for name, error in judged.unread.items():
        yield Item(
            SECTION,
            name,
            None,
            "unknown",
            f"The audit could not read this program: {error}",
            "Open an issue with the program.",
        )


def _of_off(judged: Judged) -> Iterator[Item]:
    """Yields the item of the programs that were compiled with the mode off, if there are any."""
    if not judged.off:
        return
    operations = judged.off.get("", 0)
    named = [
        name if count == 1 else f"{name}, {count} times"
        for name, count in judged.off.items()
        if name
    ]
    if operations:
        named.append(_count(operations, "operation outside of jit", "operations outside of jit"))
    verdict: Verdict = "varies per process" if judged.off_varies else "fixed"
    reason = (
        f"The lines above name what varies in them on {judged.device}."
        if judged.off_varies
        else f"Nothing in them varies on {judged.device}."
    )
    remedy = _TURN_ON if judged.off_varies else None
    yield Item(SECTION, "compiled with the mode off", _few(named, "; "), verdict, reason, remedy)


def _of_the_rest(ran: Ran) -> Item:
    """Returns the item of all that does not vary. It also names the limits of the doctor."""
    judged, file = ran.judged, ran.file
    unseen = (
        "The doctor saw what this process compiled. Other arguments, branches, devices and "
        "processes may compile more."
    )
    if not judged.functions + judged.operations:
        reason = f"{file} compiled no program, so nothing is known of its programs. {unseen}"
        return Item(SECTION, "programs", "none", "unknown", reason)
    ordered = sum(n for (f, _), n in judged.findings.items() if f.verdict == "deterministic")
    raised = sum(n for (f, _), n in judged.findings.items() if f.verdict == "raises")
    bad = sum(n for (f, _), n in judged.findings.items() if f.verdict in ("varies", "unknown"))
    reason = f"Nothing in them varies from run to run on {judged.device}"
    if ordered:
        reason += f"; {_count(ordered, 'keeps', 'keep')} a fixed order because the mode is on"
    if raised:
        reason += f"; {_count(raised, 'is', 'are')} refused by the mode"
    value = (
        f"{_count(judged.equations - bad, 'equation', 'equations')} of "
        f"{_count(judged.functions, 'compiled function', 'compiled functions')} and "
        f"{_count(judged.operations, 'operation', 'operations')} outside of jit"
    )
    name = "all other equations" if bad else "all equations"
    return Item(SECTION, name, value, "fixed", f"{reason}. {unseen}")


def _of_generators(watch: Watch) -> Iterator[Item]:
    """Yields an item for each line that makes a generator without a seed, and for the rest."""
    for made, count in watch.made.items():
        value = "no seed" if count == 1 else f"no seed, {count} times"
        code = source_code(made.line)
        yield Item(
            GENERATORS,
            f"{made.line}  {_KINDS[made.kind]}",
            value if code is None else f"{value}: {code}",
            "varies per process",
            "Its seed comes from the operating system.",
            _REMEDIES[made.kind],
        )
    reason = (
        "The doctor watches generators of NumPy and of Python's random in this process, but no "
        "generator of a library while it is imported. It does not see seeds that come from the "
        "time, os.urandom or secrets: --twice FILE may."
    )
    value = "none" if watch.made else "all have a seed, if there are any"
    yield Item(GENERATORS, "other generators", value, "fixed", reason)


_KINDS = {"numpy.random": "a generator of NumPy", "random": "random.Random"}
_REMEDIES = {
    "numpy.random": "Pass a seed, or take the generator that impl.seed_everything(seed) returns.",
    "random": "Pass a seed.",
}


def source_code(line: str) -> str | None:
    """Returns the source of a line, given as ``file:line``; None if it cannot be read."""
    file, _, number = line.partition(" (")[0].rpartition(":")
    return linecache.getline(file, int(number)).strip() or None if number.isdigit() else None


def _few(names: Sequence[str], between: str) -> str:
    more = [f"and {len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return between.join([*names[:_SHOWN], *more])


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"

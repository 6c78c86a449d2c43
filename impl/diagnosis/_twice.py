"""Runs a file in two processes, and finds the first call of a compiled program that differs.

``impl.first_difference`` compares the equations inside one program. It cannot see a value that
Python code made between programs: a seed from the time, the order of a set, a batch that a thread
loaded. So this module compares calls: each process writes a line of JSON for each call of a
compiled program, with a digest of each argument and output (``_calls``), and the lines are then
read side by side:

* The first argument that differs, and that no earlier call returned, was made outside of compiled
  programs. Its line is named.
* An output that differs although the arguments are equal: the program itself varies. The audit
  names its equations that can.
* Values that come from a value that differs are left out. A digest tells: a later argument with the
  digest of an output that differed is that output.

For example, of these calls the second is named, for the argument ``key``, and the third is not::

    first run                                      second run
    train.py:4  init   ()       -> 51c0            train.py:4  init   ()       -> 51c0
    train.py:8  draw   (key=a3) -> 77              train.py:8  draw   (key=f9) -> 10
    train.py:9  step   (x=77)   -> b2              train.py:9  step   (x=10)   -> 48
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from impl._reading import source
from impl.diagnosis._after import source_code
from impl.diagnosis._report import SCHEMA
from impl.programs._auditing.report_text import wrapped

_ROOT = Path(__file__).resolve().parents[2]
#: The program of a process. This package may be in no folder that a new process searches.
_PROGRAM = f"""
import sys
sys.path.append({str(_ROOT)!r})
from impl.diagnosis import _calls
_calls.main()
"""
#: The seeds of hashes: sets of strings have another order in each process.
_HASH_SEEDS = ("1", "2")
#: The number of differences that a report lists after the first.
_MORE = 10

_HEADINGS = ("The first difference", "Later differences that do not come from an earlier one")
_PARTS: tuple[Literal["argument", "output"], ...] = ("argument", "output")
_OUTSIDE = (
    "No call before it returned other bits, so the value was made outside of compiled programs: "
    "from the time, a generator without a seed, the order of a set, a file or another thread."
)
_THREADS = (
    "A thread other than the main one called, so calls were compared without their order, and the "
    "cause may be an earlier call of a thread."
)
_UNSEEN = (
    "The doctor compared what compiled programs read and returned in these two runs. It did not "
    "see other values, other processes, or what a third run does."
)


@dataclasses.dataclass(frozen=True)
class Difference:
    """A call in which two runs differ.

    Attributes:
        kind: ``argument`` or ``output`` of a call, or ``call`` if another function was called.
        name: The name of the argument or output; for a call, what the second run did instead.
        type: Its dtype and shape.
        line: The user's line that called, as ``file:line``; None if it is unknown.
        code: The source of that line; None if it is unknown.
        function: The function that was called.
        number: The number of the call in the main thread of the first run, from 1; None for other
            threads.
        reason: The conclusion from it, in a sentence or two.
    """

    kind: Literal["argument", "output", "call"]
    name: str
    type: str
    line: str | None
    code: str | None
    function: str
    number: int | None
    reason: str


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The result of ``doctor --twice``.

    Attributes:
        file: The file that ran.
        calls: The number of calls of compiled programs in each run.
        failure: The failure of a run in words; None if both ended without one.
        differences: The first difference, and those after it whose values came from no other.
        generators: The lines that made or used a generator without a seed in the first run.
    """

    file: str
    calls: tuple[int, int]
    failure: str | None
    differences: tuple[Difference, ...]
    generators: tuple[str, ...]

    @property
    def equal(self) -> bool:
        """True if both runs called compiled programs, on equal bits, and got equal bits."""
        return self.failure is None and not self.differences and self.calls[0] > 0

    def as_dict(self) -> dict[str, Any]:
        """Returns the comparison as plain data, in the form of ``schema.json``."""
        return {
            "schema": SCHEMA,
            "file": self.file,
            "equal": self.equal,
            "calls": list(self.calls),
            "failure": self.failure,
            "differences": [dataclasses.asdict(d) for d in self.differences],
            "generators": list(self.generators),
        }

    def text(self, width: int = 100) -> str:
        """Returns the comparison as text.

        Args:
            width: Greatest length of a line of an explanation in characters.
        """
        seeds = " and ".join(_HASH_SEEDS)
        lines = [f"{self.file} ran in two processes, with PYTHONHASHSEED={seeds}."]
        if self.failure is not None:
            lines.append(f"{self.failure}, as shown above. So nothing was compared.")
        elif not any(self.calls):
            lines.append("It called no compiled program, so that nothing was compared.")
        elif self.equal:
            equal = f"All {self.calls[0]} calls of compiled programs read and returned equal bits."
            lines += wrapped(f"{equal} {_UNSEEN}", width, "")
        for heading, group in zip(
            _HEADINGS, (self.differences[:1], self.differences[1:]), strict=True
        ):
            lines += ["", heading] if group else []
            for difference in group:
                lines += _of_difference(difference, self.calls[0], width)
        if self.differences and self.generators:
            made = ", ".join(self.generators)
            lines += ["", *wrapped(f"Generators without a seed: {made}.", width, "")]
        return "\n".join(lines)


def _of_difference(difference: Difference, calls: int, width: int) -> list[str]:
    where = difference.line or "unknown line"
    which = "a thread" if difference.number is None else f"call {difference.number} of {calls}"
    if difference.kind == "call":
        what = f"{difference.function} in the first run, {difference.name} in the second"
    else:
        what = f"{difference.kind} {difference.name!r} of {difference.function}, {difference.type}"
    code = [] if difference.code is None else [f"      {difference.code}"]
    return [f"  {where}  {what} ({which})", *code, *wrapped(difference.reason, width)]


def compared(file: Path, arguments: Sequence[str]) -> Comparison:
    """Runs a file in two processes, one after the other, and compares their calls.

    Args:
        file: The file.
        arguments: The arguments of the program.
    """
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        records = [Path(folder) / f"{seed}.jsonl" for seed in _HASH_SEEDS]
        for record, hash_seed, name in zip(records, _HASH_SEEDS, ("first", "second"), strict=True):
            status = _run(record, hash_seed, file, arguments)
            if status:
                end = _end(record)
                failure = end["failure"] or f"ended with the exit status {status}"
                return Comparison(str(file), (0, 0), f"The {name} run {failure}", (), ())
        first, second = records
        end = _end(first)
        return Comparison(
            str(file),
            (_count(first), _count(second)),
            None,
            tuple(differences(first, second, end["findings"])),
            tuple(end["generators"]),
        )


def _run(record: Path, hash_seed: str, file: Path, arguments: Sequence[str]) -> int:
    done = subprocess.run(  # noqa: S603  # This interpreter runs the program above.
        [sys.executable, "-c", _PROGRAM, str(record), str(file), *arguments],
        check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=2,  # The standard output is the report's.
    )
    return done.returncode


def _entries(record: Path) -> Iterator[dict[str, Any]]:
    if record.is_file():
        with record.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def _end(record: Path) -> dict[str, Any]:
    """Returns the last entry of a record; one without knowledge if the process did not write it."""
    ends = [entry for entry in _entries(record) if "end" in entry]
    return ends[0] if ends else {"failure": None, "findings": {}, "generators": []}


def _calls(record: Path, main: bool) -> Iterator[dict[str, Any]]:
    return (entry for entry in _entries(record) if entry.get("main") is main)


def _count(record: Path) -> int:
    return sum("main" in entry for entry in _entries(record))


def differences(first: Path, second: Path, findings: dict[str, list[str]]) -> Iterator[Difference]:
    """Yields the first difference of two runs, and later ones that do not come from an earlier one.

    Args:
        first: The record of the first run.
        second: The record of the second run.
        findings: For each function, the equations that can vary on the device.
    """
    of_main = _of_main(_calls(first, True), _calls(second, True), findings)
    several = list(itertools.islice(_one_for_each_line(of_main), 1 + _MORE))
    yield from several or _of_threads(_calls(first, False), _calls(second, False))


def _one_for_each_line(several: Iterator[Difference]) -> Iterator[Difference]:
    seen = set()
    for difference in several:
        key = (difference.line, difference.function, difference.kind, difference.name)
        if key not in seen:
            seen.add(key)
            yield difference


def _of_main(
    first: Iterator[dict[str, Any]],
    second: Iterator[dict[str, Any]],
    findings: dict[str, list[str]],
) -> Iterator[Difference]:
    # Digests, in the first run, of the values that differ: a later argument may be one of them.
    known: set[str] = set()
    for number, (one, other) in enumerate(itertools.zip_longest(first, second), 1):
        if one is None or other is None or _called(one) != _called(other):
            yield _of_calls(one, other, number, bool(known))
            return
        before = len(known)
        arguments = _differing(one["arguments"], other["arguments"])
        for name, type_, digest in arguments:
            if digest not in known:
                known.add(digest)
                yield _difference(
                    "argument", name, type_, one, number, _OUTSIDE if before == 0 else ""
                )
        for name, type_, digest in _differing(one["outputs"], other["outputs"]):
            known.add(digest)
            if not arguments:
                yield _difference("output", name, type_, one, number, _racing(one, findings))


def _called(call: dict[str, Any]) -> tuple[Any, ...]:
    return call["line"], call["function"], len(call["arguments"]), len(call["outputs"])


def _differing(first: list[Any], second: list[Any]) -> list[tuple[str, str, str]]:
    return [
        (name, type_ if type_ == other[1] else f"{type_} and {other[1]}", digest)
        for (name, type_, digest), other in zip(first, second, strict=True)
        if (type_, digest) != (other[1], other[2])
    ]


def _racing(call: dict[str, Any], findings: dict[str, list[str]]) -> str:
    reason = "Its arguments had the same bits in both runs, so the program itself varies"
    guilty = findings.get(call["function"])
    if guilty:
        return f"{reason}: {'; '.join(guilty)}."
    return f"{reason}. No row of the spec states why: look for a callback, or open an issue."


def _of_calls(
    one: dict[str, Any] | None, other: dict[str, Any] | None, number: int, is_later: bool
) -> Difference:
    does = "the end of the run" if other is None else _function(other)
    if other is not None and other["line"] is not None:
        does += f" at {other['line']}"
    reason = (
        ""
        if is_later
        else "All calls before it had equal bits; the program itself chose another call."
    )
    call = one or {"line": None, "function": "the end of the run"}
    return _difference("call", does, "", call, number, reason)


def _of_threads(
    first: Iterator[dict[str, Any]], second: Iterator[dict[str, Any]]
) -> Iterator[Difference]:
    """Yields a call of a thread that the other run does not have. Threads have no order."""
    calls = list(first)
    ours, theirs = Counter(map(json.dumps, calls)), Counter(map(json.dumps, second))
    others = [json.loads(text) for text in (theirs - ours).elements()]
    for call in calls:
        if ours[json.dumps(call)] > theirs[json.dumps(call)]:
            yield _unmatched(call, others)
            return
    if others:
        yield dataclasses.replace(_of_calls(None, others[0], 0, True), reason=_THREADS)


def _unmatched(call: dict[str, Any], others: list[dict[str, Any]]) -> Difference:
    """Returns the difference between a call and the call of the other run that is most like it."""
    candidates = [
        [(k, *part) for k in _PARTS for part in _differing(call[f"{k}s"], other[f"{k}s"])]
        for other in others
        if _called(other) == _called(call)
    ]
    if not candidates:
        return _difference("call", "no such call", "", call, None, _THREADS)
    kind, name, type_, _ = min(candidates, key=len)[0]
    return _difference(kind, name, type_, call, None, _THREADS)


def _difference(
    kind: Literal["argument", "output", "call"],
    name: str,
    type_: str,
    call: dict[str, Any],
    number: int | None,
    reason: str,
) -> Difference:
    line = call["line"]
    code = None if line is None else source_code(line)
    return Difference(kind, name, type_, line, code, _function(call), number or None, reason)


def _function(call: dict[str, Any]) -> str:
    """Returns the name of a function, with its line if it is a user's."""
    name, _, where = call["function"].partition(" at ")
    file, _, number = where.rpartition(":")
    if file and source.kind_of(file) == "user":
        return f"{name} ({source.shown(file)}:{number})"
    return str(name)

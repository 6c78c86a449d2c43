"""Runs a file in two processes, and finds the first call of a compiled program that differs.

``impl.first_difference`` compares the equations inside one program. It cannot see a value that
Python code made between programs: a seed from the time, the order of a set, a batch that a thread
loaded. So this module compares calls. Each process writes a ``DigestLog``, in which each call of a
compiled program is a step with the trees ``arguments`` and ``outputs``; its origin is the line and
the function. The steps are compared as ``impl.digests.compare`` does:

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
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from impl._jax import watching
from impl._reading import source
from impl.diagnosis import _after, _generators
from impl.diagnosis._report import SCHEMA
from impl.digests import DigestLog, _comparison
from impl.digests._digest import Leaf, Pending, leaf_of
from impl.digests._log import LogFile
from impl.programs._auditing.report import wrapped

_ROOT = Path(__file__).resolve().parents[2]
#: The program of a process. This package may be in no folder that a new process searches.
_PROGRAM = f"""
import sys
sys.path.append({str(_ROOT)!r})
from impl.diagnosis import _twice
_twice.main()
"""
#: The seeds of hashes: sets of strings have another order in each process.
_HASH_SEEDS = ("1", "2")
#: The number of differences that a report lists after the first.
_MORE = 10

_HEADINGS = ("The first difference", "Later differences that do not come from an earlier one")
Kind: TypeAlias = Literal["argument", "output", "call"]
_PARTS: dict[str, Kind] = {"arguments": "argument", "outputs": "output"}
#: The files of a run: the calls of the main thread, the calls of other threads, and the facts that
#: are known at its end.
_LOGS, _END = ("main.jsonl", "threads.jsonl"), "end.json"
Pair: TypeAlias = tuple[LogFile, LogFile]
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

    kind: Kind
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
        """Returns the comparison as text, with explanations in lines of ``width`` characters."""
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


class CallLog(DigestLog):
    """A log of calls of compiled programs. It pauses their recorder while it reads values."""

    def __init__(self, path: Path, programs: _after.Recorder) -> None:
        super().__init__(path)
        self._programs = programs
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._calls = 0

    def called(self, call: watching.Call) -> Sequence[Any]:
        """Runs a call, and logs it. A forked child, which has this file too, logs nothing."""
        names = (name or f"argument {number}" for number, (name, _) in enumerate(call.arguments))
        values = [value for _, value in call.arguments]
        # Before the call, which may destroy donated arguments.
        arguments = self._read(list(zip(names, values, strict=True)))
        outputs = call.run()
        results = self._read([(f"output {n}", value) for n, value in enumerate(outputs)])
        origin = source.caller().user, call.function, len(values), len(outputs)
        if os.getpid() == self._process:
            with self._lock:
                self._calls += 1
                trees = {"arguments": (arguments, None), "outputs": (results, None)}
                self._write_step(self._calls, trees, origin=origin)
        return outputs

    def _read(self, values: Sequence[tuple[str, Any]]) -> Pending:
        with self._programs.paused():
            return Pending([leaf for each in values for leaf in _leaves(*each)], on_device=False)


def _leaves(name: str, value: Any) -> Iterator[Leaf]:
    """Yields what this process has of a value, with its type and bits."""
    try:
        if isinstance(value, jax.Array) and not value.is_fully_addressable:
            for number, shard in enumerate(value.addressable_shards):
                yield from _leaves(f"{name}, shard {number}", shard.data)
        else:
            # A key has the digest of its data, of which another program may have made it.
            is_key = jnp.issubdtype(jnp.result_type(value), jax.dtypes.prng_key)
            yield leaf_of("doctor()", name, jax.random.key_data(value) if is_key else value)
    except (TypeError, ValueError, RuntimeError):
        # A reference to a mutable array, a token, or an array that was deleted.
        yield Leaf(name, f"{type(value).__name__}, not read", np.zeros(0, np.uint8))


def main() -> None:
    """Runs the file that the command line names, and logs its calls in the folder before it."""
    folder, name, *arguments = sys.argv[1:]
    programs = _after.Recorder()
    logs = [CallLog(Path(folder) / file, programs) for file in _LOGS]

    def called(call: watching.Call) -> Sequence[Any]:
        return logs[threading.current_thread() is not threading.main_thread()].called(call)

    with programs.watched(called), _generators.watched() as watch:
        failure = _after.attempt(Path(name), arguments)
    end = {
        "failure": failure,
        "findings": _findings(
            programs.programs, "cuda" if jax.default_backend() == "gpu" else "cpu"
        ),
        "generators": [made.line for made in watch.made]
        + [state.unseeded_use for state in watch.states.values() if state.unseeded_use],
    }
    (Path(folder) / _END).write_text(json.dumps(end), encoding="utf-8")
    sys.exit(0 if failure is None else 1)


def _findings(recorded: Sequence[_after.Program], device: str) -> dict[str, list[str]]:
    """Returns what varies, or is unknown, in each function, on the device that ran it."""
    varying: dict[str, dict[str, None]] = {}
    for program in recorded:
        for finding, _ in _after.judged([program], device).findings:
            if finding.verdict in ("varies", "unknown"):
                line = f"{finding.primitive} at {finding.source}"
                varying.setdefault(program.lowered.function, {})[line] = None
    return {function: list(lines) for function, lines in varying.items()}


def compared(file: Path, arguments: Sequence[str]) -> Comparison:
    """Runs a file in two processes, one after the other, and compares their calls."""
    with tempfile.TemporaryDirectory(prefix="samebits-") as parent:
        folders = [Path(parent) / seed for seed in _HASH_SEEDS]
        for folder, hash_seed, name in zip(folders, _HASH_SEEDS, ("first", "second"), strict=True):
            folder.mkdir()
            status = _run(folder, hash_seed, file, arguments)
            if status:
                failure = _end(folder)["failure"] or f"ended with the exit status {status}"
                return Comparison(str(file), (0, 0), f"The {name} run {failure}", (), ())
        end = _end(folders[0])
        logs = ([LogFile(folder / name) for folder in folders] for name in _LOGS)
        main, threads = ((one, other) for one, other in logs)
        first, second = (len(m.steps) + len(t.steps) for m, t in zip(main, threads, strict=True))
        found = tuple(differences(main, threads, end["findings"]))
        return Comparison(str(file), (first, second), None, found, tuple(end["generators"]))


def _run(folder: Path, hash_seed: str, file: Path, arguments: Sequence[str]) -> int:
    done = subprocess.run(  # noqa: S603  # This interpreter runs the program above.
        [sys.executable, "-c", _PROGRAM, str(folder), str(file), *arguments],
        check=False,
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        stdout=2,  # The standard output is the report's.
    )
    return done.returncode


def _end(folder: Path) -> dict[str, Any]:
    """Returns the facts that a run wrote at its end; none if the process did not come to it."""
    file = folder / _END
    if file.is_file():
        end: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return end
    return {"failure": None, "findings": {}, "generators": []}


def differences(main: Pair, threads: Pair, findings: dict[str, list[str]]) -> Iterator[Difference]:
    """Yields the first difference of two runs, and later ones that do not come from an earlier one.

    ``findings`` are, for each function, the equations that can vary on the device.
    """
    several = list(itertools.islice(_one_for_each_line(_of_main(main, findings)), 1 + _MORE))
    yield from several or _of_threads(threads)


def _one_for_each_line(several: Iterator[Difference]) -> Iterator[Difference]:
    seen = set()
    for difference in several:
        key = (difference.line, difference.function, difference.kind, difference.name)
        if key not in seen:
            seen.add(key)
            yield difference


def _of_main(logs: Pair, findings: dict[str, list[str]]) -> Iterator[Difference]:
    # Digests, in the first run, of the values that differ: a later argument may be one of them.
    known: set[str | None] = set()
    for number in range(1, 1 + max(len(log.steps) for log in logs)):
        one, other = (log.origins.get(number) for log in logs)
        if one is None or one != other:
            reason = "All calls before it had equal bits; the program itself chose another call."
            yield _of_calls(one, other, number, "" if known else reason)
            return
        before = len(known)
        inputs = 0
        for leaf in _comparison.differences(logs, (number, number)):
            if leaf.tree == "arguments":
                inputs += 1
                if leaf.digests[0] not in known:
                    yield _of_leaf(leaf, one, number, "" if before else _OUTSIDE)
            elif not inputs:
                yield _of_leaf(leaf, one, number, _racing(one[1], findings))
            known.add(leaf.digests[0])


def _racing(function: str, findings: dict[str, list[str]]) -> str:
    reason = "Its arguments had the same bits in both runs, so the program itself varies"
    guilty = findings.get(function)
    if guilty:
        return f"{reason}: {'; '.join(guilty)}."
    return f"{reason}. No row of the spec states why: look for a callback, or open an issue."


def _of_threads(logs: Pair) -> Iterator[Difference]:
    """Yields a call of a thread that the other run does not have. Threads have no order."""
    runs = [
        {
            n: (log.origins[n], *(tree[-1].digest for tree in step.values()))
            for n, step in log.steps.items()
        }
        for log in logs
    ]
    extra = [
        Counter(mine.values()) - Counter(theirs.values()) for mine, theirs in (runs, reversed(runs))
    ]
    ours, theirs = (
        [number for number, bits in run.items() if bits in more]
        for run, more in zip(runs, extra, strict=True)
    )
    if not ours:
        if theirs:
            yield _of_calls(None, logs[1].origins[theirs[0]], None, _THREADS)
        return
    origin = logs[0].origins[ours[0]]
    candidates = [
        list(_comparison.differences(logs, (ours[0], number)))
        for number in theirs
        if logs[1].origins[number] == origin
    ]
    if candidates:
        yield _of_leaf(min(candidates, key=len)[0], origin, None, _THREADS)
    else:
        yield _difference("call", "no such call", "", origin, None, _THREADS)


def _of_leaf(
    leaf: _comparison.Difference, origin: Any, number: int | None, reason: str
) -> Difference:
    types = " and ".join(dict.fromkeys(str(type_) for type_ in leaf.types))
    return _difference(_PARTS[leaf.tree], str(leaf.leaf), types, origin, number, reason)


def _of_calls(one: Any, other: Any, number: int | None, reason: str) -> Difference:
    does = "the end of the run" if other is None else _function(other[1])
    if other is not None and other[0] is not None:
        does += f" at {other[0]}"
    return _difference("call", does, "", one or (None, "the end of the run"), number, reason)


def _difference(
    kind: Kind, name: str, type_: str, origin: Any, number: int | None, reason: str
) -> Difference:
    line, function, *_ = origin
    code = None if line is None else _after.source_code(line)
    return Difference(kind, name, type_, line, code, _function(function), number, reason)


def _function(function: str) -> str:
    """Returns the name of a function, with its line if it is a user's."""
    name, _, where = function.partition(" at ")
    file, _, number = where.rpartition(":")
    if file and source.kind_of(file) == "user":
        return f"{name} ({source.shown(file)}:{number})"
    return name

"""Runs a file, and makes items of what it compiled and of its generators of random numbers.

``python -m impl doctor --after train.py`` runs the file here, in this process, while a ``Recorder``
keeps each program that JAX lowers and ``_generators`` watches generators. The audit judges the
programs. A scatter-add that was compiled with the mode off becomes::

    Varies per process (1)
      train.py:4  lax.scatter_add  f32[8] i32[64,1] f32[64]
          It can give other bits in each run on cuda (R0400). It was compiled with the mode off. To
          do: Turn the mode on: it adds in a fixed order. ...
"""

from __future__ import annotations

import concurrent.futures.thread
import contextlib
import dataclasses
import itertools
import linecache
import runpy
import sys
import threading
import types
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import spec
from impl import _jax, programs
from impl._jax import jaxprs, watching
from impl._mode import modes
from impl._mode.modes import Mode
from impl._reading import facts, source
from impl._reading.control_flow import every_jaxpr
from impl._reading.source import Lines
from impl._reading.values import Scope
from impl._reading.walk import walk
from impl.diagnosis import _generators
from impl.diagnosis._generators import Watch
from impl.diagnosis._report import Item
from impl.programs import Finding
from impl.programs._auditing.audit import times_kernels
from impl.programs._auditing.judge import Judge

#: The file of the function that a worker of an executor runs, as its frames name it.
_WORKER = concurrent.futures.thread.ThreadPoolExecutor.submit.__code__.co_filename
#: The time between two looks at a thread.
_SECONDS = 0.05
SECTION = "Programs"
GENERATORS = "Generators"

_TURN_ON = "Call impl.use_deterministic_algorithms(True) before the program is compiled."
#: The number of names that a report has room for.
_SHOWN = 5


@dataclasses.dataclass(frozen=True)
class Program:
    """A program that was lowered to be compiled, with the lines of the code that called it.

    ``mode`` is the mode for JAX's own primitives: off after ``impl.programs.disable()``.
    """

    lowered: watching.Lowered
    caller: Lines
    own_mode: Mode
    mode: Mode

    @property
    def name(self) -> str:
        """The name of its function."""
        return self.lowered.function.partition(" ")[0]

    @property
    def jaxpr(self) -> Any:
        """Its jaxpr, without the constants."""
        return jaxprs.opened(self.lowered.closed)

    @property
    def is_operation(self) -> bool:
        """True if it is an operation of JAX that ran outside of ``jit``."""
        files = {self.lowered.function.partition(" at ")[2].rpartition(":")[0], *_files(self.jaxpr)}
        return not any(source.kind_of(file) in ("user", "library") for file in files)


def _files(jaxpr: Any) -> Iterator[str]:
    """Yields the files that the equations of a jaxpr, and of those inside, come from."""
    for equation in jaxpr.eqns:
        yield from (file for file, _, _ in _jax.frames(equation))
        if equation.primitive.name in facts.SCATTERS:
            continue  # JAX traces the sum of two updates once, for the first program that has it.
        for inner in every_jaxpr(equation):
            yield from _files(inner)


@dataclasses.dataclass(frozen=True)
class Judged:
    """The verdicts on the programs.

    Attributes:
        device: The device that they are about.
        findings: The audit's findings, each with the mode of its program and the number of equal
            ones.
        functions: The number of compiled functions.
        operations: The number of compiled single operations that ran outside of ``jit``.
        equations: The number of equations that were looked at.
        off: The programs that were compiled with the mode off, as ``name (file:line)``, and how
            often each was. Operations outside of ``jit`` have no name.
        off_varies: Whether one of those varies, or is unknown.
        unread: The programs that the audit could not read, each with the error.
    """

    device: str
    findings: dict[tuple[Finding, Mode], int]
    functions: int
    operations: int
    equations: int
    off: dict[str, int]
    off_varies: bool
    unread: dict[str, str]


class Recorder:
    """Keeps the programs that are lowered, in any thread, while ``watched`` is active."""

    def __init__(self) -> None:
        self.programs: list[Program] = []
        self._lock = threading.Lock()
        self._thread = threading.local()

    @contextlib.contextmanager
    def watched(
        self, called: Callable[[watching.Call], Sequence[Any]] | None = None
    ) -> Iterator[None]:
        """Watches this process; ``watching.watched_programs`` tells ``called`` what it calls."""

        def call(program: watching.Call) -> Sequence[Any]:
            return program.run() if called is None or self.is_paused else called(program)

        with watching.watched_programs(self._keep, None if called is None else call):
            yield

    @property
    def is_paused(self) -> bool:
        """Whether this thread is inside ``paused``."""
        return getattr(self._thread, "paused", False)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Ignores the programs that this thread compiles or calls inside."""
        self._thread.paused = True
        try:
            yield
        finally:
            self._thread.paused = False

    def _keep(self, lowered: watching.Lowered) -> None:
        if self.is_paused:
            return
        mode = own_mode = modes.current()
        if not programs.are_enabled():
            mode = mode._replace(enabled=False)
        program = Program(lowered, source.caller(), own_mode, mode)
        with self._lock:
            self.programs.append(program)


def judged(recorded: Sequence[Program], device: str) -> Judged:
    """Returns the verdicts on programs, for a device of the spec."""
    findings: Counter[tuple[Finding, Mode]] = Counter()
    off: Counter[str] = Counter()
    off_varies = False
    unread: dict[str, str] = {}
    equations = 0
    for program in recorded:
        operation = program.is_operation
        named = "" if operation else f"{program.name} ({program.caller.user or 'unknown line'})"
        try:
            of_program, count = audited(program, device)
        except Exception as error:  # noqa: BLE001  # One odd program hides no other.
            unread[named or program.name] = f"{type(error).__name__}: {error}"
            continue
        equations += count
        findings.update((finding, program.mode) for finding in of_program)
        if not program.mode.enabled:
            off[named] += 1
            off_varies |= any(f.verdict in ("varies", "unknown") for f in of_program)
    operations = sum(program.is_operation for program in recorded)
    functions = len(recorded) - operations
    return Judged(
        device, dict(findings), functions, operations, equations, dict(off), off_varies, unread
    )


def audited(program: Program, device: str) -> tuple[list[Finding], int]:
    """Returns the audit's findings on a program, and the number of its equations."""
    rules = spec.load()
    timed = times_kernels(program.lowered.options)
    judge, own_judge = Judge(device, program.mode, timed), Judge(device, program.own_mode, timed)
    jaxpr = _jax.without_dead_code(program.jaxpr)
    scope = Scope(jaxpr, jaxprs.constants(jaxprs.reclosed(program.lowered.closed, jaxpr)))
    is_leaf = rules.op_of_primitive.__contains__
    sites = list(walk(scope, is_leaf, computed=judge.computed, outside=program.caller))
    findings = [
        (own_judge if site.name.startswith("samebits_") else judge).finding(site) for site in sites
    ]
    return [finding for finding in findings if finding is not None], len(sites)


@dataclasses.dataclass(frozen=True)
class Ran:
    """A file that ran while the doctor watched; ``failure`` is as ``attempt`` returns it."""

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
            reason = "The report is about what it did before."
            remedy = "Correct the error, and run the doctor again."
            yield Item(SECTION, str(self.file), self.failure, "unknown", reason, remedy)
        yield from _of_findings(self.judged)
        for name, error in self.judged.unread.items():
            reason = f"The audit could not read this program: {error}"
            yield Item(SECTION, name, None, "unknown", reason, "Open an issue with the program.")
        yield from _of_off(self.judged)
        yield _of_the_rest(self)
        yield from _of_generators(self.watch)


def ran(file: Path, arguments: Sequence[str], device: str) -> Ran:
    """Runs a file in this process, and judges what it compiled for a device, and what it drew."""
    recorder = Recorder()
    with recorder.watched(), _generators.watched() as watch:
        failure = attempt(file, arguments)
    return Ran(file, failure, judged(recorder.programs, device), watch)


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


def _of_off(judged: Judged) -> Iterator[Item]:
    """Yields the item of the programs that were compiled with the mode off, if there are any."""
    if not judged.off:
        return
    operations = judged.off.get("", 0)
    named = [f"{name}, {n} times" if n > 1 else name for name, n in judged.off.items() if name]
    if operations:
        named.append(_count(operations, "operation outside of jit", "operations outside of jit"))
    of = SECTION, "compiled with the mode off", _few(named, "; ")
    if judged.off_varies:
        reason = f"The lines above name what varies in them on {judged.device}."
        yield Item(*of, "varies per process", reason, _TURN_ON)
    else:
        yield Item(*of, "fixed", f"Nothing in them varies on {judged.device}.")


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


def run(file: Path, arguments: Sequence[str] = (), run_name: str = "__main__") -> dict[str, Any]:
    """Runs a file as ``python FILE`` does, but leaves the standard output to the report.

    It returns the names that the file defines.
    """
    sys.path.insert(0, str(file.resolve().parent))
    sys.argv = [str(file), *arguments]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return runpy.run_path(str(file), run_name=run_name)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    return {}


def attempt(file: Path, arguments: Sequence[str]) -> str | None:
    """Runs a file to its end, and shows an error as Python does.

    It returns the failure in words, such as "raised ValueError"; None if there was none.
    """
    failure = None
    before = {*threading.enumerate()}
    try:
        run(file, arguments)
    except SystemExit as end:
        if not isinstance(end.code, int):
            sys.stderr.write(f"{end.code}\n")
        failure = f"ended with the exit status {end.code if isinstance(end.code, int) else 1}"
    except Exception as error:  # noqa: BLE001  # A program may raise any exception.
        error = error.with_traceback(_of_file(error.__traceback__, file))
        sys.excepthook(type(error), error, error.__traceback__)
        failure = f"raised {type(error).__name__}"
    # Python waits for these threads before a process ends.
    for thread in {*threading.enumerate()} - before:
        while thread.is_alive() and not thread.daemon and not _is_idle(thread):
            thread.join(_SECONDS)
    return failure


def _is_idle(thread: threading.Thread) -> bool:
    """Returns whether a thread is a worker of an executor without work; it ends with the process.

    A worker that takes its next work from the queue seems idle for a moment.
    """

    def waits() -> bool:
        frame = sys._current_frames().get(thread.ident or 0)  # noqa: SLF001  # It is documented.
        return frame is not None and frame.f_code.co_filename == _WORKER

    if not waits():
        return False
    thread.join(_SECONDS)
    return waits()


def _of_file(traceback: types.TracebackType | None, file: Path) -> types.TracebackType | None:
    """Returns a traceback without the frames by which this package came to the file."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename != str(file):
        traceback = traceback.tb_next
    return traceback

"""Records the programs that are compiled while a file runs, and judges them with the audit."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import spec
from impl import programs
from impl._core import jax_internals
from impl._core.jax_internals import jaxprs, watching
from impl._mode import modes
from impl._mode.modes import Mode
from impl._reading import facts, source
from impl._reading.control_flow import every_jaxpr
from impl._reading.source import Lines
from impl._reading.values import Scope
from impl._reading.walk import walk
from impl.programs import Finding
from impl.programs._auditing.audit import times_kernels
from impl.programs._auditing.judge import Judge


@dataclasses.dataclass(frozen=True)
class Program:
    """A program that was lowered to be compiled.

    Attributes:
        lowered: The program.
        caller: The lines of the code that called it.
        own_mode: The mode that it was compiled with.
        mode: The mode for JAX's own primitives: off after ``impl.programs.disable()``.
    """

    lowered: watching.Lowered
    caller: Lines
    own_mode: Mode
    mode: Mode

    @property
    def line(self) -> str | None:
        """The user's line that called it; None if no line of the stack is a user's."""
        return self.caller.user

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
        yield from (file for file, _, _ in jax_internals.frames(equation))
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
        """Watches this process.

        Args:
            called: As for ``watching.watched_programs``, for calls that are not its own.
        """

        def call(program: watching.Call) -> Sequence[Any]:
            if called is None or self.is_paused:
                return program.run()
            return called(program)

        tell = None if called is None else call
        with watching.watched_programs(self._keep, tell):
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
        named = "" if operation else f"{program.name} ({program.line or 'unknown line'})"
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
    jaxpr = jax_internals.without_dead_code(program.jaxpr)
    scope = Scope(jaxpr, jaxprs.constants(jaxprs.reclosed(program.lowered.closed, jaxpr)))
    is_leaf = rules.op_of_primitive.__contains__
    sites = list(walk(scope, is_leaf, computed=judge.computed, outside=program.caller))
    findings = [
        (own_judge if site.name.startswith("samebits_") else judge).finding(site) for site in sites
    ]
    return [finding for finding in findings if finding is not None], len(sites)

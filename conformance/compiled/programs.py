"""The programs that the rows speak of, compiled for a GPU, and what is wrong with each."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import impl
import spec
from conformance import lowered_code
from conformance.compiled import compiler, hlo, ptx
from conformance.compiled.compiler import Code
from conformance.compiled.ptx import Resources
from conformance.suite.cells import Cell, cells
from impl._mode.decide import Question, decide
from impl.testing import questions

#: Matrix products of a library serve where a guarantee is of one machine alone.
_PRODUCTS = ("__cublas$", "__cublas$lt$")


@dataclasses.dataclass(frozen=True)
class Made:
    """A program that was compiled, or was not.

    Attributes:
        error: Why it could not be compiled.
        races: What in it depends on timing.
        calls: The libraries that it calls.
        lost: What it should have and has not.
        kernels: What each Pallas kernel takes, by name; None where there is no assembler.
        seconds: How long it took to compile.
    """

    error: str | None = None
    races: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    kernels: Mapping[str, Resources | None] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class Tried:
    """One call, under one profile, with one of two sets of compiler options.

    Attributes:
        name: That by which the command line picks it.
        target: The GPU.
        about: What a report says that was tried.
        made: What the compiler made of it; calls with the same program share it.
        faults: What is wrong with it, for what the row says.
        by_jit: Whether the options are those of ``impl.jit``.
    """

    name: str
    target: str
    about: Mapping[str, Any]
    made: Made
    faults: tuple[str, ...] = ()
    by_jit: bool = False


def tried(op: str, target: str, words: Sequence[str]) -> list[Tried]:
    """Compiles every program of an op for a GPU.

    Args:
        op: Dotted name.
        target: Name of the GPU.
        words: Only cells with one of these in their name; all, if there are none.
    """
    found = []
    chosen = [cell for cell in of_op(op) if picked(str(cell), words)]
    for _, group in itertools.groupby(chosen, lambda cell: (cell.sample.name, cell.direction)):
        programs = Programs(target)
        for cell in group:
            for by_jit, made in programs.of(cell):
                wrong = tuple(faults(cell, made))
                found.append(Tried(str(cell), target, cell.about, made, wrong, by_jit))
    return found


def of_op(op: str) -> list[Cell]:
    """The cells of an op on a GPU, those of one call beside one another."""
    found = [cell for cell in cells() if cell.op == op and cell.device == "cuda"]
    return sorted(found, key=lambda cell: (cell.sample.name, cell.direction))


def picked(name: str, words: Sequence[str]) -> bool:
    """Whether the command line picks what has this name."""
    return not words or any(word in name for word in words)


class Programs:
    """The programs of one call: under two profiles that say the same it is one.

    That a profile raises or warns is not in a program; which path is taken, and what fresh memory
    holds, is all that the mode brings into it.
    """

    def __init__(self, target: str) -> None:
        self._target = target
        self._known: list[tuple[list[Question], Any, Mapping[str, Any], Made]] = []

    def of(self, cell: Cell) -> Iterator[tuple[bool, Made]]:
        """What is made under the cell's profile: plainly, and as ``impl.jit`` compiles it.

        Only what the mode makes deterministic is compiled both ways, and under the profile with
        the most options alone: without a GPU the others differ in nothing that acts. With each
        goes whether it is the second.
        """
        with impl.deterministic(True, profile=cell.profile, warn_only=cell.behaviour == "raise"):
            yield False, self._made(cell, compiler.UNTIMED)
            if cell.behaviour == "deterministic" and cell.profile == _fullest():
                yield True, self._made(cell, {**impl.compile_options(), **compiler.UNTIMED})

    def _made(self, cell: Cell, options: Mapping[str, Any]) -> Made:
        for asked, answers, with_options, known in self._known:
            if with_options == options and _answers(asked) == answers:
                return known
        function, inputs = cell.sample.function(impl, cell.direction), cell.sample.inputs
        with questions() as asked:
            new = make(function, inputs(cell.direction), self._target, options)
        self._known.append((list(asked), _answers(asked), options, new))
        return new


@functools.cache
def _fullest() -> str:
    """The profile under which ``impl.jit`` sets the most options."""

    def options(profile: str) -> int:
        with impl.deterministic(True, profile=profile):
            return len(impl.compile_options())

    return max(spec.load().profiles, key=options)


def _answers(asked: Iterable[Question]) -> tuple[Any, ...]:
    actions = (decide(q.op, q.direction, **q.facts).on("cuda") for q in asked)
    return tuple((action.path, action.fill) for action in actions)


def make(
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    target: str,
    options: Mapping[str, Any],
) -> Made:
    """Compiles a call and reads what came of it; see ``compiler.compiled``."""
    begun = time.perf_counter()
    try:
        code = compiler.compiled(function, inputs, target, options)
    except Exception as error:  # noqa: BLE001  # whatever a compiler says is to be reported
        return Made(error=f"{type(error).__name__}: {error}")
    seconds = time.perf_counter() - begun
    return Made(
        None,
        tuple(races(code)),
        tuple(hlo.library_calls(code.hlo)),
        tuple(lost(code)),
        _resources(code),
        seconds,
    )


def races(code: Code) -> Iterator[str]:
    """What of a program depends on timing, with the instruction."""
    yield from hlo.races(code.hlo)
    for name, text in code.kernels.items():
        atomics = ptx.racing_atomics(text)
        if atomics:
            yield f"{', '.join(atomics)} in the kernel {name}"
        if "_any" in name:
            yield f"stores in the kernel {name}, of which any may stay"


def lost(code: Code) -> Iterator[str]:
    """What a program was lowered to and its code has not."""
    for name in dict.fromkeys(lowered_code.kernels(code.lowered)):
        if not any(_same(name, own) for own in code.kernels):
            yield f"the code of the kernel {name}"
    for name in dict.fromkeys(lowered_code.races(code.lowered)):
        own = [text for each, text in code.kernels.items() if _same(name, each)]
        if own and "_any" not in name and not any(map(ptx.racing_atomics, own)):
            yield f"the atomics of the kernel {name}"


def _same(name: str, own: str) -> bool:
    """Whether XLA's name of a kernel is ``name``, but for a number that tells it from others."""
    return own == name or own.removeprefix(name).lstrip("_").isdigit()


def _resources(code: Code) -> dict[str, Resources | None]:
    pallas = lowered_code.kernels(code.lowered)
    assembler = ptx.assembler()
    return {
        name: ptx.resources(text, assembler) if assembler else None
        for name, text in code.kernels.items()
        if any(_same(each, name) for each in pallas)
    }


def faults(cell: Cell, made: Made) -> Iterator[str]:
    """What is wrong with a program, for what the row of a cell says."""
    if made.error is not None:
        yield f"it does not compile: {made.error}"
    for what in made.lost:
        yield f"it has lost {what}"
    if cell.behaviour == "deterministic" and cell.row is not None:
        yield from (f"it races: {race}" for race in made.races)
        allowed = _PRODUCTS if cell.row.guarantee == "run_to_run" else ()
        for call in made.calls:
            if not call.startswith(allowed or ("\0",)):
                yield f"it calls {call}, and its guarantee is {cell.row.guarantee}"

"""``impl.first_difference``: the first equation whose bits differ between two runs of a program."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from impl._core import arguments
from impl.programs._differences.comparison import Comparison, Difference, unmarked
from impl.programs._differences.marked import Executables, Program, Run
from impl.programs._differences.marks import Marks
from impl.programs._differences.progress import Progress
from impl.programs._differences.recording import Recording

_MARKS: tuple[Marks, ...] = ("arithmetic", "equations", "calls")
#: How often the runs are repeated to find the iteration of long loops.
_REPETITIONS = 4
_BY_DESIGN = (
    "  The first run had {}, the second\n"
    "  {}: their bits differ by design.\n"
    "  To look for a fault, compare one mode with itself: on two devices, or with\n"
    "  impl.programs.record on two machines."
)


def first_difference(
    function: Callable[..., Any],
    *args: Any,
    between: tuple[Run, Run] = (None, None),
    marks: Marks | None = None,
    progress: bool | None = None,
    **kwargs: Any,
) -> Difference | None:
    """Returns the first equation whose bits differ between two runs of a program.

    The program is traced and run once in each of two scopes, with a digest of what its equations
    compute, also in the bodies of jitted functions, loops and conditions. Every bit counts: 0.0
    differs from -0.0, and so do two NaN with different payloads. ::

        schedules = impl.testing.schedule(1), impl.testing.schedule(2)
        print(impl.first_difference(train_step, params, batch, between=schedules))

    Compare one mode with itself: the bits of two modes differ by design, and the answer says so.

    The digests change which equations XLA fuses, and so the bits. The bits of the two marked runs
    can be compared with each other, but not with the bits of the plain program, and a difference
    may vanish in them. So if no mark differs, the program is also run twice without marks.
    ``marks="calls"`` marks the outputs of jitted functions, loops and conditions only, so that XLA
    fuses the equations inside them.

    Each side compiles the program once with marks, which takes two to four times as long as
    without, and once without if no mark differs. Two sides whose programs are the same text share
    one compilation.

    Args:
        function: The program; what ``jax.jit``, ``impl.jit``, ``jax.pmap``, Flax's ``nnx.jit`` or
            Equinox's ``filter_jit`` returned as well. Arrays among its arguments are traced, other
            arguments are constants. Arguments are neither donated nor changed, and the shardings
            that ``jax.jit`` got are left to XLA.
        *args: Its arguments.
        between: The two runs. Each is a context manager in which the program is traced, compiled
            and run, or a callable that makes one; a ``jax.Device`` to run on; None for a plain run;
            or a ``Recording`` of an earlier run, or the path of its file. Two plain runs show what
            varies from run to run.
        marks: The equations whose outputs get a digest: each that can round or race
            ("arithmetic", the default), every one ("equations"), or each call of a jitted function,
            loop and condition ("calls"). "arithmetic" leaves out equations that move elements,
            compare them or compute with whole numbers. A ``Recording`` has its own marks.
        progress: Whether to print each step to stderr. None prints where stderr is a terminal, once
            the call takes more than a few seconds.
        **kwargs: Named arguments of the program.

    Returns:
        The first difference; None if all bits are equal. Its string is a message.

    Raises:
        ValueError: ``between`` does not have two runs, or has a device of another process;
            ``marks`` is unknown; or a recording has other marks.
        TypeError: ``function`` cannot be called, ``between`` is not a tuple, a run is not one of
            the above, or an argument is a shape without values.
    """
    arguments.check_callable("first_difference", "function", function)
    if not isinstance(between, tuple | list):
        raise TypeError(
            "first_difference(): argument 'between' must be a tuple of two runs, not "
            f"{type(between).__name__}; None is a plain run"
        )
    if len(between) != len(("first", "second")):
        raise ValueError(f"first_difference(): argument 'between' must have two runs: {between!r}")
    given = [Recording.load(run) if isinstance(run, str | os.PathLike) else run for run in between]
    chosen = _chosen(marks, [run.marks for run in given if isinstance(run, Recording)])
    compiled: Executables = {}
    with Progress("first_difference", progress) as steps:
        runs = [
            run
            if isinstance(run, Recording)
            else Program(function, args, kwargs, run, f"run {number} of 2", compiled, steps)
            for number, run in enumerate(given, start=1)
        ]
        return _between(runs, chosen)


def _between(runs: Sequence[Program | Recording], marks: Marks) -> Difference | None:
    recordings = [run.marked(marks) if isinstance(run, Program) else run for run in runs]
    difference, unsure = _compared(recordings, marks)
    starts: dict[int, int] = {}
    programs = [run for run in runs if isinstance(run, Program)]
    while unsure and len(starts) < _REPETITIONS and len(programs) == len(runs):
        starts = {**starts, unsure[0]: unsure[1]}
        again = _compared([program.marked(marks, starts) for program in programs], marks)
        if again[0] is None or again[1] == unsure:
            break
        difference, unsure = again
    if difference is None:
        first, second = [r.plain() if isinstance(r, Program) else r.outputs for r in runs]
        if not np.array_equal(first, second):
            difference = unmarked(marks)
    first_mode, second_mode = (recording.mode for recording in recordings)
    if difference is None or first_mode == second_mode:
        return difference
    return dataclasses.replace(difference, note=_BY_DESIGN.format(first_mode, second_mode))


def record(
    function: Callable[..., Any],
    *args: Any,
    marks: Marks = "arithmetic",
    progress: bool | None = None,
    **kwargs: Any,
) -> Recording:
    """Returns the marks of a run, for ``impl.first_difference`` to compare with another run later.

    The other run may be in another process, or on another machine. Save the recording with its
    method ``save``, and pass the path in ``between``. The program runs twice: with the marks, and
    without.

    Args:
        function: The program, as ``impl.first_difference`` takes it.
        *args: Its arguments.
        marks: The equations whose outputs get a digest: "arithmetic", "equations" or "calls".
        progress: As for ``impl.first_difference``.
        **kwargs: Named arguments of the program.

    Raises:
        ValueError: ``marks`` is unknown.
        TypeError: ``function`` cannot be called, or an argument is a shape without values.
    """
    arguments.check_callable("record", "function", function)
    with Progress("record", progress) as steps:
        program = Program(function, args, kwargs, None, "the program", {}, steps)
        recording = program.marked(_chosen(marks, []))
        return dataclasses.replace(recording, outputs=program.plain())


def _chosen(marks: Marks | None, recorded: Sequence[Marks]) -> Marks:
    chosen: Marks = marks or (recorded[0] if recorded else "arithmetic")
    arguments.check_choice("first_difference", "marks", chosen, _MARKS)
    if any(each != chosen for each in recorded):
        raise ValueError(
            f"first_difference(): a recording has the marks {recorded[-1]!r}, and the other run "
            f"{chosen!r}: record it again, or leave out 'marks'"
        )
    return chosen


def _compared(
    recordings: Sequence[Recording], marks: Marks
) -> tuple[Difference | None, tuple[int, int] | None]:
    """Returns the first difference, and the loop and iteration in which to look once more."""
    first, second = recordings
    comparison = Comparison(marks)
    difference = comparison.first(first.nodes, second.nodes, (first.words, second.words))
    return difference, comparison.unsure

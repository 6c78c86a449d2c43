"""``impl.first_difference``: the first equation whose bits differ between two runs of a program.

A program is traced once in its scope. The program with its marks is compiled once: the iterations
that the digests of a loop belong to are an argument of it, so that a loop is searched again without
another compilation. Two programs with the same StableHLO share one compilation: on a CPU, for
example, the programs with the mode off and on, where no row applies.

For ``impl.first_difference(step, x, between=(None, impl.deterministic()))`` there are two objects
``Program``, each traced in its own scope. ``step`` is ``lambda x: (x + 1) * 2``, ``x`` is
``jnp.arange(4.)``::

    marked("arithmetic")    [2151073888, 352290347, 206981362, 206981362] in both scopes:
                            the digests of argument 0, lax.add, lax.mul and output 0
    plain()                 [206981362]: output 0 of a run without marks
    compilations            2                     one with marks, one without, for both scopes
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, TypeAlias, TypeVar

import jax
import numpy as np

from impl import _jax
from impl._core import arguments
from impl._jax import jaxpr_as_fun
from impl._mode import compilation, modes
from impl._reading.tracing import check_values, is_array
from impl._run_to_run.rules import in_words
from impl.programs._differences.comparison import (
    Comparison,
    Difference,
    Recording,
    Words,
    at_mark,
    setting,
)
from impl.programs._differences.marks import (
    Mark,
    Marks,
    Node,
    Planner,
    digests,
    evaluate,
    every_node,
    joined,
    windows,
)

#: One of the two runs: see ``impl.first_difference``.
Run: TypeAlias = Any
Result = TypeVar("Result")
#: A compiled program, and what it was compiled from.
Executables: TypeAlias = dict[Any, Callable[..., Any]]

#: The seconds after which a call counts as long.
PATIENCE = 5.0
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
        taken, hint = "a tuple of two runs", "; None is a plain run"
        raise arguments.wrong_type("first_difference", "between", taken, between, hint)
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
            absent = Mark("output", "none", "unknown source", None, (), "", "", ())
            difference = at_mark("unmarked", absent, marks, ())
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


class Program:
    """A program in one scope, as ``first_difference`` takes it.

    Steps of ``progress`` have its ``name``. It adds the programs that it compiles to ``compiled``.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        scope: Run,
        name: str,
        compiled: Executables,
        progress: Progress,
    ) -> None:
        _check(scope)
        self._function, self._scope, self._name = function, scope, name
        self._leaves, self._tree = jax.tree_util.tree_flatten_with_path((args, dict(kwargs)))
        check_values("first_difference", (args, dict(kwargs)))
        self._compiled, self._progress = compiled, progress
        self._made: tuple[Any, dict[str, Any]] | None = None

    def marked(self, marks: Marks, starts: Mapping[int, int] | None = None) -> Recording:
        """Returns the recording of a run with marks."""
        return self._in_scope(lambda: self._marked(marks, starts or {}))

    def plain(self) -> Words:
        """Returns the digests of the outputs of a run without marks."""
        return self._in_scope(self._plain)

    def _in_scope(self, action: Callable[[], Result]) -> Result:
        scope = self._scope
        if isinstance(scope, jax.Device):
            scope = jax.default_device(scope)
        elif scope is None:
            scope = contextlib.nullcontext()
        elif isinstance(scope, contextlib.ContextDecorator):
            in_scope: Callable[[], Result] = scope(action)  # It begins anew at each call.
            return in_scope()
        elif not hasattr(scope, "__enter__"):
            scope = scope()
        with scope:
            return action()

    def arrays(self) -> list[Any]:
        """Returns the arrays among the arguments, on the device of the run."""
        arrays = [leaf for _, leaf in self._leaves if _is_array(leaf)]
        on_device = isinstance(self._scope, jax.Device)
        return jax.device_put(arrays, self._scope) if on_device else arrays

    def traced(self) -> tuple[Any, dict[str, Any]]:
        """Returns the closed jaxpr of the program, and its compiler options."""
        if self._made is not None:
            return self._made
        self._progress.step(f"traces {self._name}")
        function, options = self._function, {}
        full = [leaf for _, leaf in self._leaves]
        if isinstance(function, compilation.Jitted):
            options = function.options()
            function = function.__wrapped__  # type: ignore[attr-defined]
        if _jax.is_jitted(function):
            args, kwargs = jax.tree.unflatten(self._tree, full)
            options = {**_jax.traced_options(function.trace(*args, **kwargs)), **options}
            function = function.__wrapped__  # type: ignore[attr-defined]

        # ``nnx.jit`` changes the state of a model that is not a tree of arrays.
        is_wrapped = isinstance(function, jax.stages.Wrapped)
        constant: Callable[[Any], Any] = copy.deepcopy if is_wrapped else lambda leaf: leaf

        def of_arrays(*values: Any) -> Any:
            given = iter(values)
            leaves = [next(given) if _is_array(leaf) else constant(leaf) for leaf in full]
            args, kwargs = jax.tree.unflatten(self._tree, leaves)
            outputs = jax.tree.leaves(function(*args, **kwargs))
            # Flax's ``nnx.jit`` changes the state of its arguments, which are copies here.
            before = {id(leaf) for leaf in leaves}
            changed = [x for x in jax.tree.leaves((args, kwargs)) if id(x) not in before]
            return [x for x in (*outputs, *changed) if hasattr(x, "dtype")]

        self._made = jax.make_jaxpr(of_arrays)(*self.arrays()), options
        return self._made

    def _executable(
        self, function: Callable[..., Any], *arrays: Any, text: str
    ) -> Callable[..., Any]:
        """Returns a function as compiled in this scope."""
        options = self.traced()[1]
        program = jax.jit(function, compiler_options=options or None)
        lowered = program.lower(*arrays)
        stablehlo = lowered.as_text()
        # The text shows only a number for a callback.
        shardings = [getattr(x, "sharding", None) for x in arrays]
        key = stablehlo, *map(repr, (options, shardings, _jax.settings()))
        if "callback" in stablehlo or key not in self._compiled:
            self._progress.step(f"compiles {self._name}{text}")
            self._compiled[key] = lowered.compile()
        return self._compiled[key]

    def _marked(self, marks: Marks, starts: Mapping[int, int]) -> Recording:
        closed, _ = self.traced()
        nodes = Planner(marks, starts).nodes(closed)
        outputs = tuple(f"{i}: {aval.str_short(True)}" for i, aval in enumerate(closed.out_avals))
        names = tuple(_named(path) for path, leaf in self._leaves if _is_array(leaf))
        ends = _whole("argument", names), _whole("output", outputs)

        def run(rows: jax.Array, *values: Any) -> jax.Array:
            results, words = evaluate(closed, values, nodes, rows)
            begin, end = digests(values), digests(results)
            return joined([*begin, *words, *end])

        arrays = windows(nodes), *self.arrays()
        count = sum(node.marked for node in every_node(nodes))
        program = self._executable(run, *arrays, text=f" with {count} marks")
        self._progress.step(f"runs {self._name}")
        words = np.asarray(program(*arrays))
        nodes = (ends[0], *nodes, ends[1])
        if words.size != sum(node.words for node in nodes):
            raise AssertionError("a program has other marks than its plan")
        mode = in_words(modes.current())
        return Recording(marks, setting(), mode, nodes, words, np.zeros(0, np.uint32))

    def _plain(self) -> Words:
        closed, _ = self.traced()
        arrays = self.arrays()
        program = self._executable(jaxpr_as_fun(closed), *arrays, text=" without marks")
        self._progress.step(f"runs {self._name} without marks")
        outputs = program(*arrays)
        return np.asarray(jax.jit(lambda *x: joined(digests(x)))(*outputs))


def _check(scope: Run) -> None:
    is_scope = scope is None or isinstance(scope, jax.Device) or hasattr(scope, "__enter__")
    if not (is_scope or callable(scope)):
        raise TypeError(
            "first_difference(): argument 'between' takes context managers, callables that "
            f"make one, devices, recordings and None, not {type(scope).__name__}"
        )
    if isinstance(scope, jax.Device) and scope.process_index != jax.process_index():
        raise ValueError(
            f"first_difference(): argument 'between' has {scope}, which is a device of process "
            f"{scope.process_index}, and this is {jax.process_index()}: pass one of "
            "jax.local_devices()"
        )


def _is_array(leaf: Any) -> bool:
    # A scalar of NumPy may be an argument that ``jax.jit`` got as a static one.
    return is_array(leaf) and not isinstance(leaf, np.generic)


def _named(path: tuple[Any, ...]) -> str:
    """Returns the name of an array among the arguments: by its number, or by its keyword."""
    positional, first, *rest = path
    name = first.idx if positional.idx == 0 else repr(first.key)
    return f"argument {name}{jax.tree_util.keystr(tuple(rest))}"


def _whole(kind: Literal["argument", "output"], names: tuple[str, ...]) -> Node:
    return Node(Mark(kind, kind, "", None, (), "", "", names), marked=bool(names))


class Progress:
    """Prints what a call does, from the moment at which it counts as long.

    Use it as a context manager, and name each step as it begins::

        with Progress("first_difference", None) as progress:
            progress.step("compiles run 1 of 2")

    If ``shown``, it prints from the first step on. None prints where stderr is a terminal, once the
    call is long.
    """

    def __init__(self, name: str, shown: bool | None) -> None:
        self._name = name
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._patience = 0.0 if shown else PATIENCE
        self._step = self._printed = ""
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self._later: threading.Timer | None = None

    def __enter__(self) -> Self:
        if self._shown and self._patience:
            self._later = threading.Timer(self._patience, self._print)
            self._later.daemon = True
            self._later.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._later is not None:
            self._later.cancel()

    def step(self, text: str) -> None:
        """States what the call does from now on."""
        self._step = text
        if self._shown and time.monotonic() - self._begun >= self._patience:
            self._print()

    def _print(self) -> None:
        """Prints the step, unless the timer or the call has printed it already."""
        seconds = time.monotonic() - self._begun
        with self._lock:
            if self._step == self._printed:
                return
            self._printed = self._step
            sys.stderr.write(f"{self._name}: {self._step} ({seconds:.0f} s)\n")
            sys.stderr.flush()

"""``impl.first_difference``: the first equation whose bits differ between two runs of a program."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

import jax
import numpy as np

from impl._core import jax_internals
from impl._core.jax_internals import jaxpr_as_fun
from impl._mode import checks, compilation
from impl.programs import _digests
from impl.programs._comparison import Comparison, Difference, Words, unmarked
from impl.programs._marks import Mark, Marks, Node, Planner
from impl.programs._tracing import is_array

#: One of the two runs: see ``first_difference``.
Run: TypeAlias = Any
Result = TypeVar("Result")
#: The first entry of a file of ``Recording.save``: it changes when the form of the file does.
SCHEMA = 1
_MARKS: tuple[Marks, ...] = ("equations", "calls")
#: How often the runs are repeated to find the iteration of long loops.
_REPETITIONS = 4


@dataclasses.dataclass(frozen=True)
class Recording:
    """The digests of one run of a program, to compare with another run later.

    Attributes:
        marks: What was digested: "equations" or "calls".
        setting: The releases and the device of the run, in words.
        nodes: The marks.
        words: Their digests.
        outputs: The digests of the outputs of a run without marks; none if there was no such run.
    """

    marks: Marks
    setting: str
    nodes: tuple[Node, ...] = dataclasses.field(repr=False)
    words: Words = dataclasses.field(repr=False)
    outputs: Words = dataclasses.field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the recording to a file, in NumPy's format ``npz``."""
        data = {
            "schema": SCHEMA,
            "marks": self.marks,
            "setting": self.setting,
            "nodes": [dataclasses.asdict(node) for node in self.nodes],
        }
        with Path(path).open("wb") as file:
            np.savez_compressed(
                file, header=np.array(json.dumps(data)), words=self.words, outputs=self.outputs
            )

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Recording:
        """Reads a file that ``save`` wrote.

        Raises:
            ValueError: The file has another schema.
        """
        with np.load(path, allow_pickle=False) as file:
            data = json.loads(str(file["header"]))
            if data["schema"] != SCHEMA:
                raise ValueError(
                    f"{path} has the schema {data['schema']} of recordings, and this release of "
                    f"samebits reads {SCHEMA}: record it again"
                )
            nodes = tuple(map(_node, data["nodes"]))
            return Recording(data["marks"], data["setting"], nodes, file["words"], file["outputs"])


def first_difference(
    function: Callable[..., Any],
    *args: Any,
    between: tuple[Run, Run] = (None, None),
    marks: Marks | None = None,
) -> Difference | None:
    """Returns the first equation whose bits differ between two runs of a program.

    The program is traced and run once in each of two scopes, with a digest of the outputs of each
    equation, also in the bodies of jitted functions, loops and conditions. A difference is where a
    bit differs: two NaN with other payloads do, and 0.0 and -0.0. ::

        schedules = impl.testing.schedule(1), impl.testing.schedule(2)
        print(impl.first_difference(train_step, params, batch, between=schedules))

    The digests change what XLA fuses, and so the bits. Those of the two marked runs compare with
    each other, and not with those of the plain program; a difference may vanish in them. The
    program is therefore also run twice without marks if no mark differs. ``marks="calls"`` marks
    the outputs of jitted functions, loops and conditions only, so that XLA fuses what is in them.

    Args:
        function: The program. Arrays among its arguments are traced, other arguments are constants.
            Arguments are not donated, and the shardings that ``jax.jit`` got are left to XLA.
        *args: Its arguments.
        between: The two runs. Each is a context manager in which the program is traced, compiled
            and run, or a callable that makes one; a ``jax.Device`` to run on; None for a plain run;
            or a ``Recording`` of an earlier run, or the path of its file. Two plain runs show what
            varies from run to run.
        marks: What is digested: the outputs of each equation ("equations", the default), or those
            of each call of a jitted function, loop and condition ("calls"). A ``Recording``
            decides it by itself.

    Returns:
        The first difference; None if all bits are equal. Its string is a message.

    Raises:
        ValueError: ``between`` has not two runs, or a device of another process, ``marks`` is
            unknown, or a recording has others.
        TypeError: ``function`` cannot be called, ``between`` is no tuple, a run is none of the
            above, or an argument is a shape without values.
    """
    checks.check_callable("first_difference", "function", function)
    if not isinstance(between, tuple | list):
        raise TypeError(
            "first_difference(): argument 'between' must be a tuple of two runs, not "
            f"{type(between).__name__}; None is a plain run"
        )
    if len(between) != len(("first", "second")):
        raise ValueError(f"first_difference(): argument 'between' must have two runs: {between!r}")
    given = [Recording.load(run) if isinstance(run, str | os.PathLike) else run for run in between]
    chosen = _chosen(marks, [run.marks for run in given if isinstance(run, Recording)])
    runs = [run if isinstance(run, Recording) else _Program(function, args, run) for run in given]
    recordings = [run.marked(chosen) if isinstance(run, _Program) else run for run in runs]
    difference, unsure = _compared(recordings, chosen)
    starts: dict[int, int] = {}
    programs = [run for run in runs if isinstance(run, _Program)]
    while unsure and len(starts) < _REPETITIONS and len(programs) == len(runs):
        starts = {**starts, unsure[0]: unsure[1]}
        again = _compared([program.marked(chosen, starts) for program in programs], chosen)
        if again[0] is None or again[1] == unsure:
            break
        difference, unsure = again
    if difference is None:
        first, second = [r.plain() if isinstance(r, _Program) else r.outputs for r in runs]
        if not np.array_equal(first, second):
            difference = unmarked(chosen)
    return difference


def record(function: Callable[..., Any], *args: Any, marks: Marks = "equations") -> Recording:
    """Returns the marks of a run, for ``impl.first_difference`` to compare with another run later.

    The other run may be in another process, or on another machine. Save the recording with its
    method ``save``, and pass the path in ``between``. The program runs twice: with the marks, and
    without.

    Args:
        function: The program.
        *args: Its arguments.
        marks: What is digested: "equations" or "calls".

    Raises:
        ValueError: ``marks`` is unknown.
        TypeError: ``function`` cannot be called, or an argument is a shape without values.
    """
    checks.check_callable("record", "function", function)
    program = _Program(function, args, None)
    recording = program.marked(_chosen(marks, []))
    return dataclasses.replace(recording, outputs=program.plain())


def _chosen(marks: Marks | None, recorded: Sequence[Marks]) -> Marks:
    chosen: Marks = marks or (recorded[0] if recorded else "equations")
    checks.check_choice("first_difference", "marks", chosen, _MARKS)
    if any(each != chosen for each in recorded):
        raise ValueError(
            f"first_difference(): a recording has the marks {recorded[-1]!r}, and the other run "
            f"{chosen!r}: record it again, or leave out 'marks'"
        )
    return chosen


class _Program:
    """A program in one scope.

    Args:
        function: The program.
        args: Its arguments.
        scope: The scope, as ``first_difference`` takes it.
    """

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], scope: Run) -> None:
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
        self._function = function
        self._leaves, self._tree = jax.tree_util.tree_flatten_with_path(args)
        if any(isinstance(leaf, jax.ShapeDtypeStruct) for _, leaf in self._leaves):
            raise TypeError(
                "first_difference(): an argument is a jax.ShapeDtypeStruct, with which a program "
                "can be audited, not run. Pass arrays"
            )
        self._scope = scope

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

    def _arrays(self) -> list[Any]:
        arrays = [leaf for _, leaf in self._leaves if _is_array(leaf)]
        on_device = isinstance(self._scope, jax.Device)
        return jax.device_put(arrays, self._scope) if on_device else arrays

    def _traced(self) -> tuple[Any, dict[str, Any]]:
        """Returns the closed jaxpr of the program, and its compiler options."""
        function, options = self._function, {}
        full = [leaf for _, leaf in self._leaves]
        if isinstance(function, compilation.Jitted):
            options = function.options()
            function = function.__wrapped__  # type: ignore[attr-defined]
        elif isinstance(function, jax.stages.Wrapped):
            args = jax.tree.unflatten(self._tree, full)
            options = jax_internals.traced_options(function.trace(*args))
            function = getattr(function, "__wrapped__", function)

        def of_arrays(*values: Any) -> Any:
            given = iter(values)
            leaves = [next(given) if _is_array(leaf) else leaf for leaf in full]
            outputs = function(*jax.tree.unflatten(self._tree, leaves))
            return [x for x in jax.tree.leaves(outputs) if hasattr(x, "dtype")]

        return jax.make_jaxpr(of_arrays)(*self._arrays()), options

    def _compiled(
        self, marks: Marks, starts: Mapping[int, int]
    ) -> tuple[Callable[..., jax.Array], tuple[Node, ...]]:
        """Returns the jitted program that computes the words, and their nodes."""
        closed, options = self._traced()
        nodes = Planner(marks, starts).nodes(closed)
        outputs = tuple(f"{i}: {aval.str_short(True)}" for i, aval in enumerate(closed.out_avals))
        ends = _whole("argument", self._names()), _whole("output", outputs)

        def run(*values: Any) -> jax.Array:
            results, words = _digests.evaluate(closed, values, nodes)
            begin, end = _digests.digests(values), _digests.digests(results)
            return _digests.joined([*begin, *words, *end])

        return jax.jit(run, compiler_options=options or None), (ends[0], *nodes, ends[1])

    def _names(self) -> tuple[str, ...]:
        paths = [path for path, leaf in self._leaves if _is_array(leaf)]
        return tuple(f"argument {p[0].idx}{jax.tree_util.keystr(p[1:])}" for p in paths)

    def _marked(self, marks: Marks, starts: Mapping[int, int]) -> Recording:
        program, nodes = self._compiled(marks, starts)
        words = np.asarray(program(*self._arrays()))
        if words.size != sum(node.words for node in nodes):
            raise AssertionError("the marks of a program are not those of its plan")
        return Recording(marks, _setting(), nodes, words, np.zeros(0, np.uint32))

    def _plain(self) -> Words:
        closed, options = self._traced()
        program = jax.jit(jaxpr_as_fun(closed), compiler_options=options or None)
        outputs = program(*self._arrays())
        return np.asarray(jax.jit(lambda *x: _digests.joined(_digests.digests(x)))(*outputs))


def _is_array(leaf: Any) -> bool:
    # A scalar of NumPy may be an argument that ``jax.jit`` got as a static one.
    return is_array(leaf) and not isinstance(leaf, np.generic)


def _whole(kind: Literal["argument", "output"], names: tuple[str, ...]) -> Node:
    return Node(Mark(kind, kind, "", None, (), "", "", names), marked=bool(names))


def _setting() -> str:
    device = jax.devices()[0]
    return f"jax {jax.__version__} on {device.platform} ({device.device_kind})"


def _node(data: dict[str, Any]) -> Node:
    mark: Any = {k: tuple(v) if isinstance(v, list) else v for k, v in data.pop("mark").items()}
    return Node(Mark(**mark), inner=tuple(map(_node, data.pop("inner"))), **data)


def _compared(
    recordings: Sequence[Recording], marks: Marks
) -> tuple[Difference | None, tuple[int, int] | None]:
    """Returns the first difference, and the loop and iteration in which to look once more."""
    first, second = recordings
    comparison = Comparison(marks)
    difference = comparison.first(first.nodes, second.nodes, (first.words, second.words))
    return difference, comparison.unsure

"""Runs a program in a scope, with a digest of each mark, or without marks.

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
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import jax
import numpy as np

from impl._core import jax_internals
from impl._core.jax_internals import jaxpr_as_fun
from impl._mode import compilation, modes
from impl._reading.tracing import is_array
from impl._run_to_run.rules import in_words
from impl.programs._differences import digests
from impl.programs._differences.comparison import Words
from impl.programs._differences.marks import Mark, Marks, Node, Planner, windows
from impl.programs._differences.progress import Progress
from impl.programs._differences.recording import Recording, setting

#: One of the two runs: see ``impl.first_difference``.
Run: TypeAlias = Any
Result = TypeVar("Result")
#: A compiled program, and what it was compiled from.
Executables: TypeAlias = dict[Any, Callable[..., Any]]


class Program:
    """A program in one scope.

    Args:
        function: The program.
        args: Its arguments.
        kwargs: Its named arguments.
        scope: The scope, as ``first_difference`` takes it.
        name: How steps of progress call the run.
        compiled: The programs that are compiled already, to which this one adds its own.
        progress: Where to state each step.
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
        if any(isinstance(leaf, jax.ShapeDtypeStruct) for _, leaf in self._leaves):
            raise TypeError(
                "first_difference(): an argument is a jax.ShapeDtypeStruct, with which a program "
                "can be audited, not run. Pass arrays"
            )
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
        if jax_internals.is_jitted(function):
            args, kwargs = jax.tree.unflatten(self._tree, full)
            options = {**jax_internals.traced_options(function.trace(*args, **kwargs)), **options}
            function = function.__wrapped__  # type: ignore[attr-defined]

        # ``nnx.jit`` changes the state of a model that is not a tree of arrays.
        constant = copy.deepcopy if isinstance(function, jax.stages.Wrapped) else _itself

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
        key = stablehlo, *map(repr, (options, shardings, jax_internals.settings()))
        if "callback" in stablehlo or key not in self._compiled:
            self._progress.step(f"compiles {self._name}{text}")
            self._compiled[key] = lowered.compile()
        return self._compiled[key]

    def _marked(self, marks: Marks, starts: Mapping[int, int]) -> Recording:
        closed, _ = self.traced()
        nodes = Planner(marks, starts).nodes(closed)
        outputs = tuple(f"{i}: {aval.str_short(True)}" for i, aval in enumerate(closed.out_avals))
        ends = _whole("argument", self._names()), _whole("output", outputs)

        def run(rows: jax.Array, *values: Any) -> jax.Array:
            results, words = digests.evaluate(closed, values, nodes, rows)
            begin, end = digests.digests(values), digests.digests(results)
            return digests.joined([*begin, *words, *end])

        arrays = windows(nodes), *self.arrays()
        count = sum(map(_marks_of, nodes))
        program = self._executable(run, *arrays, text=f" with {count} marks")
        self._progress.step(f"runs {self._name}")
        words = np.asarray(program(*arrays))
        nodes = (ends[0], *nodes, ends[1])
        if words.size != sum(node.words for node in nodes):
            raise AssertionError("a program has other marks than its plan")
        mode = in_words(modes.current())
        return Recording(marks, setting(), mode, nodes, words, np.zeros(0, np.uint32))

    def _names(self) -> tuple[str, ...]:
        return tuple(_named(path) for path, leaf in self._leaves if _is_array(leaf))

    def _plain(self) -> Words:
        closed, _ = self.traced()
        arrays = self.arrays()
        program = self._executable(jaxpr_as_fun(closed), *arrays, text=" without marks")
        self._progress.step(f"runs {self._name} without marks")
        outputs = program(*arrays)
        return np.asarray(jax.jit(lambda *x: digests.joined(digests.digests(x)))(*outputs))


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


def _itself(leaf: Any) -> Any:
    return leaf


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


def _marks_of(node: Node) -> int:
    return int(node.marked) + sum(map(_marks_of, node.inner))

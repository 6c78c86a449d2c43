"""Writes a program that calls an op, from a sample of the suite, and runs it during the build.

A sample knows how to call its op. The call is recorded, and written as a person would write it. So
a new op has an example as soon as it has a sample. The sample ``floating`` of ``index_add`` has
arrays and ``call=lambda ns, x, i, s: ns.index_add(x, 0, i, s)``. It becomes this program, after the
imports::

    random = np.random.default_rng(0)
    input = jnp.asarray(random.normal(size=(7, 3)), "float32")
    index = jnp.asarray(random.integers(0, 6, (2500,)))
    source = jnp.asarray(random.normal(size=(2500, 3)), "float32")

    with impl.deterministic(True, profile="complete"):
        result = impl.index_add(input, 0, index, source)

The last lines of the program print the shape and a digest of the result. A short array of integers
is written with its values. The build shows the output below the program::

    (7, 3) 161017f28547a47c
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import io
import operator
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

import answers
import impl
import spec
import templates
from answers import grouped
from conformance.cases.table import Sample, samples


@dataclasses.dataclass(frozen=True)
class Example:
    """A program, and what it printed as the site was built, or the message of its error."""

    code: str
    output: str


@dataclasses.dataclass(frozen=True)
class _Call:
    """A call of an op as code.

    Attributes:
        text: The call: ``impl.index_add(input, 0, index, source)``.
        arrays: The code of each array, by the name of its variable.
        wrt: The variable to differentiate with respect to.
        is_tuple: Whether the result is several arrays.
    """

    text: str
    arrays: Mapping[str, str]
    wrt: str
    is_tuple: bool


class NoExampleError(Exception):
    """A call that has no short text."""


class _RecordedError(Exception):
    """Ends a sample as soon as it calls its op."""

    def __init__(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        super().__init__()
        self.arguments = args, kwargs


class _Recorder:
    """A namespace of ops that ends the sample where it calls one of them."""

    def __init__(self, op: str, namespace: Any = impl, path: str = "") -> None:
        self._op, self._namespace, self._path = op, namespace, path

    def __getattr__(self, name: str) -> Any:
        path = f"{self._path}.{name}".removeprefix(".")
        value = getattr(self._namespace, name)
        own = self._op == path or self._op.startswith(f"{path}.") or callable(value)
        return _Recorder(self._op, value, path) if own else value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._path == self._op:
            raise _RecordedError(args, kwargs)
        return self._namespace(*args, **kwargs)


class _Writer:
    """Writes arguments; an array becomes a variable with the name of its parameter."""

    def __init__(self) -> None:
        self.arrays: dict[str, str] = {}
        self.values: dict[str, Any] = {}

    def argument(self, name: str, value: Any) -> str:
        """Returns the code of an argument.

        Raises:
            NoExampleError: It has no short code.
        """
        if isinstance(value, (list, tuple)) and any(map(_is_array, jax.tree.leaves(value))):
            parts = [self.argument(f"{name}_{n}", each) for n, each in enumerate(value)]
            return f"[{', '.join(parts)}]" if isinstance(value, list) else f"({', '.join(parts)},)"
        if _is_array(value):
            self.arrays[name] = _code(np.asarray(value))
            self.values[name] = value
            return name
        if isinstance(value, (bool, int, float, str, type(None), list, tuple, slice)):
            return repr(value)
        if isinstance(value, type) and issubclass(value, np.generic):
            return f'"{np.dtype(value)}"'
        raise NoExampleError(f"{name} is a {type(value).__name__}")


def _is_array(value: Any) -> bool:
    return isinstance(value, (jax.Array, np.ndarray))


def _code(value: np.ndarray[Any, Any]) -> str:
    """Returns the code of an array like this one."""
    shape = value.shape
    if value.dtype == bool:
        return f"jnp.asarray(random.integers(0, 2, {shape}), bool)"
    if value.dtype.kind in "iu":
        low, high = (int(value.min()), int(value.max()) + 1) if value.size else (0, 1)
        if value.ndim < 2 and value.size < 9:
            return f"jnp.asarray({value.tolist()})"
        return f"jnp.asarray(random.integers({low}, {high}, {shape}))"
    return f'jnp.asarray(random.normal(size={shape}), "{value.dtype}")'


def _recorded(op: str, sample: Sample) -> _Call:
    """Returns the call that a sample makes of its op."""
    arrays = [jax.numpy.asarray(array) for array in sample.arrays]
    try:
        sample.call(_Recorder(op), *arrays)
    except _RecordedError as recorded:
        args, kwargs = recorded.arguments
    else:
        raise NoExampleError("the op is not called")
    function: Callable[..., Any] = operator.attrgetter(op)(impl)
    names = list(inspect.signature(function).parameters)
    writer = _Writer()
    parts = [writer.argument(name, value) for name, value in zip(names, args, strict=False)]
    parts += [f"{name}={writer.argument(name, value)}" for name, value in kwargs.items()]
    # The variable of the array that is differentiated, or else the first.
    differentiated = None if sample.wrt is None else arrays[sample.wrt]
    wrt = next((n for n, v in writer.values.items() if v is differentiated), "")
    wrt = wrt or next(iter(writer.values), "")
    with impl.deterministic(False):
        result = jax.eval_shape(lambda: function(*args, **kwargs))
    is_tuple = isinstance(result, tuple)
    return _Call(f"impl.{op}({', '.join(parts)})", writer.arrays, wrt, is_tuple)


def _interesting(op: str) -> list[tuple[spec.Direction, Sample]]:
    """Returns the calls of samples, first those that may vary on a GPU with the mode off."""
    varying: list[tuple[spec.Direction, Sample]] = []
    others: list[tuple[spec.Direction, Sample]] = []
    cells = [cell for cell in answers.of_op(op) if cell.guarantee is answers.OFF]
    vary = [cell for cell in cells if cell.word == "may vary"]
    for sample in samples(op):
        for direction in sample.directions:
            found = any(
                cell.direction == direction and any(_agree(sample, facts) for facts in cell.calls)
                for cell in vary
            )
            (varying if found else others).append((direction, sample))
    return varying + others


def _agree(sample: Sample, facts: spec.Facts) -> bool:
    return all(sample.facts.get(name, value) == value for name, value in facts.items())


@functools.cache
def _first(op: str) -> tuple[spec.Direction, _Call] | None:
    """Returns the first call that can be written."""
    for direction, sample in _interesting(op):
        with contextlib.suppress(NoExampleError):
            return direction, _recorded(op, sample)
    return None


def example(op: str) -> Example | None:
    """Returns a program that calls an op in the project's own profile, and the program's output."""
    first = _first(op)
    profile = spec.load().own_profile
    if first is None or profile is None:
        return None
    direction, call = first
    code = templates.render("example.txt", call=call, direction=direction, profile=profile)
    return Example(code, _output(code))


def error(op: str, profile: str) -> Example | None:
    """Returns a program that raises the error of an op on a GPU, and the message.

    It is None if no sample raises.
    """
    for direction, sample in _interesting(op):
        if spec.resolve(op, direction, "cuda", sample.facts, profile).behaviour != "raise":
            continue
        code = ""
        with contextlib.suppress(NoExampleError):
            facts = {"direction": direction, "profile": profile}
            code = templates.render("error.txt", call=_recorded(op, sample), **facts)
        try:
            if code:
                _output(code)
            else:
                arrays = [jax.numpy.asarray(array) for array in sample.inputs(direction)]
                with impl.deterministic(True, profile=profile):
                    impl.testing.lower(sample.function(impl, direction), *arrays)
        except RuntimeError as raised:
            return Example(code, f"RuntimeError: {raised}")
    return None


def errors(op: str) -> Mapping[str, Example]:
    """Returns an example of each error that the op raises, by the profile."""
    found: dict[str, Example] = {}
    seen: list[set[str]] = []
    said = grouped(
        (str(cell.profile), cell.sentence)
        for cell in answers.of_op(op)
        if cell.guarantee == "run_to_run" and cell.word == "raises"
    )
    default = spec.load().default_profile
    for profile in sorted(said, key=lambda name: name != default):
        example = error(op, profile) if set(said[profile]) not in seen else None
        if example is not None:
            seen.append(set(said[profile]))
            found[profile] = example
    return found


def _output(code: str) -> str:
    """Runs a program and returns what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<example>", "exec"), {})  # noqa: S102  # our own text
    return printed.getvalue()

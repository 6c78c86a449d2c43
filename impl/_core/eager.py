"""Calls outside of any trace: an op is traced and compiled once for each signature.

An op is a Python function that checks its arguments, asks for a decision and binds several
primitives. Outside of ``jit`` each of these steps took time at each call. ``compiled`` keeps one
``jax.jit`` program for each signature: for the function, the shapes and dtypes of arrays, the other
arguments, and JAX's trace context, which holds the mode and every other setting that a trace reads.

What depends on values stays outside of the program. A check of values is recorded while the
program is traced, and runs at each call (``when_known``). An op whose result depends on values in
another way, and a call that warns, is not compiled (``refuse``): it runs as it is written. So does
a call whose program raises, so that an error is the one that the op raises.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import EllipsisType
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from impl._core import jax_internals

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: A check of the values of arrays; it raises if one is wrong.
Check = Callable[..., None]

#: The signatures that are kept. The one that was used longest ago goes first.
SIGNATURES = 2048
#: The signatures of one op that differ in their numbers, flags and names alone. A call in a loop
#: whose argument differs in each step would compile a program for each; beyond this many, it runs
#: as it is written.
VARIANTS = 64

_PLAIN = frozenset({int, bool, str, type(None), EllipsisType})
#: Stands in a key before the structure of a sparse matrix; it is no type of an argument.
_STRUCTURE = jax.tree_util.PyTreeDef
_array_type = jax_internals.ARRAY


class _Refused(Exception):  # noqa: N818  # It tells the caller, and is no error.
    """The op cannot be compiled for this signature."""


class _Trace:
    """The trace of a program: its operands, and the checks of values that it recorded."""

    def __init__(self, operands: tuple[Any, ...]) -> None:
        self._operands = operands
        self.checks: list[tuple[Check, tuple[int, ...]]] = []

    def defer(self, check: Check, values: tuple[Any, ...]) -> None:
        """Records a check of operands, for each call.

        Raises:
            _Refused: A value is no operand, but computed from operands.
        """
        positions = []
        for value in values:
            found = [i for i, operand in enumerate(self._operands) if operand is value]
            if not found:
                raise _Refused
            positions.append(found[0])
        self.checks.append((check, tuple(positions)))


class _Thread(threading.local):
    """The trace of an eager call that this thread is in."""

    trace: _Trace | None = None


_thread = _Thread()
_as_written: ContextVar[bool] = ContextVar("_as_written", default=False)


@contextlib.contextmanager
def as_written() -> Iterator[None]:
    """A scope of this thread in which every op runs as it is written, at each call."""
    token = _as_written.set(True)
    try:
        yield
    finally:
        _as_written.reset(token)


def compiled(
    function: Callable[Parameters, Result],
    *,
    setting: Callable[[], str] | None = None,
) -> Callable[Parameters, Result]:
    """Returns an op that compiles its calls outside of any trace, and keeps the programs.

    Under ``jit``, ``grad``, ``vmap`` and in every other trace, it is the function itself. Nested
    functions may not keep state between calls, since they run when a program is traced.

    Args:
        function: The op. Its arguments are arrays, numbers, strings and None, or tuples, lists and
            slices of them; with any other argument it runs as it is written.
        setting: Reads what the op depends on beside its arguments and JAX's trace context.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not jax_internals.is_plain_call() or _as_written.get():
            return function(*args, **kwargs)
        key: list[Any] = []
        leaves: list[Any] = []
        for value in args:
            kind = type(value)
            if kind is _array_type:
                key += (value.shape, value.dtype)
                leaves.append(value)
            elif kind in _PLAIN:
                key += (kind, value)
            elif not _add(value, key, leaves):
                return function(*args, **kwargs)
        for name, value in kwargs.items():
            key.append(name)
            if not _add(value, key, leaves):
                return function(*args, **kwargs)
        if setting is not None:
            key += ("", setting())
        program = _program(function, jax_internals.trace_context(), tuple(key))
        if program.refused:
            return function(*args, **kwargs)
        try:
            out = program.run(*leaves)
        except Exception:  # noqa: BLE001, S110  # The function itself raises what it should raise.
            pass
        else:
            if program.checks:
                program.check(leaves)
            return out
        return program.instead(args, kwargs)

    return call


def when_known(check: Check, *values: Any) -> None:
    """Calls a check with the values of arrays, as NumPy arrays, if they are known.

    In an eager call they are: the check then runs at each call. Under ``jit`` they are not.

    Args:
        check: The check; it raises if a value is wrong. It may keep no array.
        *values: The arrays.
    """
    if _thread.trace is not None and any(isinstance(v, jax.core.Tracer) for v in values):
        _thread.trace.defer(check, values)
    elif all(map(is_known, values)):
        check(*map(np.asarray, values))


def refuse() -> None:
    """Says that the call that is traced depends on more than a program can know.

    Outside of the trace of an eager call, this does nothing.
    """
    if _thread.trace is not None:
        raise _Refused


def is_known(value: Any) -> bool:
    """Returns whether this process knows the values of an array."""
    return not isinstance(value, jax.core.Tracer) and getattr(value, "is_fully_addressable", True)


class _Program:
    """The program of one signature.

    Attributes:
        run: The compiled function of the arrays alone.
        checks: The checks of values that each call makes, and the positions of their arrays.
        refused: Whether the op runs as it is written.
    """

    def __init__(self, function: Callable[..., Any], key: tuple[Any, ...]) -> None:
        self._function = function
        self._key = key
        self.checks: list[tuple[Check, tuple[int, ...]]] = []
        self.refused = False

        def run(*leaves: Any) -> Any:
            return self._traced(leaves)

        run.__name__ = run.__qualname__ = function.__name__
        self.run = jax.jit(run)

    def _traced(self, leaves: tuple[Any, ...]) -> Any:
        if not all(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise _Refused  # under jax.disable_jit
        args, kwargs = _arguments(self._key, iter(leaves))
        outer, _thread.trace = _thread.trace, _Trace(leaves)
        try:
            out = self._function(*args, **kwargs)
            self.checks = _thread.trace.checks
        finally:
            _thread.trace = outer
        return out

    def check(self, leaves: list[Any]) -> None:
        """Runs the checks of a call, on the arrays that this process can read."""
        for check, positions in self.checks:
            try:
                values = [np.asarray(leaves[position]) for position in positions]
            except RuntimeError:  # Parts of the array are in another process.
                continue
            check(*values)

    def instead(self, args: Any, kwargs: Any) -> Any:
        """Runs the function as it is written, after the program raised."""
        out = self._function(*args, **kwargs)
        self.refused = True
        return out


@functools.lru_cache(maxsize=SIGNATURES)
def _program(function: Callable[..., Any], context: Any, key: tuple[Any, ...]) -> _Program:
    """Returns the program of a signature; ``context`` is a part of it."""
    program = _Program(function, key)
    arrays = tuple(part for part in key if isinstance(part, tuple))
    program.refused = next(_counter((function, context, arrays))) >= VARIANTS
    return program


@functools.lru_cache(maxsize=SIGNATURES)
def _counter(_: Any) -> Iterator[int]:
    """Returns the counter of what signatures with the same function and shapes have in common."""
    return itertools.count()


def clear() -> None:
    """Forgets all programs."""
    _program.cache_clear()
    _counter.cache_clear()


def _add(value: Any, key: list[Any], leaves: list[Any]) -> bool:
    """Adds one argument to the key and its arrays to the leaves; returns whether that is possible.

    Equal keys stand for equal calls: a number comes with its type, and a float with all its bits.
    """
    kind = type(value)
    if kind is _array_type:
        key += (value.shape, value.dtype)
        leaves.append(value)
    elif kind in _PLAIN:
        key += (kind, value)
    elif kind is float:
        key += (float, value.hex())
    elif kind is tuple or kind is list:
        key += (kind, len(value))
        return all(_add(item, key, leaves) for item in value)
    elif kind is slice:
        key.append(slice)
        return all(_add(item, key, leaves) for item in (value.start, value.stop, value.step))
    elif kind is np.ndarray:
        # JAX narrows other dtypes, and an op may look at what they were.
        if not jax_internals.keeps_dtype(value.dtype):
            return False
        key += (value.shape, value.dtype)
        leaves.append(value)
    elif isinstance(value, np.dtype | type) and jax_internals.keeps_dtype(value):
        key += (np.dtype, value)
    elif kind.__module__.startswith("jax.experimental.sparse"):
        parts, structure = jax.tree.flatten(value)
        key += (_STRUCTURE, (structure, len(parts)))
        return all(_add(part, key, leaves) for part in parts)
    else:
        return False
    return True


def _arguments(key: tuple[Any, ...], leaves: Iterator[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Returns the arguments of a call from its key and its arrays."""
    args, kwargs = [], {}
    parts = iter(key)
    for part in parts:
        if not isinstance(part, str):
            args.append(_argument(part, parts, leaves))
        elif part:
            kwargs[part] = _argument(next(parts), parts, leaves)
        else:
            next(parts)
    return args, kwargs


def _argument(part: Any, parts: Iterator[Any], leaves: Iterator[Any]) -> Any:
    if isinstance(part, tuple):
        next(parts)
        return next(leaves)
    if part is slice:
        return slice(*(_argument(next(parts), parts, leaves) for _ in range(3)))
    value = next(parts)
    if part is _STRUCTURE:
        structure, count = value
        return structure.unflatten(_argument(next(parts), parts, leaves) for _ in range(count))
    if part is float:
        return float.fromhex(value)
    if part is tuple or part is list:
        return part([_argument(next(parts), parts, leaves) for _ in range(value)])
    return value

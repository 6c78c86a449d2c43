"""Calls outside of any trace: an op is traced and compiled once for each signature.

An op is a Python function that checks its arguments, asks for a decision and binds several
primitives. Outside of ``jit`` each of these steps took time at each call. ``compiled`` keeps one
function in ``jax.jit`` for each op and each set of arguments that are no arrays. JAX itself tells
apart shapes, dtypes, shardings, the mode and every other setting that a trace reads.

What depends on values stays outside of the program. A check of values is recorded while the
program is traced; it comes with the result of the program, and runs at each call (``when_known``).
A number that shapes depend on is read at each call, and the op is compiled for each (``ask``). An
op whose result depends on values in another way, and a call that warns, is not compiled
(``refuse``): it runs as it is written. So does a call whose program raises, so that an error is the
one that the op raises.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from impl._core import eager_keys, jax_internals
from impl._core.eager_keys import ARRAY, PLAIN

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: A check of the values of arrays; it raises if one is wrong.
Check = Callable[..., None]
#: A faster test of an array as it was given; where it returns False, the check decides.
Test = Callable[[Any], bool]
#: Returns the test of arrays like a traced one; None if no test is faster.
MakesTest = Callable[[Any], Test | None]
#: Reads from the values of an array, and from nothing else, what a program depends on.
Read = Callable[[Any], Hashable]
#: All checks of a program, as one function of its operands.
Checks = Callable[[Sequence[Any]], None]

#: The most functions that are kept. The one that was used longest ago goes first.
FUNCTIONS = 2048
#: The calls of one op, with arrays of the same types, that differ in their numbers, flags and names
#: alone. A call in a loop whose argument differs in each step would compile a program for each;
#: beyond this many, it runs as it is written.
VARIANTS = 64


class _Refused(Exception):  # noqa: N818  # It tells the caller, and is no error.
    """The op cannot be compiled for this signature."""


class _Asks(Exception):  # noqa: N818  # It tells the caller, and is no error.
    """The program depends on something that is read from the values of an operand."""

    def __init__(self, read: Read, position: int) -> None:
        self.question = (read, position)


class _Trace:
    """The trace of a program: its operands, and the checks of values that it recorded."""

    def __init__(self, operands: tuple[Any, ...], answers: tuple[Hashable, ...]) -> None:
        self._operands = operands
        self._answers = iter(answers)
        self._checks: list[Checks] = []

    def ask(self, read: Read, value: Any) -> Any:
        """Returns what is read from the values of an operand.

        Raises:
            _Asks: This trace does not know it.
            _Refused: The value is no operand.
        """
        (position,) = self._positions((value,))
        for answer in self._answers:
            return answer
        raise _Asks(read, position)

    def defer(self, check: Check, values: tuple[Any, ...], faster: MakesTest | None) -> None:
        """Records a check of operands, for each call.

        Raises:
            _Refused: A value is no operand, but computed from operands.
        """
        test = None if faster is None else faster(values[0])
        self._checks.append(_check_of_operands(check, self._positions(values), test))

    def _positions(self, values: tuple[Any, ...]) -> tuple[int, ...]:
        """Returns the positions of values among the operands."""
        operands = {id(operand): i for i, operand in enumerate(self._operands)}
        if any(id(value) not in operands for value in values):
            raise _Refused
        return tuple(operands[id(value)] for value in values)

    def checks(self) -> Checks | None:
        """Returns all recorded checks as one function; None if there are none."""
        if len(self._checks) <= 1:
            return self._checks[0] if self._checks else None
        checks = tuple(self._checks)

        def run(operands: Sequence[Any]) -> None:
            for check in checks:
                check(operands)

        return run


def _check_of_operands(check: Check, positions: tuple[int, ...], test: Test | None) -> Checks:
    """Returns a check of the values at some positions among the operands of a program."""

    def run(operands: Sequence[Any]) -> None:
        try:
            values = [np.asarray(operands[position]) for position in positions]
        except RuntimeError:  # Parts of the array are in another process.
            return
        check(*values)

    if test is None:
        return run
    first = positions[0]

    def run_if_it_may_raise(operands: Sequence[Any]) -> None:
        if not test(operands[first]):
            run(operands)

    return run_if_it_may_raise


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
    setting: Callable[[], Hashable] | None = None,
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
        # The usual kinds stand here too, which saves a call of Python for each argument.
        for value in args:
            kind = type(value)
            if kind is ARRAY:
                key.append(kind)
                leaves.append(value)
            elif kind in PLAIN:
                key += (kind, value)
            elif not eager_keys.add(value, key, leaves):
                return function(*args, **kwargs)
        for name, value in kwargs.items():
            key.append(name)
            if not eager_keys.add(value, key, leaves):
                return function(*args, **kwargs)
        if setting is not None:
            key += ("", setting())
        program = _program(function, tuple(key))
        while program.question is not None:
            program = program.answered(program.question, leaves)
        try:
            result = program.run(*leaves)
        except Exception:  # noqa: BLE001, S110  # The function itself raises what it should raise.
            pass
        else:
            if result.checks is _run_as_written:
                return function(*args, **kwargs)
            if result.checks is not None:
                result.checks(leaves)
            return result.out
        if program.question is not None:  # It was asked just now.
            return call(*args, **kwargs)
        return program.instead(leaves, args, kwargs)

    return call


def when_known(check: Check, *values: Any, faster: MakesTest | None = None) -> None:
    """Calls a check with the values of arrays, as NumPy arrays, if they are known.

    In an eager call they are: the check then runs at each call. Under ``jit`` they are not.

    Args:
        check: The check; it raises if a value is wrong. It may keep no array.
        *values: The arrays.
        faster: Makes a test of arrays like the first. In an eager call, the check is not called if
            the test returns True for that array, as it was given.
    """
    if _thread.trace is not None and any(isinstance(v, jax.core.Tracer) for v in values):
        _thread.trace.defer(check, values, faster)
    elif all(map(is_known, values)):
        check(*map(np.asarray, values))


def ask(read: Read, value: Any) -> Any:
    """Returns what is read from the values of an array; None if they are not known.

    In an eager call they are: the op is compiled for each thing that is read.

    Args:
        read: Reads it, which is hashable, from the values as a NumPy array.
        value: The array.
    """
    if _thread.trace is not None and isinstance(value, jax.core.Tracer):
        return _thread.trace.ask(read, value)
    return read(np.asarray(value)) if is_known(value) else None


def refuse() -> None:
    """Says that the call that is traced depends on more than a program can know.

    Outside of the trace of an eager call, this does nothing.
    """
    if _thread.trace is not None:
        raise _Refused


def is_known(value: Any) -> bool:
    """Returns whether this process knows the values of an array."""
    return not isinstance(value, jax.core.Tracer) and getattr(value, "is_fully_addressable", True)


class _Result:
    """What a program returns. JAX keeps the checks with the program that they belong to.

    Attributes:
        out: The result of the op.
        checks: The checks of values that each call makes; None if there are none.
    """

    __slots__ = ("checks", "out")

    def __init__(self, checks: Checks | None, children: tuple[Any]) -> None:
        self.checks = checks
        (self.out,) = children


def _run_as_written(_: Sequence[Any]) -> None:
    """Stands, among the results of a program, for the checks of an op that is not compiled."""


jax.tree_util.register_pytree_node(_Result, lambda result: ((result.out,), result.checks), _Result)


class _Program:
    """The programs of an op for one set of arguments that are no arrays.

    Args:
        function: The op.
        key: The arguments.
        answers: What the op asked for.

    Attributes:
        question: What the op asks for next, and the position of the array; None if it does not ask.
        run: The function of the arrays alone, in ``jax.jit``. It returns a ``_Result``.
    """

    def __init__(
        self, function: Callable[..., Any], key: tuple[Any, ...], answers: tuple[Hashable, ...]
    ) -> None:
        self._function = function
        self._key = key
        self._answers = answers
        self.question: tuple[Read, int] | None = None
        self._refused: set[Any] = set()

        def run(*leaves: Any) -> Any:
            return self._traced(leaves)

        run.__name__ = run.__qualname__ = function.__name__
        self.run = jax.jit(run)

    def _traced(self, leaves: tuple[Any, ...]) -> _Result:
        if not all(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise _Refused  # under jax.disable_jit
        if _signature(leaves) in self._refused:
            return _Result(
                _run_as_written, (None,)
            )  # Cached like a program, so that the next call is fast.
        variants = _variants(self._function, tuple(map(jax.typeof, leaves)))
        variant = (self._key, self._answers)
        if variant not in variants and len(variants) >= VARIANTS:
            raise _Refused
        args, kwargs = eager_keys.arguments(self._key, iter(leaves))
        outer, _thread.trace = _thread.trace, _Trace(leaves, self._answers)
        try:
            out = self._function(*args, **kwargs)
            checks = _thread.trace.checks()
        except _Asks as asks:
            self.question = asks.question
            raise
        finally:
            _thread.trace = outer
        variants.add(variant)
        return _Result(checks, (out,))

    def answered(self, question: tuple[Read, int], leaves: list[Any]) -> _Program:
        """Returns the programs of the op for the answer to its question."""
        read, position = question
        try:
            answer = read(np.asarray(leaves[position]))
        except RuntimeError:  # Parts of the array are in another process.
            answer = None
        return _program(self._function, self._key, (*self._answers, answer))

    def instead(self, leaves: list[Any], args: Any, kwargs: Any) -> Any:
        """Runs the function as it is written, after the program raised."""
        out = self._function(*args, **kwargs)
        if len(self._refused) >= FUNCTIONS:
            self._refused.clear()
        self._refused.add(_signature(leaves))
        return out


def _signature(leaves: Sequence[Any]) -> Any:
    """Returns what JAX's trace of a program of these arrays depends on, as a hashable value."""
    return jax_internals.trace_context(), tuple((leaf.shape, leaf.dtype) for leaf in leaves)


@functools.lru_cache(maxsize=FUNCTIONS)
def _program(
    function: Callable[..., Any], key: tuple[Any, ...], answers: tuple[Hashable, ...] = ()
) -> _Program:
    """Returns the programs of an op for the arguments that a key stands for."""
    return _Program(function, key, answers)


@functools.lru_cache(maxsize=FUNCTIONS)
def _variants(_: Callable[..., Any], __: tuple[Any, ...]) -> set[tuple[Any, ...]]:
    """Returns the keys and answers with which an op was compiled for arrays of these types."""
    return set()


def clear() -> None:
    """Forgets all programs."""
    _program.cache_clear()
    _variants.cache_clear()

"""Calls outside of any trace: an op is traced and compiled once for each signature.

An op is a Python function that checks its arguments, asks for a decision and binds several
primitives. Outside of ``jit`` each of these steps would take time at each call. ``compiled`` keeps
one function in ``jax.jit`` for each op and each set of arguments that are not arrays. JAX itself
distinguishes shapes, dtypes, shardings, the mode and every other setting that a trace reads.

A program cannot know values, so values are handled outside of it, in one of three ways:

- ``when_known``: a check of values is recorded while the program is traced. It comes with the
  result of the program, and runs at each call.
- ``ask``: something that shapes depend on, such as the greatest length, is read at each call. The
  op is compiled for each answer.
- ``refuse``: an op whose result depends on values in another way, and a call that warns, is not
  compiled. The function runs as it is written.

A ``_Program`` stands for the arguments that are not arrays, and the answers so far. Its states:

    tracing --- the op returns ------------> compiled: runs, then its checks of values run
       |------- ``ask``, no answer left ---> asking, for these types of arrays: reads the answer;
       |                                     goes on with the program for the same arguments and one
       |                                     more answer (tracing)
       `------- the op raises, or refuses -> the function runs as written, so that an error is the
                                             op's own. If the function returns, these types of
                                             arrays are refused: it runs as written from now on.

Concatenated targets of ``ctc_loss`` are padded to the greatest of their lengths, so the op asks for
it, and for the sum. With lengths [3, 5], the program without answers is tracing, asks, and is
asking from then on. The answer is 5 and 8: the program with this answer is tracing, and is compiled
for targets of 5 labels. A call with [5, 3] runs it too; a call with [4, 4] has the answer 4 and 8,
and a program of its own.

``ask`` and ``refuse`` are called in the middle of an op, so only an exception can leave the trace.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextvars import ContextVar
from types import EllipsisType
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from impl import _jax
from impl._jax import ARRAY

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

#: A check of the values of arrays; it raises if a value is wrong.
Check = Callable[..., None]
#: A faster test of an array as the caller passed it; where it returns False, the check decides.
Test = Callable[[Any], bool]
#: Returns the test of arrays of the type of a traced one; None if no test is faster.
MakesTest = Callable[[Any], Test | None]
#: Reads a value that a program depends on from the values of an array, and from nothing else.
Read = Callable[[Any], Hashable]
#: The function that reads, and the position of its operand.
Question = tuple[Read, int]
#: All checks of a program, as one function of its operands.
Checks = Callable[[Sequence[Any]], None]

#: The greatest number of functions in the cache. The least recently used is dropped first.
FUNCTIONS = 2048
#: The greatest number of programs of one op for arrays of the same types, which differ in numbers,
#: flags and names. A loop whose argument differs in each step would compile a program in each step;
#: beyond this number, the function runs as it is written.
VARIANTS = 64


#: The types of arguments whose equal values are interchangeable.
_PLAIN = frozenset({int, bool, str, type(None), EllipsisType})
#: The mark of a sparse matrix, before its structure; no argument has this type.
_STRUCTURE = jax.tree_util.PyTreeDef


class _Refused(Exception):  # noqa: N818  # It leaves a trace, and is not an error.
    """The op cannot be compiled for this signature."""


class _Asks(Exception):  # noqa: N818  # It leaves a trace, and is not an error.
    """The program depends on something that has to be read from the values of an operand."""

    def __init__(self, read: Read, position: int) -> None:
        self.question = (read, position)


class _Trace:
    """The trace of a program: its operands, and the checks of values that it recorded."""

    def __init__(self, operands: tuple[Any, ...], answers: tuple[Hashable, ...]) -> None:
        self._operands = operands
        self._answers = iter(answers)
        self._checks: list[Checks] = []

    def ask(self, read: Read, value: Any) -> Any:
        """Returns the answer to a question about the values of an operand.

        Raises:
            _Asks: This trace has no answer yet.
            _Refused: The value is not an operand.
        """
        (position,) = self._positions((value,))
        for answer in self._answers:
            return answer
        raise _Asks(read, position)

    def defer(self, check: Check, values: tuple[Any, ...], faster: MakesTest | None) -> None:
        """Records a check of operands, for each call.

        Raises:
            _Refused: A value is not an operand, but computed from operands.
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
    function: Callable[Parameters, Result], *, setting: Callable[[], Hashable] | None = None
) -> Callable[Parameters, Result]:
    """Returns an op that compiles its calls outside of any trace, and caches the programs.

    Under ``jit``, ``grad``, ``vmap`` and in every other trace, a call of the op is a call of the
    function itself. The function may not keep state between calls, since it runs only when a
    program is traced.

    Args:
        function: The op. Its arguments are arrays, numbers, strings and None, or tuples, lists and
            slices of them; with any other argument it runs as it is written.
        setting: Reads a setting that the op depends on, besides its arguments and JAX's trace
            context.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not _jax.is_plain_call() or _as_written.get():
            return function(*args, **kwargs)
        key: list[Any] = []
        leaves: list[Any] = []
        # The usual kinds are handled here too, which saves a call of Python for each argument.
        for value in args:
            kind = type(value)
            if kind is ARRAY:
                key.append(kind)
                leaves.append(value)
            elif kind in _PLAIN:
                key += (kind, value)
            elif not _add_to_key(value, key, leaves):
                return function(*args, **kwargs)
        for name, value in kwargs.items():
            key.append(name)
            if not _add_to_key(value, key, leaves):
                return function(*args, **kwargs)
        if setting is not None:
            key += ("", setting())
        program = _program(function, tuple(key))
        try:
            result = program.run(*leaves)
            while result.question is not None:
                program = program.answered(result.question, leaves)
                result = program.run(*leaves)
        except Exception:  # noqa: BLE001  # The function raises the error itself, as written.
            return program.instead(leaves, args, kwargs)
        if result.is_refused:
            return function(*args, **kwargs)
        if result.checks is not None:
            result.checks(leaves)
        return result.out

    return call


def _add_to_key(value: Any, key: list[Any], leaves: list[Any]) -> bool:
    """Adds an argument to the key and its arrays to the leaves; returns whether it can.

    Equal keys stand for equal calls: a number comes with its type, and a float with all its bits.
    The call ``f(x, 1, [2.5, y], dim=None)`` of arrays ``x`` and ``y`` has the leaves ``[x, y]`` and
    the key ``(ARRAY, int, 1, list, 2, float, "0x1.4p+1", ARRAY, "dim", NoneType, None)``.
    """
    kind = type(value)
    if kind is ARRAY:
        key.append(kind)
        leaves.append(value)
    elif kind in _PLAIN:
        key += (kind, value)
    elif kind is float:
        key += (float, value.hex())
    elif kind is tuple or kind is list:
        key += (kind, len(value))
        return all(_add_to_key(item, key, leaves) for item in value)
    elif kind is slice:
        key.append(slice)
        return all(_add_to_key(item, key, leaves) for item in (value.start, value.stop, value.step))
    elif kind is np.ndarray:
        # JAX narrows other dtypes, and an op may look at the original dtype.
        if not _jax.keeps_dtype(value.dtype):
            return False
        key.append(ARRAY)
        leaves.append(value)
    elif isinstance(value, np.dtype | type) and _jax.keeps_dtype(value):
        key += (np.dtype, value)
    elif kind.__module__.startswith("jax.experimental.sparse"):
        parts, structure = jax.tree.flatten(value)
        key += (_STRUCTURE, (structure, len(parts)))
        return all(_add_to_key(part, key, leaves) for part in parts)
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
    if part is ARRAY:
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


def when_known(check: Check, *values: Any, faster: MakesTest | None = None) -> None:
    """Calls a check with the values of arrays, as NumPy arrays, if the values are known.

    In an eager call they are known, and the check runs at each call. Under ``jit`` they are not.

    Args:
        check: The check; it raises if a value is wrong. It may hold no reference to an array.
        *values: The arrays.
        faster: Makes a test of arrays of the type of the first. In an eager call, the check is not
            called if the test returns True for that array, as the caller passed it.
    """
    if _thread.trace is not None and any(isinstance(v, jax.core.Tracer) for v in values):
        _thread.trace.defer(check, values, faster)
    elif all(map(is_known, values)):
        check(*map(np.asarray, values))


def ask(read: Read, value: Any) -> Any:
    """Returns the answer that is read from the values of an array; None if they are not known.

    In an eager call they are known, and the op is compiled for each answer. ``read`` takes the
    values as a NumPy array, and returns a hashable answer.
    """
    if _thread.trace is not None and isinstance(value, jax.core.Tracer):
        return _thread.trace.ask(read, value)
    return read(np.asarray(value)) if is_known(value) else None


def refuse() -> None:
    """Marks the current call as not compilable: it depends on more than a program can know.

    Outside of the trace of an eager call, this does nothing.
    """
    if _thread.trace is not None:
        raise _Refused


def is_known(value: Any) -> bool:
    """Returns whether this process knows the values of an array."""
    return not isinstance(value, jax.core.Tracer) and getattr(value, "is_fully_addressable", True)


@dataclasses.dataclass(slots=True)
class _Result:
    """The result of a program, a pytree. JAX keeps its static part with the program.

    Attributes:
        out: The result of the op.
        checks: The checks of values that each call makes; None for no checks. Static.
        is_refused: Whether the function runs as written in place of this program. Static.
        question: The next question of the op; None if it does not ask. Static.
    """

    out: Any = None
    checks: Checks | None = None
    is_refused: bool = False
    question: Question | None = None


jax.tree_util.register_dataclass(_Result, ["out"], ["checks", "is_refused", "question"])


class _Program:
    """The programs of an op for one set of arguments that are not arrays, ``key``.

    ``answers`` are the answers to the questions that the op asked so far.

    Attributes:
        run: The function of the arrays alone, in ``jax.jit``. It returns a ``_Result``.
    """

    def __init__(
        self, function: Callable[..., Any], key: tuple[Any, ...], answers: tuple[Hashable, ...]
    ) -> None:
        self._function = function
        self._key = key
        self._answers = answers
        self._refused: set[Any] = set()

        def run(*leaves: Any) -> Any:
            return self._traced(leaves)

        run.__name__ = run.__qualname__ = function.__name__
        self.run = jax.jit(run)

    def _traced(self, leaves: tuple[Any, ...]) -> _Result:
        if not all(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
            raise _Refused  # under jax.disable_jit
        if _signature(leaves) in self._refused:
            # JAX caches this like any program, so the next call is fast.
            return _Result(is_refused=True)
        variants = _variants(self._function, tuple(map(jax.typeof, leaves)))
        variant = (self._key, self._answers)
        if variant not in variants and len(variants) >= VARIANTS:
            raise _Refused
        args, kwargs = _arguments(self._key, iter(leaves))
        outer, _thread.trace = _thread.trace, _Trace(leaves, self._answers)
        try:
            out = self._function(*args, **kwargs)
            checks = _thread.trace.checks()
        except _Asks as asks:
            return _Result(question=asks.question)
        finally:
            _thread.trace = outer
        variants.add(variant)
        return _Result(out, checks)

    def answered(self, question: Question, leaves: list[Any]) -> _Program:
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
    """Returns everything that JAX's trace for these arrays depends on, as a hashable value."""
    return _jax.trace_context(), tuple((leaf.shape, leaf.dtype) for leaf in leaves)


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

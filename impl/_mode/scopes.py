"""Scopes: a state of one thread, set by ``with`` or by a decorator, and ended in any sequence.

A user context of JAX restores, at the end of a scope, the value from before it. That is wrong where
scopes do not end in the reverse of the sequence in which they began, as those of asyncio tasks do,
or of generators. A thread here keeps a list of its open scopes, and the last one of them holds.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

from impl._core import jax_internals
from impl._core.jax_internals import tags

Value = TypeVar("Value")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclasses.dataclass
class _Opening(Generic[Value]):
    """A scope that is open in this thread.

    Attributes:
        scope: The scope.
        value: Its value.
        tag_before: The tag of equations that holds again when the scope ends.
    """

    scope: Scope[Value]
    value: Value
    tag_before: Any


class ThreadState(threading.local, Generic[Value]):
    """The open scopes of one user context in this thread.

    Args:
        context: The value that ``jax.make_user_context`` returned.
    """

    def __init__(self, context: Any) -> None:
        self._context = context
        self._open: list[_Opening[Value]] = []
        self._outermost: Any = None

    def begin(self, scope: Scope[Value], value: Value) -> None:
        """Adds a scope, whose value holds from now on."""
        entered = self._context(value)
        entered.__enter__()
        tag = tags.current()
        if jax_internals.is_tracing():
            tags.swap(value)
        if not self._open:
            # Only the exit of this one removes the value of the thread, so that the value of the
            # process holds again. The others are entered and never left.
            self._outermost = entered
        self._open.append(_Opening(scope, value, tag))

    def end(self, scope: Scope[Value]) -> None:
        """Removes the last opening of a scope, wherever it stands in the list.

        Raises:
            RuntimeError: The scope is not open in this thread.
        """
        for position in reversed(range(len(self._open))):
            if self._open[position].scope is scope:
                break
        else:
            raise RuntimeError(
                "a scope has to end in the thread in which it began, but this one is not open in "
                f"the thread {threading.current_thread().name!r}"
            )
        ended = self._open.pop(position)
        if position < len(self._open):
            self._open[position].tag_before = ended.tag_before
        else:
            tags.swap(ended.tag_before)
        if self._open:
            self._context(self._open[-1].value).__enter__()
        else:
            self._outermost.__exit__(None, None, None)


class Scope(Generic[Value]):
    """A context manager and decorator, which can be used any number of times, also inside itself.

    It holds for the thread. While a task of asyncio awaits inside ``with``, it therefore holds for
    the other tasks of the thread too. As the decorator of a generator, of an ``async def`` or of an
    asynchronous generator, it holds while the body runs, and not while the body is suspended.

    Args:
        state: The open scopes of each thread.
        value: Computes the value inside the scope, each time that the scope begins.
    """

    def __init__(self, state: ThreadState[Value], value: Callable[[], Value]) -> None:
        self._state = state
        self._value = value

    def __enter__(self) -> None:
        self._state.begin(self, self._value())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._state.end(self)

    def __call__(self, function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        """Returns ``function``, with its body inside the scope."""
        if not callable(function):
            kind = type(function).__name__
            raise TypeError(f"a scope decorates a function, not {kind}; write 'with' around a call")
        wrapper: Any = _in_scope
        if inspect.iscoroutinefunction(function):
            wrapper = _coroutine_in_scope
        elif inspect.isasyncgenfunction(function):
            wrapper = _async_generator_in_scope
        elif inspect.isgeneratorfunction(function):
            wrapper = _generator_in_scope
        decorated: Callable[Parameters, Result] = functools.wraps(function)(wrapper(self, function))
        return decorated


def _in_scope(scope: Scope[Any], function: Callable[..., Any]) -> Callable[..., Any]:
    def decorated(*arguments: Any, **options: Any) -> Any:
        with scope:
            return function(*arguments, **options)

    return decorated


def _generator_in_scope(
    scope: Scope[Any], function: Callable[..., Generator[Any, Any, Any]]
) -> Callable[..., Generator[Any, Any, Any]]:
    def decorated(*arguments: Any, **options: Any) -> Generator[Any, Any, Any]:
        return (yield from _steps(scope, function(*arguments, **options)))

    return decorated


def _coroutine_in_scope(
    scope: Scope[Any], function: Callable[..., Coroutine[Any, Any, Any]]
) -> Callable[..., Coroutine[Any, Any, Any]]:
    async def decorated(*arguments: Any, **options: Any) -> Any:
        return await _Steps(scope, function(*arguments, **options))

    return decorated


def _async_generator_in_scope(
    scope: Scope[Any], function: Callable[..., AsyncGenerator[Any, Any]]
) -> Callable[..., AsyncGenerator[Any, Any]]:
    async def decorated(*arguments: Any, **options: Any) -> AsyncGenerator[Any, Any]:
        generator = function(*arguments, **options)
        step: Any = generator.asend(None)
        while True:
            try:
                item = await _Steps(scope, step)
            except StopAsyncIteration:
                return
            try:
                step = generator.asend((yield item))
            except GeneratorExit:
                await _Steps(scope, generator.aclose())
                raise
            except BaseException as error:  # noqa: BLE001  # The body of the generator handles it.
                step = generator.athrow(error)

    return decorated


class _Steps:
    """Awaits something, with the scope open in each step of it and closed between the steps."""

    def __init__(self, scope: Scope[Any], steps: Any) -> None:
        self._scope = scope
        self._awaited = steps

    def __await__(self) -> Generator[Any, Any, Any]:
        return _steps(self._scope, self._awaited)


def _steps(scope: Scope[Any], generator: Any) -> Generator[Any, Any, Any]:
    """Delegates to a generator, or to what has its methods, with the scope open in each step."""
    resume, argument = generator.send, None
    while True:
        try:
            with scope:
                item = resume(argument)
        except StopIteration as stop:
            return stop.value
        try:
            resume, argument = generator.send, (yield item)
        except GeneratorExit:
            with scope:
                generator.close()
            raise
        except BaseException as error:  # noqa: BLE001  # The body of the generator handles it.
            resume, argument = generator.throw, error

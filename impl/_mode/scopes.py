"""Scopes: a state of one thread, set by ``with`` or by a decorator, and ended in any sequence.

A user context of JAX restores, at the end of a scope, the value from before the scope. That is
wrong if scopes do not end in reverse order, as with generators:

    a = generator_in_scope_A()      next(a)      open: A          A holds
    b = generator_in_scope_B()      next(b)      open: A, B       B holds
    a.close()                                    open: B          B holds (JAX would restore "none")
    b.close()                                    open: none       (JAX would restore A)

So each thread has a list of its open scopes, and the last scope of the list holds.

A scope that begins while JAX traces tags the equations that are traced in it. A lowering rule runs
when the scope has ended already, and reads the mode of its equation from the tag.

A user context is a state of the thread, so a scope would hold for other tasks of asyncio while its
task awaits. The scope then raises an error: in each task that reads the mode, and at its end.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import inspect
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from typing import Any, Generic, ParamSpec, TypeVar

from impl import _jax
from impl._jax import tags

Value = TypeVar("Value")
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@dataclasses.dataclass
class _Opening(Generic[Value]):
    """A scope that is open in this thread.

    Attributes:
        scope: The scope.
        value: Its value.
        tag_before: The tag of equations that is restored when the scope ends.
        task: The asyncio task that the scope belongs to; None outside of tasks.
        line: The line of source where the scope began, for messages about tasks.
        suspension: A callback of the task's loop, which runs if the task awaits before the end.
        was_suspended: Whether the callback has run.
    """

    scope: Scope[Value]
    value: Value
    tag_before: Any
    task: asyncio.Task[Any] | None = None
    line: str = ""
    suspension: asyncio.Handle | None = None
    was_suspended: bool = False

    def watch(self, task: asyncio.Task[Any]) -> None:
        """Notices when a task awaits while the scope is open."""
        frame = sys._getframe(3)  # noqa: SLF001  # no other access
        self.task, self.line = task, f"{frame.f_code.co_filename}:{frame.f_lineno}"
        # The loop runs callbacks in the order in which they were registered, and the callback that
        # resumes the task is registered later.
        self.suspension = task.get_loop().call_soon(self._suspended)

    def _suspended(self) -> None:
        self.was_suspended = True

    def message(self) -> str:
        """Returns the message of the error about a scope that would hold for other tasks too."""
        name = "" if self.task is None else self.task.get_name()
        return (
            f"the scope of impl.deterministic that began at {self.line} is open while its task "
            f"{name!r} awaits. It would hold for the other tasks of the thread too. End the scope "
            "before each `await`, or decorate the function: @impl.deterministic(...) above "
            "`async def` holds while its body runs, and not while the body awaits"
        )


class ThreadState(threading.local, Generic[Value]):
    """The open scopes, in this thread, of a value that ``jax.make_user_context`` returned."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._open: list[_Opening[Value]] = []
        self._outermost: Any = None
        #: The number of open scopes that belong to an asyncio task.
        self.in_tasks = 0

    def check(self) -> None:
        """Raises an error if a scope of another task is open."""
        task = _task()
        for opening in self._open:
            if opening.task not in (None, task):
                raise RuntimeError(opening.message())

    def begin(self, scope: Scope[Value], value: Value) -> None:
        """Opens a scope, whose value holds from now on."""
        task = _task()
        if self.in_tasks:
            self.check()
        entered = self._context(value)
        entered.__enter__()
        tag = tags.current()
        if _jax.is_tracing():
            tags.swap(value)
        if not self._open:
            # Only the exit of the outermost context removes the value of the thread, so that the
            # value of the process holds again. All later contexts are entered and never left.
            self._outermost = entered
        opening = _Opening(scope, value, tag)
        if task is not None:
            opening.watch(task)
            self.in_tasks += 1
        self._open.append(opening)

    def end(self, scope: Scope[Value], error: BaseException | None = None) -> None:
        """Ends the last opening of a scope, at any position of the list.

        Args:
            scope: The scope.
            error: The error that ends the scope; None for no error.

        Raises:
            RuntimeError: The scope is not open in this thread. Or its task awaited inside of it;
                if ``error`` is given, ``error`` gets a note instead.
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
        if ended.suspension is not None:
            self._end_in_task(ended, ended.suspension, error)

    def _end_in_task(
        self, ended: _Opening[Value], watch: asyncio.Handle, error: BaseException | None
    ) -> None:
        self.in_tasks -= 1
        watch.cancel()
        if ended.was_suspended and error is None:
            raise RuntimeError(ended.message())
        if ended.was_suspended and error is not None:
            error.add_note(ended.message())


def _task() -> asyncio.Task[Any] | None:
    """Returns the task of asyncio that runs in this thread; None outside of tasks."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class Scope(Generic[Value]):
    """A context manager and decorator, which can be used any number of times, also inside itself.

    It holds for the thread, and for the equations of a program that JAX traces inside of it. A task
    of asyncio must not await inside ``with``. As the decorator of a generator, of an ``async def``
    or of an asynchronous generator, it holds while the body runs, and not while the body is
    suspended.

    Args:
        state: The open scopes of each thread.
        value: Computes the value inside the scope, each time that the scope begins.
    """

    def __init__(self, state: ThreadState[Value], value: Callable[[], Value]) -> None:
        self._state = state
        self._value = value

    def __enter__(self) -> None:
        self._state.begin(self, self._value())

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._state.end(self, error)

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
    """Awaits an awaitable, with the scope open in each of its steps and closed between them."""

    def __init__(self, scope: Scope[Any], steps: Any) -> None:
        self._scope = scope
        self._awaited = steps

    def __await__(self) -> Generator[Any, Any, Any]:
        return _steps(self._scope, self._awaited)


def _steps(scope: Scope[Any], generator: Any) -> Generator[Any, Any, Any]:
    """Delegates to a generator or a coroutine, with the scope open in each step."""
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

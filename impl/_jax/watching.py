"""Calls functions for the programs that JAX lowers, compiles and runs."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

from jax._src.interpreters import pxla

from impl._jax import jaxprs


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A program that JAX lowers.

    Attributes:
        closed: The jaxpr, with its constants.
        function: The name, the file and the line of the function, as ``name at file:line``.
        options: The compiler options that ``jax.jit`` got.
    """

    closed: Any
    function: str
    options: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of a compiled program, with the arguments that the program reads, by name.

    ``run`` runs the program, and returns its outputs. It can be called once.
    """

    function: str
    arguments: tuple[tuple[str, Any], ...]
    run: Callable[[], Sequence[Any]]


@contextlib.contextmanager
def watched_programs(
    lowered: Callable[[Lowered], None], called: Callable[[Call], Sequence[Any]] | None = None
) -> Iterator[None]:
    """Watches each program that JAX lowers inside, and each call of a program compiled inside.

    The public ``jax.monitoring`` gives the name of a program at most.

    Args:
        lowered: Is called before a program is lowered, in the thread that lowers it.
        called: Is called in place of a compiled program, and returns the program's outputs. None
            does not watch calls.
    """
    lower, executable = pxla.lower_sharding_computation, cast(Any, pxla.MeshExecutable)
    unsafe_call: Any = pxla.MeshExecutable.unsafe_call

    def _tell(closed: Any, *rest: Any, **named: Any) -> Any:
        options = dict(named.get("compiler_options_kvs", ()))
        lowered(Lowered(closed, function_of(closed), options))
        return lower(closed, *rest, **named)

    # JAX's fast path in C++ takes callables of its own class only, so each call comes here.
    def told(self: Any) -> Any:
        return lambda *args: called(_call(self, unsafe_call.fget(self), args))  # type: ignore[misc]

    pxla.lower_sharding_computation = _tell
    if called is not None:
        executable.unsafe_call = property(told)
    try:
        yield
    finally:
        pxla.lower_sharding_computation = lower
        executable.unsafe_call = unsafe_call


@functools.cache
def surround(context_of: Callable[[Any], Callable[[], AbstractContextManager[Any]]]) -> None:
    """Has JAX lower and compile each program inside of a context, from now on.

    Args:
        context_of: Gets the closed jaxpr of a program before it is lowered, and returns a function
            that makes a context, once to lower the program and once each time that it is compiled.
    """
    lower, compile_ = pxla.lower_sharding_computation, pxla.MeshComputation.compile

    def lowered(closed: Any, *rest: Any, **named: Any) -> Any:
        context = context_of(closed)
        with context():
            result: Any = lower(closed, *rest, **named)
        result.samebits_context = context
        return result

    def compiled(self: Any, *args: Any, **named: Any) -> Any:
        with getattr(self, "samebits_context", contextlib.nullcontext)():
            return compile_(self, *args, **named)

    pxla.lower_sharding_computation = lowered
    pxla.MeshComputation.compile = compiled  # type: ignore[method-assign]


def function_of(closed: Any) -> str:
    """Returns the function that a program was traced from, as ``name at file:line``."""
    return str(jaxprs.opened(closed).debug_info.func_src_info)


def _call(executable: Any, program: Any, args: tuple[Any, ...]) -> Call:
    info = executable._all_args_info.debug_info  # noqa: SLF001  # No other access.
    names = info.arg_names or ()
    if len(names) != len(args):
        names = ("",) * len(args)
    kept = [
        pair for i, pair in enumerate(zip(names, args, strict=True)) if i in program.kept_var_idx
    ]
    return Call(str(info.func_src_info), tuple(kept), lambda: program(*args))

"""Compiling whole programs with the options of XLA that the mode and the switches ask for.

Which options these are is in the spec's rows of kind ``backend`` and ``compiler``.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import threading
import types
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, ParamSpec, TypeVar, overload

import jax

import spec
from impl._mode import modes, switches
from impl._mode.modes import Mode
from impl._mode.switches import Switches

P = ParamSpec("P")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class Setting:
    """An option of XLA and the row that asks for it.

    Attributes:
        option: Name of the option.
        value: Its value.
        row: Id of the row; the first one, where several ask for the same.
    """

    option: str
    value: spec.OptionValue
    row: str


def compile_options() -> dict[str, spec.OptionValue]:
    """The compiler options that the mode and the switches of this thread ask for.

    For ``jax.jit(f, compiler_options=...)`` and ``lowered.compile(compiler_options=...)``; what
    ``impl.jit`` passes. An option that the installed jaxlib does not know is left out, and
    ``python -m impl doctor`` reports it. Options for GPUs do nothing on other devices.

    Returns:
        Values by name. Empty where nothing is asked for.
    """
    asked = settings()
    refused = _refused(asked)
    return {one.option: one.value for one in asked if one.option not in refused}


def unknown_options() -> tuple[Setting, ...]:
    """What the mode and the switches of this thread ask for and the installed jaxlib lacks."""
    asked = settings()
    refused = _refused(asked)
    return tuple(one for one in asked if one.option in refused)


def settings() -> tuple[Setting, ...]:
    """What the mode and the switches of this thread ask for, known to jaxlib or not."""
    return _settings(modes.current(), switches.current())


@functools.cache
def _settings(mode: Mode, turned: Switches) -> tuple[Setting, ...]:
    rules = spec.load()
    facts = turned.facts(mode)
    spec.check_facts(facts, rules.facts)
    found: dict[str, Setting] = {}
    for row in rules.select(profile=mode.profile, behaviour="deterministic", active=True):
        if row.options and spec.holds(row.when, facts):
            for option, value in row.options.items():
                found.setdefault(option, Setting(option, value, row.id))
    return tuple(found.values())


@functools.cache
def _refused(asked: tuple[Setting, ...]) -> frozenset[str]:
    """The options that the installed jaxlib does not know: it is asked, having no list of them."""
    refused: set[str] = set()

    def compile_nothing() -> None:
        rest: Any = {one.option: one.value for one in asked if one.option not in refused}
        jax.jit(lambda: 0, compiler_options=rest).lower().compile()

    while len(refused) < len(asked):
        try:
            # In a thread of its own: the caller may be tracing, where options are not taken.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(compile_nothing).result()
            break
        except jax.errors.JaxRuntimeError as error:
            unknown = re.search(r"No such compile option: '(\w+)'", str(error))
            if unknown is None or unknown[1] in refused:
                raise
            refused.add(unknown[1])
    return frozenset(refused)


@overload
def jit(fun: Callable[P, R], **jit_kwargs: Any) -> Jitted[P, R]: ...
@overload
def jit(
    fun: None = None, **jit_kwargs: Any
) -> Callable[[Callable[..., Any]], Jitted[..., Any]]: ...
def jit(fun: Callable[..., Any] | None = None, **jit_kwargs: Any) -> Any:
    """``jax.jit`` with the compiler options that the mode and the switches ask for.

    With the mode on, algorithms that race are excluded and others are picked without timing them;
    with ``backends.cudnn.benchmark`` off, which it is by default, nothing is timed either. A
    program is compiled anew when the mode or a switch asks for other options, and what was
    compiled before is kept for when they ask for it again. What the options leave open is in the
    spec's rows of kind ``backend`` and ``compiler``.

    JAX takes options at the top level alone: wrap the outermost function, and differentiate inside
    it.

    Args:
        fun: The function; without it, a decorator is returned.
        **jit_kwargs: Arguments of ``jax.jit``. ``compiler_options`` are added to those asked for.

    Returns:
        A callable with ``lower``, ``trace``, ``eval_shape`` and ``clear_cache``, as ``jax.jit``'s.

    Raises:
        TypeError: ``fun`` is not callable.
        ValueError: When called: it is inside another ``jit``, or (before jax 0.12) inside
            ``grad``; or ``compiler_options`` has another value for an option that is asked for.

    Source: ``torch.compile`` in the deterministic mode.
    """
    if fun is None:
        return functools.partial(jit, **jit_kwargs)
    if not callable(fun):
        raise TypeError(f"jit(): argument 'fun' must be callable, not {type(fun).__name__}")
    return Jitted(fun, jit_kwargs)


class Jitted(Generic[P, R]):
    """A function compiled by ``impl.jit``: one ``jax.jit`` for each set of compiler options."""

    def __init__(self, fun: Callable[P, R], jit_kwargs: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._kwargs = dict(jit_kwargs)
        self._own: Mapping[str, Any] = self._kwargs.pop("compiler_options", None) or {}
        self._made: dict[tuple[Setting, ...], Any] = {}
        self._lock = threading.Lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function as it is compiled under the mode and switches of this thread."""
        result: R = self._at_top_level("__call__", args, kwargs)
        return result

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Binds a method, as a function in a class does."""
        return self if instance is None else types.MethodType(self, instance)

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As ``jax.jit(fun).lower``; compiling what it returns uses the options asked for now."""
        return self._at_top_level("lower", args, kwargs)

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As ``jax.jit(fun).trace``."""
        return self._at_top_level("trace", args, kwargs)

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """As ``jax.jit(fun).eval_shape``."""
        return self._at_top_level("eval_shape", args, kwargs)

    def clear_cache(self) -> None:
        """Forgets what was compiled, under every set of options."""
        with self._lock:
            for jitted in self._made.values():
                jitted.clear_cache()
            self._made.clear()

    def _at_top_level(self, method: str, args: Any, kwargs: Any) -> Any:
        call = getattr(self._jitted(), method)
        try:
            return call(*args, **kwargs)
        except ValueError as error:
            if "`compiler_options` can only be passed to top-level" not in str(error):
                raise
            name = getattr(self._fun, "__name__", repr(self._fun))
            raise ValueError(
                f"impl.jit: {name} is called inside another jit, a loop or a gradient of JAX's, "
                "where compiler options are not taken. Call it at the top level: wrap the "
                "outermost function in impl.jit and use the plain function inside, as in "
                f"impl.jit(jax.grad({name}))"
            ) from error

    def _jitted(self) -> Any:
        asked = settings()
        with self._lock:
            if asked not in self._made:
                options = {**self._own, **self._agreed(asked)}
                self._made[asked] = jax.jit(
                    self._fun, compiler_options=options or None, **self._kwargs
                )
            return self._made[asked]

    def _agreed(self, asked: tuple[Setting, ...]) -> dict[str, spec.OptionValue]:
        for one in asked:
            own = self._own.get(one.option, one.value)
            if own != one.value:
                raise ValueError(
                    f"impl.jit: compiler_options sets {one.option} to {own!r}, and the row "
                    f"{one.row} to {one.value!r}; leave it out, or change the mode or the switch "
                    "that the row speaks of"
                )
        return compile_options()

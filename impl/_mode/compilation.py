"""The options of XLA that the mode requires: for a program, or for every program of a process.

The spec's rows of the kinds ``backend`` and ``compiler`` name the options. Which rows hold depends
on the mode and on the switches of ``impl.backends``. With the mode on, three of them are

    xla_gpu_exclude_nondeterministic_ops=true      XLA takes no algorithm that races
    xla_gpu_autotune_level=0                       XLA times no algorithms
    xla_gpu_experimental_enable_fusion_autotuner=false

``impl.jit`` gives the options to one program. Programs that a library compiles by itself get them
from the environment variable ``XLA_FLAGS``, which XLA reads once, as JAX's backend starts. The mode
sets them when it is turned on for the process.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import shlex
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

import jax

import spec
from impl import _jax
from impl._core import arguments
from impl._mode import modes, switches
from impl._mode.modes import Mode
from impl._mode.switches import Switches

P = ParamSpec("P")
Q = ParamSpec("Q")
R = TypeVar("R")


@dataclasses.dataclass(frozen=True)
class Setting:
    """An option of XLA and the first row that requires it."""

    option: str
    value: spec.OptionValue
    row: str


def compile_options() -> dict[str, spec.OptionValue]:
    """Returns the compiler options that the mode and the switches of this thread require.

    Pass them as ``jax.jit(f, compiler_options=...)`` or ``lowered.compile(compiler_options=...)``;
    ``impl.jit`` does so. An option that the installed jaxlib does not know is left out, and
    ``python -m impl doctor`` reports it. Options for GPUs do nothing on other devices.

    Returns:
        The value of each option, by its name. Empty if no option is required.
    """
    required = settings()
    unknown = _unknown(required)
    return {setting.option: setting.value for setting in required if setting.option not in unknown}


def unknown_options() -> tuple[Setting, ...]:
    """Returns the required settings whose option the installed jaxlib does not know."""
    required = settings()
    unknown = _unknown(required)
    return tuple(setting for setting in required if setting.option in unknown)


def settings() -> tuple[Setting, ...]:
    """Returns the settings that the mode and the switches of this thread require.

    Some may have an option that the installed jaxlib does not know.
    """
    return _settings(modes.current(), switches.current())


def settings_of_process() -> tuple[Setting, ...]:
    """Returns the settings that the mode and the switches of the process require."""
    return _settings(modes.of_process(), switches.of_process())


@functools.cache
def _settings(mode: Mode, state: Switches) -> tuple[Setting, ...]:
    rules = spec.load()
    facts = state.facts(mode)
    spec.check_facts(facts, rules.facts)
    required: dict[str, Setting] = {}
    for row in rules.select(profile=mode.profile, behaviour="deterministic", active=True):
        if row.options and spec.holds(row.when, facts):
            for option, value in row.options.items():
                required.setdefault(option, Setting(option, value, row.id))
    return tuple(required.values())


@functools.cache
def _unknown(required: tuple[Setting, ...]) -> frozenset[str]:
    """Returns the names of the options that the installed jaxlib does not know.

    jaxlib has no list of its options. An empty program is compiled with them instead, and jaxlib's
    error names one that it does not know.
    """
    unknown: set[str] = set()

    def compile_empty_program() -> None:
        options: Any = {
            setting.option: setting.value for setting in required if setting.option not in unknown
        }
        jax.jit(lambda: 0, compiler_options=options).lower().compile()

    while len(unknown) < len(required):
        try:
            # The caller may be inside a trace, where JAX takes no options; a new thread is not.
            with ThreadPoolExecutor(1) as pool:
                pool.submit(compile_empty_program).result()
            break
        except jax.errors.JaxRuntimeError as error:
            name = _jax.unknown_option(error)
            if name is None or name in unknown:
                raise
            unknown.add(name)
    return frozenset(unknown)


@overload
def jit(fun: Callable[P, R], **jit_kwargs: Any) -> Jitted[P, R]: ...
@overload
def jit(fun: None = None, **jit_kwargs: Any) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
def jit(fun: Callable[..., Any] | None = None, **jit_kwargs: Any) -> Any:
    """Compiles a function as ``jax.jit`` does, with the options of ``impl.compile_options``.

    With the mode on, XLA takes no algorithm that races, and picks algorithms without timing them.
    With ``backends.cudnn.benchmark`` off, as it is by default, it does not time them either. If the
    mode or a switch changes and other options are required, the next call compiles the program
    again; the earlier program is kept for a later change back. The spec's rows of the kinds
    ``backend`` and ``compiler`` state what the options do not cover.

    JAX takes the compiler options of the outermost program only. Inside another ``jit``, a loop or
    (before jax 0.12) a gradient, the function is therefore compiled as a part of that program, with
    the options of that program: wrap that program in ``impl.jit``, or call ``impl.set_xla_flags``.
    An audit of that program lists the choices that XLA then makes by timing. A function that is
    jitted already, such as the result of ``nnx.jit``, can be passed; repeat its static and donated
    arguments.

    Args:
        fun: The function. Without it, a decorator is returned.
        **jit_kwargs: Arguments of ``jax.jit``. The required options are added to
            ``compiler_options``.

    Returns:
        A ``Jitted``: a callable that has the methods ``lower``, ``trace``, ``eval_shape`` and
        ``clear_cache`` of the result of ``jax.jit``.

    Raises:
        TypeError: ``fun`` is not callable.
        ValueError: Raised by a call if ``compiler_options`` has another value for a required
            option, or is given inside another ``jit``.

    Source: ``torch.compile`` in the deterministic mode.
    """
    if fun is None:
        return functools.partial(jit, **jit_kwargs)
    arguments.check_callable("jit", "fun", fun)
    return Jitted(fun, jit_kwargs)


class Jitted(Generic[P, R]):
    """A function compiled by ``impl.jit``: one ``jax.jit`` for each set of compiler options.

    Inside another program, a ``jax.jit`` without these options.

    Args:
        fun: The function.
        jit_kwargs: Arguments of ``jax.jit``, by name.
    """

    def __init__(self, fun: Callable[P, R], jit_kwargs: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, fun)
        self._fun = fun
        self._kwargs = dict(jit_kwargs)
        self._own_options: Mapping[str, Any] = self._kwargs.pop("compiler_options", None) or {}
        self._jitted: dict[tuple[Setting, ...] | None, Any] = {}
        self._lock = threading.Lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function, compiled with the options that this thread requires now."""
        result: R = self._do("__call__", args, kwargs)
        return result

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Jitted[P, R]: ...
    @overload
    def __get__(
        self: Jitted[Concatenate[Any, Q], R], instance: object, owner: type | None = None
    ) -> Callable[Q, R]: ...
    def __get__(self, instance: object, owner: type | None = None) -> Any:
        """Binds a method, as a function in a class does."""
        return self if instance is None else types.MethodType(self, instance)

    def lower(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Lowers as ``jax.jit(fun).lower``; its result compiles with the options required now."""
        return self._do("lower", args, kwargs)

    def trace(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Traces as ``jax.jit(fun).trace``."""
        return self._do("trace", args, kwargs)

    def eval_shape(self, *args: P.args, **kwargs: P.kwargs) -> Any:
        """Returns shapes and dtypes as ``jax.jit(fun).eval_shape``."""
        return self._do("eval_shape", args, kwargs)

    def options(self) -> dict[str, Any]:
        """Returns the compiler options that a call in this thread compiles with."""
        self._check_own_options(settings())
        return {**self._own_options, **compile_options()}

    def clear_cache(self) -> None:
        """Drops the compiled programs of every set of options."""
        with self._lock:
            for jitted in self._jitted.values():
                jitted.clear_cache()
            self._jitted.clear()

    def _do(self, method: str, args: Any, kwargs: Any) -> Any:
        try:
            return getattr(self._current(), method)(*args, **kwargs)
        except ValueError as error:
            if not _jax.refuses_nested_options(error):
                raise
        except TypeError:
            # A library's jit such as Equinox's takes functions as arguments, where JAX's does not.
            leaves = jax.tree.leaves((args, kwargs))
            if method != "__call__" or not (_jax.is_tracing() and any(map(callable, leaves))):
                raise
            return self._fun(*args, **kwargs)
        # Inside another program, whose options count.
        return getattr(self._nested(), method)(*args, **kwargs)

    def _nested(self) -> Any:
        """Returns the function jitted with the caller's options only."""
        with self._lock:
            if None not in self._jitted:
                options = dict(self._own_options) or None
                self._jitted[None] = jax.jit(self._fun, compiler_options=options, **self._kwargs)
            return self._jitted[None]

    def _current(self) -> Any:
        required = settings()
        with self._lock:
            if required not in self._jitted:
                self._jitted[required] = jax.jit(
                    self._fun, compiler_options=self.options() or None, **self._kwargs
                )
            return self._jitted[required]

    def _check_own_options(self, required: tuple[Setting, ...]) -> None:
        for setting in required:
            own = self._own_options.get(setting.option, setting.value)
            if own != setting.value:
                raise ValueError(
                    f"impl.jit: compiler_options sets {setting.option} to {own!r}, but the row "
                    f"{setting.row} requires {setting.value!r}: leave it out, or change the mode "
                    "or the switch that the row names"
                )


VARIABLE = "XLA_FLAGS"
#: The warnings that this process has given.
_warned: set[str] = set()


def xla_flags() -> str:
    """Returns the compiler options that the mode and the switches require, as flags of XLA.

    ``python -m impl flags`` prints them for the mode on, so that a shell can start any program with
    them: ``XLA_FLAGS="$(python -m impl flags)" python train.py``.
    """
    return " ".join(map(_flag, settings()))


def set_xla_flags() -> None:
    """Adds the flags of ``impl.xla_flags`` to ``XLA_FLAGS``, for every program of this process.

    ``impl.use_deterministic_algorithms(True)`` does it too. The options then hold for programs that
    a library compiles with a ``jax.jit`` of its own, such as ``nnx.jit`` and ``eqx.filter_jit``,
    and for operations outside of ``jit``. Call this inside ``with impl.deterministic():`` to have
    the flags without the mode, before JAX computes anything. Processes that this one starts inherit
    the flags. They stay when the mode changes.

    Raises:
        RuntimeError: JAX's backend has started, so that XLA has read its flags already, and one of
            them is missing.
        ValueError: ``XLA_FLAGS`` has another value for a required flag, or names a file that lacks
            one.
    """
    required = settings()
    error = _contradiction(required) or _add(required)
    if error is not None:
        raise type(error)(f"set_xla_flags(): {error}")


def set_for_process() -> None:
    """Adds the flags that the mode of the process requires, or warns if it is too late.

    It warns once in a process, and only if the flags may apply to a device in use.
    """
    required = settings_of_process()
    for error in (_add(required), _contradiction(required)):
        if error is None or str(error) in _warned or not _may_apply(required):
            continue
        _warned.add(str(error))
        warnings.warn(
            "impl.use_deterministic_algorithms(True): the mode is on, but XLA may pick kernels of "
            f"products and convolutions by timing them, outside of impl.jit. {error}",
            RuntimeWarning,
            stacklevel=3,
        )


def _contradiction(required: Iterable[Setting]) -> ValueError | None:
    """Returns an error if XLA_FLAGS has another value for a flag."""
    given = parsed(os.environ.get(VARIABLE, ""))
    for setting in required:
        value = given.get(setting.option)
        if value is not None and one_spelling(value) != one_spelling(_text(setting)):
            return ValueError(
                f"{VARIABLE} sets {setting.option} to {value!r}, but the row {setting.row} "
                f"requires {_text(setting)!r}: take it out of {VARIABLE}"
            )
    return None


def _add(required: Iterable[Setting]) -> Exception | None:
    """Adds the flags that XLA_FLAGS lacks, or returns the reason why it cannot."""
    text = os.environ.get(VARIABLE, "").strip()
    given = parsed(text)
    missing = [_flag(setting) for setting in required if setting.option not in given]
    if not missing:
        return None
    if text and not text.startswith("--"):
        return ValueError(f"{VARIABLE} names the file {text!r}: add {' '.join(missing)} there")
    if _jax.backend_has_started():
        return RuntimeError(
            "JAX's backend has started, and XLA reads its flags only then. Call this before "
            "anything is computed, or start the program with "
            f'{VARIABLE}="$(python -m impl flags)"'
        )
    os.environ[VARIABLE] = " ".join([*([text] if text else []), *missing])
    return None


def _may_apply(required: Iterable[Setting]) -> bool:
    """Returns whether a platform that the flags apply to is in use, or may be."""
    rules = spec.load()
    rows = [rules.row(setting.row) for setting in required]
    devices = [
        device for device in rules.devices.values() if any(row.covers(device.name) for row in rows)
    ]
    names = {name for device in devices for name in (*device.platforms, *device.backends)}
    used = _jax.platforms_in_use()
    return used is None or not names.isdisjoint(used)


def parsed(text: str) -> dict[str, str]:
    """Returns the flags in the text of XLA_FLAGS, or in the file that it names, as XLA parses it.

    A flag without a value is ``true``. If a flag occurs twice, the last one counts.
    """
    if text.strip() and not text.lstrip().startswith("--"):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return {}  # XLA ends the process because of such a file. The doctor reports it.
    try:
        words = shlex.split(text)
    except ValueError:  # A quotation mark is not closed.
        words = text.split()
    pairs = (word[2:].partition("=") for word in words if word.startswith("--"))
    return {name: value if given else "true" for name, given, value in pairs}


def _flag(setting: Setting) -> str:
    return f"--{setting.option}={_text(setting)}"


def _text(setting: Setting) -> str:
    return str(setting.value).lower() if isinstance(setting.value, bool) else str(setting.value)


def one_spelling(value: str) -> str:
    """Returns the value of a flag, with a bool spelled ``true`` or ``false``."""
    return {"1": "true", "0": "false"}.get(value, value)

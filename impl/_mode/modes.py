"""The deterministic mode: its state, and the functions that read and set it.

The state is a JAX user context, which makes it part of the key of every ``jax.jit`` cache: JAX
traces a function again when the mode changes. The process has one mode; a scope sets another one
for its thread, and its end restores the mode from before::

    at the start                                           off                       level 0
    use_deterministic_algorithms(True, warn_only=True)     run_to_run torch-2.12     level 1
    with deterministic(guarantee="portable"):              portable torch-2.12       level 2
        with deterministic(False):                         off                       level 0
    after both scopes                                      run_to_run torch-2.12     level 1

Source: PyTorch's ``torch.use_deterministic_algorithms`` and ``torch.set_deterministic_debug_mode``.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias, TypeVar, get_args

import jax
import numpy as np

import spec
from impl._core.numerics import accumulator
from impl._jax import tags
from impl._mode.scopes import Scope, ThreadState

#: The guarantees that a user can ask for: the same bits in each run on this machine, or on every
#: device and every number of devices.
Guarantee: TypeAlias = Literal["run_to_run", "portable"]
GUARANTEES: tuple[Guarantee, ...] = get_args(Guarantee)

Name = TypeVar("Name", bound=str)


class Mode(NamedTuple):
    """The state that ``use_deterministic_algorithms`` sets.

    At each call of a jitted function, JAX compares the mode with the modes of its programs. The
    comparison of two tuples calls no Python.

    Attributes:
        enabled: Whether the mode is on.
        warn_only: Whether an alert is a warning and not an error; independent of ``enabled``.
        profile: Name of the profile whose rows decide.
        guarantee: The guarantee that every operation has to give.
    """

    enabled: bool = False
    warn_only: bool = False
    profile: str = spec.default_profile()
    guarantee: Guarantee = "run_to_run"

    @property
    def portable(self) -> bool:
        """Whether the mode is on and asks for the same bits on every device."""
        return self.enabled and self.guarantee == "portable"

    def __str__(self) -> str:
        """Returns the mode in few words: the attribute of operations that a scope tags."""
        return f"{self.guarantee} {self.profile}" if self.enabled else "off"


# At import, because jax.make_user_context is not thread-safe.
_mode = jax.make_user_context(Mode())
_fill = jax.make_user_context(True)
_scopes: ThreadState[Mode] = ThreadState(_mode)
_when_portable: list[Callable[[], None]] = []

#: The environment variables that turn the mode on when ``impl`` is imported.
MODE = "SAMEBITS_MODE"
GUARANTEE = "SAMEBITS_GUARANTEE"
PROFILE = "SAMEBITS_PROFILE"
#: The arguments ``mode`` and ``warn_only`` for each value.
_ARGUMENTS = {
    "on": (True, False),
    "1": (True, False),
    "warn": (True, True),
    "off": (False, False),
    "0": (False, False),
}

_DEBUG_MODES = ("default", "warn", "error")


def current() -> Mode:
    """Returns the mode of this thread, or of the equation that JAX transforms or lowers in it.

    Raises:
        RuntimeError: Another task of asyncio awaits inside of a scope.
    """
    if _scopes.in_tasks:
        _scopes.check()
    tagged: Mode | None = tags.current()
    return _mode.value if tagged is None else tagged


def sum_dtype(dtype: jax.typing.DTypeLike) -> np.dtype:
    """Returns the dtype to which an op converts terms before one of JAX's primitives adds them.

    float16 and bfloat16 are added in float32, and the sum is rounded once. Under ``portable`` they
    are added as they are: the sum of the primitive is exact, and a conversion after it would round
    a second time.
    """
    return np.dtype(dtype) if current().portable else accumulator(dtype)


def of_process() -> Mode:
    """Returns the mode of threads that are in no scope."""
    return _mode.get_global()  # type: ignore[no-any-return]  # as above


def when_portable(callback: Callable[[], None]) -> None:
    """Registers a function to be called each time that the guarantee ``portable`` is asked for.

    It may be called often, and by any thread.
    """
    _when_portable.append(callback)


def use_deterministic_algorithms(
    mode: bool, *, warn_only: bool = False, profile: str | None = None, guarantee: str | None = None
) -> None:
    """Sets, for the whole process, whether operations must be deterministic.

    With the mode on, an operation takes its ordered path, raises, or fills uninitialised memory,
    according to its row. It raises only if the profile lists it so. A thread inside a
    ``deterministic(...)`` scope keeps the mode of that scope.

    Turning the mode on also adds XLA's flags to ``XLA_FLAGS``, as ``set_xla_flags`` does: products
    and convolutions then keep the kernel that XLA picks without timing. XLA reads its flags once,
    so call this before anything is computed. They stay when the mode is turned off.

    Args:
        mode: True to turn the mode on, False to turn it off.
        warn_only: True to warn where an operation would raise. Stored even if ``mode`` is False.
        profile: Name of the profile; None keeps the profile of the process.
        guarantee: "run_to_run" for the same bits in each run on this machine; "portable" for the
            same bits on every device, every number of devices and every supported JAX, also in
            programs of JAX's own functions. Operations without a portable path raise an error that
            names them. None keeps the guarantee of the process, which is "run_to_run" at first.

    Raises:
        TypeError: ``mode`` or ``warn_only`` is not a bool, or ``profile`` or ``guarantee`` is not
            a string.
        ValueError: There is no such profile or guarantee.

    Warns:
        RuntimeWarning: A GPU is in use, and JAX's backend has started without one of the flags, or
            ``XLA_FLAGS`` has another value for a flag. The warning comes once in a process, and the
            mode is on nevertheless.
    """
    # This thread may be inside a scope with a mode of its own.
    before = of_process()
    _mode.set_global(
        _checked("use_deterministic_algorithms", mode, warn_only, profile, guarantee, before)
    )
    if mode:
        from impl._mode import compilation  # noqa: PLC0415  # It imports this module.

        compilation.set_for_process()


def are_deterministic_algorithms_enabled() -> bool:
    """Returns whether the mode is on in this thread."""
    return current().enabled


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Returns whether ``warn_only`` is set in this thread; the mode itself may be off."""
    return current().warn_only


def get_deterministic_profile() -> str:
    """Returns the name of the profile of this thread; the mode itself may be off."""
    return current().profile


def get_deterministic_guarantee() -> Guarantee:
    """Returns the guarantee of this thread, "run_to_run" or "portable"; the mode may be off."""
    return current().guarantee


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Sets the mode for the whole process by a level, and keeps the profile and the guarantee.

    Args:
        debug_mode: 0 or "default" turns the mode off, 1 or "warn" turns it on with
            ``warn_only=True``, 2 or "error" turns it on.

    Raises:
        RuntimeError: ``debug_mode`` is another int or another string.
        TypeError: ``debug_mode`` is neither an int nor a string.
    """
    if not isinstance(debug_mode, int | str):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)}")
    if isinstance(debug_mode, str):
        if debug_mode not in _DEBUG_MODES:
            raise RuntimeError(
                "invalid value of debug_mode, expected one of `default`, `warn`, `error`, "
                f"but got {debug_mode}"
            )
        debug_mode = _DEBUG_MODES.index(debug_mode)
    if debug_mode not in range(len(_DEBUG_MODES)):
        raise RuntimeError(
            f"invalid value of debug_mode, expected 0, 1, or 2, but got {debug_mode}"
        )
    use_deterministic_algorithms(debug_mode != 0, warn_only=debug_mode == 1)


def get_deterministic_debug_mode() -> int:
    """Returns the mode of this thread as a level: 0 off, 1 on with ``warn_only``, 2 on."""
    mode = current()
    if not mode.enabled:
        return 0
    return 1 if mode.warn_only else 2


def deterministic(
    mode: bool = True,
    *,
    warn_only: bool = False,
    profile: str | None = None,
    guarantee: str | None = None,
) -> Scope[Mode]:
    """Returns a scope with its own mode, for this thread only.

    Use it as ``with deterministic(): ...`` or as a decorator. Scopes nest, and the object can be
    used again. The end of a scope restores the mode from before it, also if an exception ends it.

    The mode holds for the thread, also for programs that are compiled inside. In a function that
    JAX traces, inside ``jax.jit`` or any other transformation, it holds for the equations that are
    traced inside the scope, and for their gradients, batches and copies. The innermost scope
    decides about an equation. Compiler options hold for a whole program: the mode in which the
    program is called decides about them.

    A task of asyncio must not await inside ``with``: the mode would hold for the other tasks of the
    thread. Those tasks raise an error when they read the mode, and so does the scope at its end.
    The decorator of a generator or of an ``async def`` sets the mode while the body runs, and not
    while the body is suspended.

    Args:
        mode: True to turn the mode on inside, False to turn it off inside.
        warn_only: True to warn where an operation would raise.
        profile: Name of the profile inside; None keeps the profile from before the scope.
        guarantee: "run_to_run" or "portable", as for ``use_deterministic_algorithms``; None keeps
            the guarantee from before the scope.

    Returns:
        A context manager, which is also a decorator.

    Raises:
        TypeError: ``mode`` or ``warn_only`` is not a bool, or ``profile`` or ``guarantee`` is not
            a string.
        ValueError: There is no such profile or guarantee.
        RuntimeError: At the end of a scope: its task awaited inside of it, or the scope began in
            another thread.
    """

    def inside() -> Mode:
        return _checked("deterministic", mode, warn_only, profile, guarantee, current())

    inside()  # So that a decorator refuses bad arguments before the first call.
    return Scope(_scopes, inside)


def fill_uninitialized_memory() -> bool:
    """Returns the setting that fills fresh memory with a known value while the mode is on."""
    return _fill.value  # type: ignore[no-any-return]  # a user context is not typed


def set_fill_uninitialized_memory(value: bool) -> None:
    """Sets, for the whole process, whether fresh memory is filled while the mode is on.

    Raises:
        RuntimeError: ``value`` is not a bool (PyTorch's choice of exception).
    """
    if not isinstance(value, bool):
        raise RuntimeError(  # noqa: TRY004  # PyTorch's choice
            f"expected a bool, but got {type(value).__name__}"
        )
    _fill.set_global(value)


def _checked(
    function: str,
    mode: bool,
    warn_only: bool,
    profile: str | None,
    guarantee: str | None,
    before: Mode,
) -> Mode:
    """Returns the mode of checked arguments; None stands for the value of the mode before."""
    _check_bool(function, "argument 'mode' (position 1)", mode)
    _check_bool(function, "argument 'warn_only'", warn_only)
    profiles = tuple(spec.load().profiles)
    checked = Mode(
        mode,
        warn_only,
        _one_of(function, "profile", profile, profiles, "the spec has") or before.profile,
        _one_of(function, "guarantee", guarantee, GUARANTEES, "allowed:") or before.guarantee,
    )
    if checked.portable:
        for callback in _when_portable:
            callback()
    return checked


def _check_bool(function: str, argument: str, value: object) -> None:
    if isinstance(value, bool):
        return
    # In NumPy 2 the type of NumPy's bools is called "bool" too.
    kind = f"{'numpy.' * isinstance(value, np.generic)}{type(value).__name__}"
    hint = ""
    if isinstance(value, str) and value in GUARANTEES:
        hint = f"; pass guarantee={value!r}"
    elif callable(value):
        hint = f"; a decorator needs its brackets: @impl.{function}()"
    raise TypeError(f"{function}(): {argument} must be bool, not {kind}{hint}")


def _one_of(
    function: str, name: str, value: str | None, allowed: tuple[Name, ...], words: str
) -> Name | None:
    """Returns the allowed value that an argument is; None if it is not given."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise TypeError(
            f"{function}(): argument {name!r} must be str or None, not {type(value).__name__}"
        )
    for each in allowed:
        if value == each:
            return each
    raise ValueError(
        f"{function}(): argument {name!r} got {value!r}; {words} {', '.join(map(repr, allowed))}"
    )


def turn_on_by_variables() -> None:
    """Calls ``use_deterministic_algorithms`` if a variable is set to a value that is not empty.

    ``SAMEBITS_MODE=on SAMEBITS_GUARANTEE=portable python train.py`` needs no change of a program.
    The guarantee or the profile alone turns the mode on too.

    Raises:
        ValueError: A variable has a value that is not allowed.
    """
    given = {name: os.environ.get(name) or None for name in (MODE, GUARANTEE, PROFILE)}
    if not any(given.values()):
        return
    allowed = {MODE: _ARGUMENTS, GUARANTEE: GUARANTEES, PROFILE: spec.load().profiles}
    for name, value in given.items():
        if value is not None and value not in allowed[name]:
            raise ValueError(
                f"the environment variable {name} is {value!r}; allowed: "
                f"{', '.join(map(repr, allowed[name]))}"
            )
    mode, warn_only = _ARGUMENTS[given[MODE] or "on"]
    use_deterministic_algorithms(
        mode, warn_only=warn_only, profile=given[PROFILE], guarantee=given[GUARANTEE]
    )

"""Whether a function is traced for the engine ``native``.

The functions of ``impl._exact`` that this engine has too carry ``or_native``. Inside of
``within`` they return the engine's call, and elsewhere their own equations::

    @or_native(sums.reduce_sum)
    def reduce_sum(x, axes, ...):     # the equations of the engine float64
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, TypeVar

from impl._core import contexts

#: The name of the primitive that calls C++.
CALL = "samebits_call"

_Function = TypeVar("_Function", bound=Callable[..., Any])


def within(devices: int = 1) -> contextlib.AbstractContextManager[Any]:
    """Returns a scope in which sums and products are traced as calls of the engine.

    XLA may partition the program over this number of devices; 0 for no calls.
    """
    scope: contextlib.AbstractContextManager[Any] = contexts.devices(devices)
    return scope


def with_calls(function: Callable[..., Any], devices: int = 1) -> Callable[..., Any]:
    """Returns a function of arrays that is traced in such a scope (``within``)."""

    def run(*args: Any) -> Any:
        with within(devices):
            return function(*args)

    return run


def devices() -> int:
    """Returns the number of devices that XLA may partition over; 0 outside of the engine."""
    number: int = contexts.devices.value
    return number


def or_native(native: Callable[..., Any]) -> Callable[[_Function], _Function]:
    """Lets a function return the engine's result where the engine has one.

    Args:
        native: Takes the same arguments, and ignores those that choose among equal ways. It returns
            None if the engine has no call for them.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def run(*args: Any, **keywords: Any) -> Any:
            if devices():
                result = native(*args, **keywords)
                if result is not None:
                    return result
            return function(*args, **keywords)

        return run  # type: ignore[return-value]

    return decorate

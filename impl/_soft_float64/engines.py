"""The engines of ``portable``: the arithmetic that stands for float64 on a device.

The functions of ``impl._exact`` compute in float64. A device without it, or one on which it is
slow, has another engine (``spec/engines.toml``). IEEE 754 fixes the bits of float64, and whoever
adds float64 in any order bounds the error, so every engine gives the same results::

    lax.exp of float32 on a CPU      sums and products of float64
    on a TPU                         integers of 64 bits (``impl._soft_float64``)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.interpreters import mlir

from impl._core.jax_internals import lowering
from impl._native import scope
from impl._soft_float64 import interpreter
from spec.engines import engine_of, of_several

#: The engine that a scope asks for; None for the one of the device. It is part of the key of jit.
_asked = jax.make_user_context(None)

#: The engine that changes nothing.
_DEFAULT = "float64"
#: The form of a function of arrays, by the engine.
_FORMS: Mapping[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    _DEFAULT: lambda function: function,
    "int8": interpreter.with_int8_products,
    "integers": interpreter.without_float64,
    "native": scope.with_calls,
}


def asked(name: str | None) -> contextlib.AbstractContextManager[Any]:
    """Returns a scope whose programs have an engine; None for the engine of the device."""
    scope: contextlib.AbstractContextManager[Any] = _asked(name)
    return scope


def of(context: Any) -> str:
    """Returns the engine of the devices that a lowering rule lowers for.

    A program for several platforms has the last of their engines in the order of the spec, which
    runs on all of them.
    """
    return of_program(lowering.platforms(context), lowering.assigned(context))


def of_program(platforms: Sequence[str], devices: Sequence[Any] = ()) -> str:
    """Returns the engine of a program that this thread lowers now.

    Args:
        platforms: The platforms that it is lowered for.
        devices: The devices that it is lowered for, if they are known. A GPU that is not known is
            one that this process has, or else one whose float64 is fast.
    """
    if _asked.value is not None:
        return str(_asked.value)
    capability, kind = lowering.gpu(devices) if "cuda" in platforms else (None, None)
    return of_several(
        frozenset(engine_of(each, capability=capability, kind=kind) for each in platforms)
    )


def lower_fun(
    context: Any, function: Callable[..., Any], *, multiple_results: bool
) -> Callable[..., Any]:
    """Returns the lowering rule of a function of arrays, in the form of the engine.

    Args:
        context: The context of the rule that lowers it.
        function: Takes arrays.
        multiple_results: Whether it returns a sequence of arrays.
    """
    engine = of(context)
    rule = mlir.lower_fun(_FORMS[engine](function), multiple_results=multiple_results)
    if engine == _DEFAULT:
        return rule

    def lower(context: Any, *operands: Any) -> Any:
        # A sum of gathered parts has a type that varies over devices, where a psum has not.
        with lowering.without_varying_types(context) as own:
            return rule(own, *operands)

    return lower


def formed(context: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function of arrays in the form of the engine.

    Args:
        context: The context of the rule that lowers it.
        function: Takes arrays.
    """
    return _FORMS[of(context)](function)


def has_float64(context: Any) -> bool:
    """Returns whether the programs of a lowering rule may compute in float64."""
    return of(context) != "integers"


def platforms(context: Any) -> tuple[str, ...]:
    """Returns the platforms of a lowering rule, or a TPU for an engine without float64.

    A CPU that runs this engine in tests then takes every path that a TPU takes.
    """
    return lowering.platforms(context) if has_float64(context) else ("tpu",)

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

from jax.interpreters import mlir

from impl import _jax
from impl._core import contexts
from impl._jax import lowering, shardings
from impl._mode import emulation
from impl._native import library, scope
from impl._soft_float64 import interpreter
from spec.engines import engine_of, of_several

#: The engine that changes nothing, and the engine of C++ for a CPU.
_DEFAULT, _NATIVE = "float64", "native"
#: The form of a function of arrays, by the engine.
_FORMS: Mapping[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    _DEFAULT: lambda function: function,
    "int8": interpreter.with_int8_products,
    "integers": interpreter.without_float64,
}


def asked(name: str | None) -> contextlib.AbstractContextManager[Any]:
    """Returns a scope whose programs have an engine; None for the engine of the device."""
    scope: contextlib.AbstractContextManager[Any] = contexts.engine(name)
    return scope


def of(context: Any) -> str:
    """Returns the engine of the devices that a lowering rule lowers for.

    A program for several platforms has the last of their engines in the order of the spec, which
    runs on all of them.
    """
    platforms, is_exported = lowering.platforms(context), _jax.exports(context)
    if contexts.engine.value is None and _is_of_cpu(platforms, is_exported):
        library.warn_if_missing()
    return of_program(platforms, lowering.assigned(context), is_exported=is_exported)


def of_program(
    platforms: Sequence[str], devices: Sequence[Any] = (), *, is_exported: bool = False
) -> str:
    """Returns the engine of a program that this thread lowers now.

    Args:
        platforms: The platforms that it is lowered for.
        devices: The devices that it is lowered for, if they are known. A GPU that is not known is
            one that this process has, or else one whose float64 is fast.
        is_exported: Whether the program is for ``jax.export``, which leaves it without calls of
            C++: another machine may run it.
    """
    has_calls = _is_of_cpu(platforms, is_exported) and library.is_available()
    if contexts.engine.value is not None:
        asked = str(contexts.engine.value)
        return _DEFAULT if asked == _NATIVE and not has_calls else asked
    if has_calls:
        return _NATIVE
    capability, kind = lowering.gpu(devices) if "cuda" in platforms else (None, None)
    return of_several(
        frozenset(engine_of(each, capability=capability, kind=kind) for each in platforms)
    )


def _is_of_cpu(platforms: Sequence[str], is_exported: bool) -> bool:
    """Returns whether the program has the engine ``native``, if its library is there."""
    return tuple(platforms) == ("cpu",) and not is_exported and emulation.current() is None


class Lowered:
    """The lowering rule of a function of arrays, in the form of the engine.

    It lowers in the context of another rule. With multiple results, the function returns a sequence
    of arrays.
    """

    def __init__(
        self, context: Any, function: Callable[..., Any], *, multiple_results: bool
    ) -> None:
        self.engine = of(context)
        self._function = _formed(self.engine, context, function)
        self._has_several_results = multiple_results

    def __call__(self, context: Any, *operands: Any) -> Any:
        rule = mlir.lower_fun(self._function, multiple_results=self._has_several_results)
        if self.engine == _DEFAULT:
            return rule(context, *operands)
        # A sum of gathered parts has a type that varies over devices, where a psum has not.
        with lowering.without_varying_types(context) as own:
            if self.engine == _NATIVE:
                return lowering.written(own, self._function, *operands)
            return rule(own, *operands)


def _formed(engine: str, context: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    if engine != _NATIVE:
        return _FORMS[engine](function)
    if shardings.is_partly_local(context):
        # XLA's rules of sharding do not say there which devices share a sum.
        return function
    is_local = shardings.is_local(context)
    return scope.with_calls(function, 1 if is_local else shardings.devices_of(context))


def has_float64(context: Any) -> bool:
    """Returns whether the programs of a lowering rule may compute in float64."""
    return of(context) != "integers"


def platforms(context: Any) -> tuple[str, ...]:
    """Returns the platforms of a lowering rule, or a TPU for an engine without float64.

    A CPU that runs this engine in tests then takes every path that a TPU takes.
    """
    return lowering.platforms(context) if has_float64(context) else ("tpu",)


def reads_in_place(context: Any) -> bool:
    """Returns whether products read their factors in place; else they make copies in float64."""
    return of(context) == _NATIVE and not shardings.is_partly_local(context)

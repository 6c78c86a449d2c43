"""Lowers and compiles calls of JAX functions, each distinct program once.

The suite tests one call under several profiles and by several checks, and most of these give the
same program. Lowering and compiling take most of the time of a run, so the results are kept. The
second call here compiles nothing::

    prepare(jnp.abs, (np.float32([-1, 2]),))()  # [1., 2.]
    prepare(jnp.abs, (np.float32([3, -4]),))()  # [3., 4.], from the same program
"""

from __future__ import annotations

import collections
import dataclasses
import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeAlias

import jax
import numpy as np

import impl
import spec
from impl._jax import releases
from impl._mode import emulation
from impl._mode.decide import Action, Question, decide, questions
from impl._mode.emulation import Emulation

#: The options of XLA for the program of a stand-in, by whether a contraction would be an error: the
#: bits of its result count, and it has products. Both compile faster than the default. At level 0,
#: which compiles in half the time, LLVM does not fuse a product and a sum into one operation, so a
#: missing guard against that fusion would not be found.
_FOR_OLD_JAX = (
    # A program compiles in half the time without emitters, in a quarter less in one piece, and in a
    # tenth less if XLA inlines calls before its other passes.
    {
        "xla_cpu_use_fusion_emitters": False,
        "xla_cpu_parallel_codegen_split_count": 1,
        "xla_cpu_opt_preset": "CPU_OPT_PRESET_FAST_COMPILE",
    }
    if releases.CPU_EMITTERS_ARE_OPTIONAL
    else {}
)
_STAND_IN_OPTIONS: Mapping[bool, Mapping[str, Any]] = {
    True: {"xla_backend_optimization_level": 1, **_FOR_OLD_JAX},
    False: {"xla_backend_optimization_level": 0, **_FOR_OLD_JAX},
}
#: Operations that are products of floats, or that XLA replaces with some. A quotient by a constant
#: is a product, and functions such as ``exp`` are polynomials.
_PRODUCT = re.compile(
    r"(?:stablehlo|chlo)\.(?:multiply|divide|remainder|power|sqrt|rsqrt|cbrt|exponential\w*|log\w*|"
    r"sine|cosine|tan|tanh|a?sinh?|a?cosh?|atan\w*|erf\w*|lgamma|digamma|dot\w*|convolution)\b"
    r".*[x<]b?f\d"
)
#: The programs that serve a call, by what it needs: one with the right bits has the right values.
_SERVING: Mapping[bool | None, tuple[bool | None, ...]] = {
    None: (None,),
    True: (None, True),
    False: (None, True, False),
}
#: The compiled programs by their text. The second part of a key is None for a program compiled with
#: the default options, and otherwise whether the bits of a stand-in's result count.
_executables: dict[tuple[str, bool | None], Any] = {}
#: The programs that were lowered last, by their text. Each keeps a context of MLIR. When MLIR makes
#: a context, it visits every living one, so the contexts of a whole run would slow it down.
_lowered: collections.OrderedDict[str, Any] = collections.OrderedDict()
#: The tests of one sample share this number of programs at most.
_MOST_LOWERED = 32
#: The action of a platform for a call, and the stand-in for the platform.
_Answer: TypeAlias = tuple[Action, Emulation | None]
#: For each key: the questions that ops asked the spec, the answers, and the result.
_results: dict[Hashable, list[tuple[tuple[Question, ...], tuple[_Answer, ...], Any]]] = {}


def device_of_process() -> str:
    """Returns the device of the spec that JAX computes on in this process."""
    backend = jax.default_backend()
    device = spec.load().backends.get(backend)
    if device is None:
        raise RuntimeError(
            f"JAX computes on {backend} here; set JAX_PLATFORMS to {' or to '.join(spec.DEVICES)}"
        )
    return device.name


def remembered(make: Callable[[], Any], platform: str, key: Hashable) -> Any:
    """Returns the result of ``make``, or an earlier result for the same key and answers.

    A mode and a profile reach a program only through the spec's answers to the questions of ops.
    Profiles that give the same answers for a call therefore share one result. The result for a
    namespace that asks nothing, or for no key, is not kept.
    """
    entries = _results.setdefault((platform, key), []) if key is not None else []
    for asked, answers, result in entries:
        if _answers(asked, platform) == answers:
            return result
    with questions() as asked_now:
        result = make()
    if asked_now:
        entries.append((tuple(asked_now), _answers(asked_now, platform), result))
    return result


def _answers(asked: Iterable[Question], platform: str) -> tuple[_Answer, ...]:
    decisions = (decide(q.op, q.direction, **q.facts) for q in asked)
    return tuple((_without_row(d.on(platform)), d.emulation) for d in decisions)


def _without_row(action: Action) -> Action:
    """Returns the action without its row, its profile and its warning.

    Rows of two profiles may state the same action, and no program contains the name of a profile. A
    warning is given when JAX lowers a program, and leaves no trace in it.
    """
    alert = action.alert
    if alert is not None:
        is_warning = alert.kind == "warn"
        alert = None if is_warning else dataclasses.replace(alert, row=None, profile="any")
    return dataclasses.replace(action, row=None if action.row is None else "any", alert=alert)


def prepare(
    function: Callable[..., Any],
    inputs: tuple[Any, ...],
    key: Hashable = None,
    *,
    exact: bool = True,
) -> Callable[[], Any]:
    """Compiles a call under the mode that holds, and returns a function that runs it.

    Calls with the same program share one executable. The key is as for ``remembered``, and
    ``exact`` is whether the bits of the result count.
    """
    arrays = _on_device(inputs)

    def compiled() -> Any:
        text = _lowered_for_process(function, arrays, key)
        kind = None if emulation.current() is None else exact and bool(_PRODUCT.search(text))
        for known in _SERVING[kind]:
            if (text, known) in _executables:
                return _executables[text, known]
        options = None if kind is None else dict(_STAND_IN_OPTIONS[kind])
        lowered = _lowered.get(text)
        if lowered is None:
            lowered, text = _lower(function, arrays)
        _executables[text, kind] = lowered.compile(options)
        return _executables[text, kind]

    keys = None if key is None else (key, exact, "compiled")
    program = remembered(compiled, device_of_process(), keys)
    return lambda: jax.tree.map(np.asarray, program(*arrays))


def lower(
    function: Callable[..., Any], inputs: tuple[Any, ...], device: str, key: Hashable = None
) -> str:
    """Returns the program of a call, lowered for a device of the spec that may be absent.

    The key is as for ``remembered``.
    """
    arrays = _on_device(inputs)
    if device == device_of_process():
        return _lowered_for_process(function, arrays, key)

    def lowered() -> str:
        return impl.testing.lower(function, *arrays, platform=device).as_text()

    return str(remembered(lowered, device, None if key is None else (key, "lowered")))


def _on_device(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    # jax.numpy.asarray would compile a program for each shape.
    arrays: tuple[Any, ...] = jax.device_put(inputs)
    return arrays


def _lowered_for_process(
    function: Callable[..., Any], arrays: tuple[Any, ...], key: Hashable
) -> str:
    """Returns the text of the program lowered for the device of this process."""
    keys = None if key is None else (key, "lowered here")
    return str(remembered(lambda: _lower(function, arrays)[1], device_of_process(), keys))


def _lower(function: Callable[..., Any], arrays: tuple[Any, ...]) -> tuple[Any, str]:
    """Returns a program lowered for the device of this process, and its text."""
    program = jax.jit(function).lower(*arrays)
    text = program.as_text()
    _lowered[text] = program
    if len(_lowered) > _MOST_LOWERED:
        _lowered.popitem(last=False)
    return program, text

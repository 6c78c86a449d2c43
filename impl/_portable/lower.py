"""Lowers an equation under the guarantee ``portable``, as the record of its primitive says.

``equation`` is called for each equation that JAX's own rule does not lower as it is. It asks for
the class of the equation (``spec/portable.toml``), finds the record of the primitive
(``impl._portable.rule``), prepares the operands as the record's fields say, and calls the record's
function of arrays, which JAX traces and lowers to StableHLO. For example, of float32 and on a GPU,

    c:f32[3] = add a:f32[3] b:f32[]

has the class ``operations``, whose answer is ``rule``. Its record takes ``flushes`` and is
elementwise. So ``b`` gets the shape of ``a``, subnormals of both become zeros,
``arithmetic.add`` adds them and seals the sum, and a subnormal sum becomes zero.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.interpreters import mlir

import spec
from impl._core import partitioning
from impl._exact import arithmetic
from impl._jax import lowering, repeated, shardings
from impl._jax.releases import OPERATIONS_ARE_MERGED
from impl._mode import modes
from impl._native import functions
from impl._portable import classes, exported, refusal, shared
from impl._portable.rule import Compute, Rule, Target
from impl._portable.rules import RULES
from impl._soft_float64 import engines

#: The errors that JAX and NumPy raise where they need a number and get a symbolic size.
_NEEDS_SIZES = (jax.errors.InconclusiveDimensionOperation, TypeError)


def equation(
    name: str,
    original: Callable[..., Any],
    anywhere: Callable[..., Any],
    context: Any,
    /,
    *operands: Any,
    **params: Any,
) -> Any:
    """Lowers an equation; the axes that XLA must not partition are whole on each device.

    JAX found the rule ``original``; ``anywhere`` is its rule for any platform, or ``original``.
    """
    record = RULES.get(name) or Rule(name)
    lower = repeated.seeing(name, functools.partial(_prepared, record, original, anywhere))
    if record.keeps_whole is None or not partitioning.is_partitioned(context):
        return lower(context, *operands, **params)
    axes = functools.partial(record.keeps_whole, context, params)
    results = lower(context, *_whole(context, axes, operands, context.avals_in), **params)
    return _whole(context, axes, results, context.avals_out)


def _whole(
    context: Any, axes: Callable[[Any], Sequence[int]], values: Sequence[Any], avals: Sequence[Any]
) -> list[Any]:
    """Returns operands or results, each with the whole of some axes on every device."""
    pairs = ((value, axes(aval)) for value, aval in zip(values, avals, strict=True))
    return [shardings.whole_along(context, value, own) if own else value for value, own in pairs]


def _prepared(
    record: Rule,
    original: Callable[..., Any],
    anywhere: Callable[..., Any],
    context: Any,
    /,
    *operands: Any,
    **params: Any,
) -> Any:
    """Lowers an equation after its parameters and its operands were prepared.

    ``guards`` comes before ``moves``, since XLA merges operations on integers too. ``moves``
    comes before the class: the class of an operation that moves elements is exact, but over several
    devices JAX's own lowering of floats loses the sign of a zero.
    """
    if record.params is not None:
        params = record.params(context, params)
    if record.guards is not None and OPERATIONS_ARE_MERGED:
        operands = _guarded(record.guards, context, operands, params)
    if record.moves and shared.is_shared(context, of_integers=record.moves_integers):
        return _moved(record, record.moves, context, operands, params)
    portability = classes.class_of(record.name, (*context.avals_in, *context.avals_out), params)
    if record.name == exported.NAME and portability is not None:
        portability = exported.on_devices(context, portability)
    if portability is None or portability.answer == "exact":
        return original(context, *operands, **params)
    if portability.answer == "rule":
        if record.by_jax == "original":
            return original(context, *operands, **params)
        operands = tuple(shared.sealed(context, operands))
        try:
            return _by_rule(record, portability, original, anywhere, context, *operands, **params)
        except _NEEDS_SIZES:
            if not _has_symbolic_sizes(context):
                raise
        portability = refusal.of_unknown_sizes(portability)
    refusal.emit(record.name, context.avals_in, portability, warn_only=modes.current().warn_only)
    return original(context, *operands, **params)


def _by_rule(
    record: Rule,
    portability: spec.Portability,
    original: Callable[..., Any],
    anywhere: Callable[..., Any],
    context: Any,
    /,
    *operands: Any,
    **params: Any,
) -> Any:
    """Lowers an equation of a class whose answer is ``rule``."""
    if record.by_jax == "native":
        return original(lowering.natively(context), *operands, **params)
    if record.by_jax == "written":
        return anywhere(context, *operands, **params)
    if portability.of_complex:
        own = dataclasses.replace(record, takes=frozenset(), simpler=None)
        record = dataclasses.replace(own, compute=record.of_complex)
        return _computed(record, context, operands, params)
    if record.is_addition and _is_added_by_jax(context, operands):
        return original(lowering.natively(context), *operands, **params)
    return _computed(record, context, operands, params)


def _is_added_by_jax(context: Any, operands: Sequence[Any]) -> bool:
    """Returns whether JAX's own addition has the same bits: of float32 or float64 on a CPU.

    XLA drops or reorders additions of known numbers: x + 0 is x, and (x + 1) + 2 is x + 3.
    """
    return (
        engines.of(context) == "native"
        and context.avals_out[0].dtype.itemsize >= np.dtype(np.float32).itemsize
        and all(map(repeated.is_of_run_time, operands))
    )


def _computed(
    record: Rule, context: Any, operands: Sequence[Any], params: Mapping[str, Any]
) -> Any:
    """Lowers the function of a record, whose own equations are lowered by JAX."""
    if record.simpler is not None:
        record = record.simpler(context.avals_in[0].shape, params) or record
    target = Target.of(context)
    compute: Any = record.compute
    keywords = {**params, **record.keywords(target)}
    function = functools.partial(compute, **keywords)
    rule: Any = engines.Lowered(context, function, multiple_results=record.has_several_results)
    with arithmetic.wide(), arithmetic.where_subnormals(are_kept=target.flushes):
        within = lowering.natively(context)
        if record.names_mesh_axes:
            return rule(within, *operands)
        with shardings.no_mesh():
            within = shardings.without_shardings(within)
            may_call = rule.engine == "native"
            if record.is_elementwise:
                within, operands = lowering.of_one_shape(within, operands)
                if record.is_inlined or not functions.has_call(record.name, within.avals_in):
                    kind = (record.name, rule.engine, *sorted(keywords.items()))
                    rule, may_call = repeated.OfAnyShape(rule, kind), False
            if target.flushes or record.is_inlined:
                return rule(within, *operands)
            results = repeated.with_call(within, rule, operands) if may_call else None
            if results is not None:
                return results
            # On a CPU, XLA would repeat the many cheap equations in each fusion that uses them.
            return lowering.called(within, f"portable_{record.name}", rule, *operands)


def _moved(
    record: Rule, moves: Compute, context: Any, operands: Sequence[Any], params: Mapping[str, Any]
) -> Any:
    """Lowers an operation on floats by the operation on unsigned integers with the same bits."""
    function = functools.partial(moves, **params, devices=shared.devices_of(context))
    rule = mlir.lower_fun(function, multiple_results=record.has_several_results)
    with shardings.no_mesh():
        return rule(shardings.without_shardings(lowering.natively(context)), *operands)


def _guarded(
    guards: Compute, context: Any, operands: Sequence[Any], params: Mapping[str, Any]
) -> Any:
    """Returns the operands of an equation as ``guards`` changes them."""
    is_partitioned = partitioning.is_partitioned(context)
    function = functools.partial(guards, **params, is_partitioned=is_partitioned)
    within = lowering.natively(context).replace(avals_out=context.avals_in)
    with shardings.no_mesh():
        return mlir.lower_fun(function)(shardings.without_shardings(within), *operands)


def _has_symbolic_sizes(context: Any) -> bool:
    """Returns whether an equation has arrays whose sizes an exported program leaves open."""
    shapes = (getattr(a, "shape", ()) for a in (*context.avals_in, *context.avals_out))
    return any(not isinstance(size, int) for shape in shapes for size in shape)

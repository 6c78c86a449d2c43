"""Partitions a primitive over devices by a rule of its own, so that sharding changes no bits.

XLA adds up a sharded axis by partial sums, whose bits depend on the number of devices. It also
loses the sign of a zero that it reads from another device, since it adds zeros to transfer data.
Here, every device gets the whole of each axis along which a primitive adds, sorts or selects, and
computes as a single device would. All other axes are free: they stay sharded. The mechanism is
``jax.experimental.custom_partitioning`` with a sharding rule of Shardy.

For a scan of [outer, n, inner] along its middle axis, the names ``("o", None, "i")`` of the operand
and of the result say that ``o`` and ``i`` are free, and that the middle axis is gathered::

    rule of Shardy             o whole_0_1 i -> o whole_1_1 i
    operand sharded along n    all-gather; each of 8 devices computes the whole result
    operand sharded along o    no data moves; each device scans its own rows
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import mlir

from impl import _jax
from impl._jax import lowering, partitions, shardings
from impl._jax.shardings import Names
from impl._version import __version__

#: The number of bits of the narrowest float that an unsigned integer stands for.
NARROWEST = 8


def is_partitioned(context: Any) -> bool:
    """Returns whether XLA may partition the operations that a lowering rule returns.

    XLA does not on one device, nor where ``shard_map`` gives each device its own arrays. An
    exported program may run on any number of devices.
    """
    if shardings.is_local(context):
        return False
    return _jax.exports(context) or shardings.devices_of(context) > 1


def as_bits(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns ``function`` on unsigned integers with the bits of its operands.

    To read elements from another device, XLA adds zeros to them, which changes no integer.

    Args:
        function: Selects elements of its operands of inexact dtypes, which all have one dtype. Its
            operands of other dtypes are indices. It returns an array, or several.
    """

    def run(*args: jax.Array) -> Any:
        selected = [jnp.issubdtype(arg.dtype, jnp.inexact) for arg in args]
        dtype = next((a.dtype for a, is_one in zip(args, selected, strict=True) if is_one), None)
        if dtype is None or jnp.finfo(dtype).bits < NARROWEST:
            return function(*args)
        if jnp.issubdtype(dtype, jnp.complexfloating):
            parts = (
                [part(a) if is_one else a for a, is_one in zip(args, selected, strict=True)]
                for part in (jnp.real, jnp.imag)
            )
            return jax.tree.map(jax.lax.complex, *(run(*of_part) for of_part in parts))
        unsigned = f"uint{jnp.finfo(dtype).bits}"
        bits = (
            jax.lax.bitcast_convert_type(a, unsigned) if is_one else a
            for a, is_one in zip(args, selected, strict=True)
        )
        return jax.tree.map(
            lambda result: jax.lax.bitcast_convert_type(result, dtype), function(*bits)
        )

    return run


def lower(
    function: Callable[..., jax.Array], names: list[Names] | None, context: Any, *args: Any
) -> Any:
    """Lowers ``function``; if XLA partitions the result, every device gets whole arrays.

    Args:
        function: Takes arrays and returns one.
        names: The names of the axes of each operand, then of the result: a name for each free axis.
            None leaves everything to XLA; the result must not depend on the order of sums then.
        context: The context of the lowering rule.
        *args: The operands of the lowering rule.
    """
    whole = mlir.lower_fun(function, multiple_results=False)
    context = lowering.with_own_sizes(context)
    if shardings.is_local(context):
        return whole(context, *args)
    with shardings.no_mesh():
        context = shardings.without_shardings(context)
        is_empty = any(0 in a.shape for a in (*context.avals_in, *context.avals_out))
        if names is None or is_empty or not is_partitioned(context):
            return whole(context, *args)
        if _jax.exports(context):
            # An exported program has no callbacks.
            results = whole(context, *map(shardings.replicated, args))
            return jax.tree.map(shardings.replicated, results)
        shardings.check_partitioner(context)
        # JAX lowers the part of a device in a module of its own.
        part = lowering.native(function) if lowering.is_native(context) else function
        call = partitions.partitioned(part, names[:-1], names[-1:])
        context = shardings.with_devices(context)
        results = mlir.lower_fun(call, multiple_results=False)(context, *args)
        partitions.name_by_content(context, results, lambda: _text(part, names, context))
        return results


def _text(function: Callable[..., Any], names: list[Names], context: Any) -> str:
    """Returns all that decides how a function is partitioned.

    They are its program for whole arrays, the axes that are free, and the version of this code.
    """
    shapes = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in context.avals_in]
    traced = jax.jit(function).trace(*shapes)
    text = traced.lower(lowering_platforms=lowering.platforms(context)).as_text()
    return f"{__version__}\n{names}\n{text}"

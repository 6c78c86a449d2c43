"""The derivative by a value that a program uses several times: one sum of the parts of its uses.

The gradient of ``((m @ m) @ m).sum()`` by ``m`` has three parts, one for each use. JAX adds them
one after the other, with two roundings, in an order that changes from release to release::

    JAX 0.10                JAX 0.12                here
    j = add_any f i         k = add_any f j         l = add_parts f i k
    l = add_any j k         l = add_any k i

Under the guarantee ``portable``, three parts or more are the operands of one equation, whose
result is their exact sum, rounded once (``impl._exact.sums.terms``). It is an equation also where
JAX differentiates outside of ``jit``. The parts of one value are in one function: a function in
``jax.jit``, or the body of a loop, returns the sum of its own parts.

The alternative, to join each ``add_any`` of a lowered program with the ``add_any`` that gives an
operand, needs no primitive. But ``x + f(x)`` passes the derivative of the sum on to ``x``, so a
network of n such blocks would get sums of 2, 3, ... n parts. Their cost grows with the square of n,
and their bits would not be the bits of a ``scan`` over the blocks.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir, xla

from impl import _jax
from impl._core import contexts
from impl._jax import Primitive, cotangents
from impl._mode import modes

#: The dtypes of parts; JAX adds the parts of other dtypes, of which ``portable`` refuses some.
DTYPES = frozenset({"float16", "bfloat16", "float32", "float64", "complex64"})

add_parts_p = Primitive("add_parts")


def register() -> None:
    """Has JAX add the parts of a derivative at once, where the guarantee ``portable`` holds."""
    cotangents.add_at_once(_keeps, add)
    cotangents.inline_calls(_holds)


def add(parts: Sequence[jax.Array]) -> jax.Array:
    """Returns the sum of the parts of a derivative, one or more; of three or more it is exact."""
    if len(parts) > 2:
        total: jax.Array = add_parts_p.bind(*cotangents.of_one_type(parts))
        return total
    return functools.reduce(cotangents.add_two, parts)


def _holds() -> bool:
    """Returns whether programs are differentiated for the guarantee ``portable`` now."""
    return modes.current().portable and bool(contexts.switch.value)


def _keeps(part: Any) -> bool:
    """Returns whether a part is a term of one exact sum; if not, JAX adds it."""
    if not _holds():
        return False
    aval = jax.typeof(part)
    return isinstance(aval, jax.core.ShapedArray) and str(aval.dtype) in DTYPES


def _type(first: Any, *others: Any) -> Any:
    shapes = {(aval.shape, str(aval.dtype)) for aval in (first, *others)}
    if len(shapes) > 1 or not others:
        raise TypeError(
            f"add_parts: got {1 + len(others)} parts with the types {sorted(shapes)}; pass two "
            "parts or more of one type"
        )
    return first


def _jvp(parts: Sequence[Any], tangents: Sequence[Any]) -> Any:
    total = add_parts_p.bind(*parts)
    known = [tangent for tangent in tangents if type(tangent) is not ad.Zero]
    return total, add(known) if known else ad.Zero(jax.typeof(total).to_tangent_aval())


def _transpose(cotangent: Any, *parts: Any) -> list[Any]:
    return [cotangent if ad.is_undefined_primal(part) else None for part in parts]


def _batch(parts: Sequence[Any], dims: Sequence[Any]) -> Any:
    size, pairs = _batch_size(parts, dims), [*zip(parts, dims, strict=True)]
    whole = [_batch_to_front(part, dim, size) for part, dim in pairs]
    batched = next(part for part, dim in zip(whole, dims, strict=True) if dim is not None)
    return add([_jax.shard_like(part, jax.typeof(batched)) for part in whole]), 0


def _batch_to_front(value: jax.Array, dim: int | None, size: int) -> jax.Array:
    """Moves the batch axis to the front; adds one by a broadcast to a value without it."""
    if dim is None:
        return jnp.broadcast_to(value[None], (size, *value.shape))
    return jnp.moveaxis(value, dim, 0)


def _batch_size(args: Sequence[jax.Array], dims: Sequence[int | None]) -> int:
    """Returns the length of the batch axis."""
    return next(arg.shape[dim] for arg, dim in zip(args, dims, strict=True) if dim is not None)


def _one_after_the_other(*parts: jax.Array) -> jax.Array:
    return functools.reduce(jnp.add, parts)


add_parts_p.def_impl(functools.partial(xla.apply_primitive, add_parts_p))
add_parts_p.def_abstract_eval(_type)
ad.primitive_jvps[add_parts_p] = _jvp
ad.primitive_transposes[add_parts_p] = _transpose
batching.primitive_batchers[add_parts_p] = _batch
# Under ``portable`` the record of the primitive lowers it, and it is traced under no other mode.
mlir.register_lowering(add_parts_p, mlir.lower_fun(_one_after_the_other, multiple_results=False))

"""Products, quotients and roots with the same bits on every device, which can be differentiated.

A compiler may contract a product with a sum, or approximate a quotient or a square root. Ops that
promise bits use these functions instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir, xla

from impl._core.jax_internals import Primitive
from impl._core.jax_internals.lowering import Traced
from impl._core.numerics import (
    accumulator,
    convert,
    isolate,
    product,
    quotient,
    quotient_by_division,
    square_root,
)
from impl._core.shard_axes import aligned
from impl._primitives import _common


def multiply(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a * b``, rounded before a sum uses it; computes float16 and bfloat16 in float32.

    A product of complex numbers is made of four products, each rounded, and two sums.

    Args:
        a: Any shape and dtype.
        b: The dtype of ``a``; broadcast to the shape of ``a``.

    Returns:
        Shape and dtype of ``a``.
    """
    return _bind(multiply_p, a, b)


def divide(a: jax.Array, b: jax.Array) -> jax.Array:
    """Returns ``a / b``, with the bits of IEEE 754 on every device.

    float16 and bfloat16 are computed in float32. XLA turns a division by a broadcast value into a
    multiplication by its reciprocal. Its division of float32 on a GPU may be off by 2 units in the
    last place.

    Args:
        a: Floats, of any shape.
        b: The dtype of ``a``; broadcast to the shape of ``a``.

    Returns:
        Shape and dtype of ``a``. Subnormal operands and results may be flushed to zero.
    """
    return _bind(divide_p, a, b)


def sqrt(value: jax.Array) -> jax.Array:
    """Returns the square root, with the bits of IEEE 754 on every device.

    float16 and bfloat16 are computed in float32. XLA approximates roots of float32 on a GPU.

    Args:
        value: Floats, of any shape.

    Returns:
        Shape and dtype of ``value``. Subnormal operands may count as zero.
    """
    return sqrt_p.bind(value)  # type: ignore[no-any-return]


def isolated(value: jax.Array) -> jax.Array:
    """Returns ``value``, rounded before a sum of the caller uses it.

    All other primitives round their operands so. An op that adds by itself calls this function for
    its arrays, since the user's program may compute them by products.
    """
    return isolate_p.bind(value)  # type: ignore[no-any-return]


def _bind(primitive: Primitive, a: jax.Array, b: jax.Array) -> jax.Array:
    return primitive.bind(*aligned(a, jnp.broadcast_to(b, a.shape)))  # type: ignore[no-any-return]


def _new_primitive(
    name: str, function: Callable[..., jax.Array], cpu: Callable[..., jax.Array] | None = None
) -> Primitive:
    """Returns a primitive of arrays of one shape.

    Args:
        name: The name of the primitive.
        function: The lowering, which gets operands in the dtype of accumulators.
        cpu: The lowering for a CPU; None for the same.
    """
    primitive = Primitive(name)
    primitive.def_impl(functools.partial(xla.apply_primitive, primitive))
    primitive.def_abstract_eval(lambda a, *_: a.update(weak_type=False))
    mlir.register_lowering(primitive, _rule(function))
    if cpu is not None:
        mlir.register_lowering(primitive, _rule(cpu), platform="cpu")
    batching.primitive_batchers[primitive] = functools.partial(_batch, primitive)
    return primitive


def _rule(function: Callable[..., jax.Array]) -> Callable[..., Any]:
    def lower(*operands: jax.Array) -> jax.Array:
        dtype = operands[0].dtype
        wide = (convert(operand, accumulator(dtype)) for operand in operands)
        return convert(function(*wide), dtype)

    return Traced(lower).rule(multiple_results=False)


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    if not jnp.issubdtype(a.dtype, jnp.complexfloating):
        return product(a, b)
    re = product(a.real, b.real) - product(a.imag, b.imag)
    im = product(a.real, b.imag) + product(a.imag, b.real)
    return jax.lax.complex(re, im)


def _batch(primitive: Primitive, args: Any, dims: Any) -> Any:
    size = _common.batch_size(args, dims)
    batched = [_common.batch_to_front(arg, dim, size) for arg, dim in zip(args, dims, strict=True)]
    return primitive.bind(*batched), 0


def _jvp_of_quotient(primals: Any, tangents: Any) -> Any:
    a, b = primals
    out = divide(a, b)
    parts = []
    if type(tangents[0]) is not ad.Zero:
        parts.append(divide(tangents[0], b))
    if type(tangents[1]) is not ad.Zero:
        parts.append(divide(multiply(tangents[1], -out), b))
    return out, functools.reduce(jnp.add, parts) if parts else _common.zero_tangent(out)


def _transpose_quotient(cotangent: Any, a: Any, b: Any) -> Any:
    return ad.Zero(a.aval) if type(cotangent) is ad.Zero else divide(cotangent, b), None


def _jvp_of_sqrt(primals: Any, tangents: Any) -> Any:
    out = sqrt(*primals)
    if type(tangents[0]) is ad.Zero:
        return out, _common.zero_tangent(out)
    return out, multiply(tangents[0], divide(jnp.full_like(out, 0.5), out))


def _jvp_of_isolated(primals: Any, tangents: Any) -> Any:
    out = isolated(*primals)
    return out, _common.zero_tangent(out) if type(tangents[0]) is ad.Zero else isolated(*tangents)


def _transpose_isolated(cotangent: Any, value: Any) -> Any:
    return (ad.Zero(value.aval) if type(cotangent) is ad.Zero else isolated(cotangent),)


isolate_p = _new_primitive("samebits_isolate", isolate)
sqrt_p = _new_primitive("samebits_sqrt", square_root)
multiply_p = _new_primitive("samebits_multiply", _product)
divide_p = _new_primitive("samebits_divide", quotient, cpu=quotient_by_division)
#: The primitives that correct a quotient or a root of the device. It may be off by a few units in
#: the last place, which nobody knows of a TPU.
APPROXIMATED = frozenset({divide_p, sqrt_p})
ad.defbilinear(multiply_p, lambda ct, _, b: multiply(ct, b), lambda ct, a, _: multiply(ct, a))
ad.primitive_jvps[divide_p] = _jvp_of_quotient
ad.primitive_transposes[divide_p] = _transpose_quotient
ad.primitive_jvps[isolate_p] = _jvp_of_isolated
ad.primitive_transposes[isolate_p] = _transpose_isolated
ad.primitive_jvps[sqrt_p] = _jvp_of_sqrt

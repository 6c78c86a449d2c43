"""Derivatives that releases of JAX write in different ways, in one form for all of them.

The guarantee ``portable`` fixes the bits of each equation, but a release of JAX decides which
equations a derivative has. Here some derivatives are written with primitives that every supported
release has, so that a program and its gradients are the same jaxpr everywhere. For example, the
derivative of ``asin``::

    JAX 0.10   t * rsqrt(1 - square(x))
    JAX 0.12   t * rsqrt(one_minus_square(x))
    here       t * rsqrt((1 - x) * (1 + x))

These rules hold for real floats, and only while a program is traced under the guarantee.

The derivative by a value that a program uses several times is a sum of parts. The gradient of
``((m @ m) @ m).sum()`` by ``m`` has three parts, one for each use. JAX adds them one after the
other, with two roundings, in an order that changes from release to release::

    JAX 0.10                JAX 0.12                here
    j = add_any f i         k = add_any f j         l = add_parts f i k
    l = add_any j k         l = add_any k i

Three parts or more are the operands of one equation, whose result is their exact sum, rounded once
(``impl._exact.sums.reduction``). It is an equation also where JAX differentiates outside of
``jit``. The parts of one value are in one function: a function in ``jax.jit``, or the body of a
loop, returns the sum of its own parts.

The alternative, to join each ``add_any`` of a lowered program with the ``add_any`` that gives an
operand, needs no primitive. But ``x + f(x)`` passes the derivative of the sum on to ``x``, so a
network of n such blocks would get sums of 2, 3, ... n parts. Their cost grows with the square of n,
and their bits would not be the bits of a ``scan`` over the blocks.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
from jax import lax
from jax.interpreters import ad, batching, mlir, xla

from impl import _jax
from impl._core import contexts
from impl._core.lax_functions import clipped
from impl._jax import Primitive, cotangents, initializers
from impl._mode import modes

#: The derivative of a function, from a tangent, the operand and the result.
Derivative: TypeAlias = Callable[[jax.Array, jax.Array, jax.Array], jax.Array]


def _like(value: jax.Array, number: float) -> jax.Array:
    return lax.full_like(value, number)


def _complement(value: jax.Array) -> jax.Array:
    """Returns 1 - x * x, without the loss of digits near 1."""
    one = _like(value, 1)
    return lax.mul(lax.sub(one, value), lax.add(one, value))


def _erf(tangent: jax.Array, value: jax.Array, _: jax.Array) -> jax.Array:
    slope = lax.exp(lax.neg(lax.mul(value, value)))
    return lax.mul(tangent, lax.mul(_like(value, 2 / math.sqrt(math.pi)), slope))


def _acosh(tangent: jax.Array, value: jax.Array, _: jax.Array) -> jax.Array:
    one = _like(value, 1)
    below, above = lax.rsqrt(lax.sub(value, one)), lax.rsqrt(lax.add(value, one))
    return lax.mul(tangent, lax.mul(below, above))


#: The derivative of each function, by the name of its primitive.
DERIVATIVES: Mapping[str, Derivative] = {
    "acos": lambda t, x, _: lax.mul(t, lax.neg(lax.rsqrt(_complement(x)))),
    "acosh": _acosh,
    "asin": lambda t, x, _: lax.mul(t, lax.rsqrt(_complement(x))),
    "asinh": lambda t, x, _: lax.mul(t, lax.rsqrt(lax.add(lax.mul(x, x), _like(x, 1)))),
    "atanh": lambda t, x, _: lax.div(t, _complement(x)),
    "erf": _erf,
    "erfc": lambda t, x, y: lax.neg(_erf(t, x, y)),
    "expm1": lambda t, x, _: lax.mul(t, lax.exp(x)),
    "log2": lambda t, x, _: lax.div(lax.div(t, x), lax.log(_like(x, 2))),
    "logistic": lambda t, _, y: lax.mul(t, lax.mul(y, lax.sub(_like(y, 1), y))),
    "tanh": lambda t, _, y: lax.mul(t, _complement(y)),
}


def _cholesky(original: Callable[..., Any], primals: Any, tangents: Any, **params: Any) -> Any:
    """Makes a tangent symmetric, from its lower triangle.

    JAX 0.12 does so, and JAX 0.10 does not: their gradients have different values. With JAX 0.12 it
    happens twice, and the second time changes nothing.
    """
    (tangent,) = tangents
    lower, rows, columns = (jnp.tril(tangent), tangent.ndim - 2, tangent.ndim - 1)
    axes = (*range(rows), columns, rows)
    tangent = lax.add(lower, lax.transpose(jnp.tril(tangent, -1), axes))
    return original(primals, (tangent,), **params)


def _polynomial(_: Callable[..., Any], primals: Any, tangents: Any, **__: Any) -> Any:
    """Differentiates the steps of ``jnp.polyval``, as JAX before 0.12 does.

    JAX 0.12 has a primitive for ``jnp.polyval`` and evaluates the derivative as another polynomial,
    with other roundings.
    """
    active = [i for i, tangent in enumerate(tangents) if type(tangent) is not ad.Zero]

    def steps(*chosen: jax.Array) -> jax.Array:
        operands = list(primals)
        for i, value in zip(active, chosen, strict=True):
            operands[i] = value
        shape = jnp.broadcast_shapes(*(operand.shape for operand in operands))
        x, *coefficients = (jnp.broadcast_to(operand, shape) for operand in operands)
        rows = jnp.stack(coefficients[::-1])
        # In a shard_map, the zeros have the type of a step: it varies over the axes of both.
        zeros = lax.full_like(x * rows[0], 0)
        return lax.scan(lambda y, row: (y * x + row, None), zeros, rows, unroll=16)[0]

    values, changes = ([each[i] for i in active] for each in (primals, tangents))
    return jax.jvp(steps, values, changes)


def _eigh(original: Callable[..., Any], primals: Any, tangents: Any, **params: Any) -> Any:
    """Subtracts eigenvalues before it adds ones to the diagonal, as JAX 0.12 does.

    JAX 0.10 adds the ones to the eigenvalues first, and so rounds them.
    """
    (vectors, values), (_, slopes) = original(primals, tangents, **params)
    multiply = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)
    turned = multiply(multiply(jnp.matrix_transpose(vectors), tangents[0]), vectors)
    ones = jnp.eye(values.shape[-1], dtype=values.dtype)
    gaps = values[..., None, :] - values[..., :, None]
    factors = lax.integer_pow(gaps + ones, -1) - ones
    return (vectors, values), (multiply(vectors, factors * turned), slopes)


def _scatter_extreme(
    original: Callable[..., Any], primals: Any, tangents: Any, **params: Any
) -> Any:
    """Clips the indices before JAX differentiates, as JAX 0.12 does in each step of its rule.

    JAX 0.10 counts no update for an index that it clips, and divides by the count.
    """
    value, indices, updates = primals
    numbers = params["dimension_numbers"]
    if params["mode"] == lax.GatherScatterMode.CLIP and numbers.scatter_dims_to_operand_dims:
        single = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
        axes = [axis for axis in range(value.ndim) if axis not in single]
        windows = zip(axes, (updates.shape[d] for d in numbers.update_window_dims), strict=True)
        sizes = dict.fromkeys(single, 1) | dict(windows)
        last = [value.shape[d] - sizes[d] for d in numbers.scatter_dims_to_operand_dims]
        indices = clipped(indices, *last)
    return original((value, indices, updates), tangents, **params)


#: The rules that replace JAX's whole rule for a derivative, by the name of the primitive.
RULES: dict[str, Callable[..., Any]] = {
    "cholesky": _cholesky,
    "eigh": _eigh,
    "polynomial": _polynomial,
    "scatter-max": _scatter_extreme,
    "scatter-min": _scatter_extreme,
}


def register() -> None:
    """Gives functions a derivative that reads the mode when a program is traced.

    JAX adds the parts of a derivative at once, and the initializers of normal numbers multiply
    their factors in one order.
    """
    cotangents.add_at_once(_keeps, add)
    cotangents.inline_calls(_holds)
    initializers.pin_scaled_normal(_holds)
    primitives = {primitive.name: primitive for primitive in ad.primitive_jvps}
    of_elements = {
        name: functools.partial(_of_elements, primitives[name], derivative)
        for name, derivative in DERIVATIVES.items()
        if name in primitives
    }
    for name, replacement in (RULES | of_elements).items():
        primitive = primitives.get(name)
        if primitive is not None:
            original = ad.primitive_jvps[primitive]
            ad.primitive_jvps[primitive] = functools.partial(_rule, original, replacement)


def _rule(
    original: Callable[..., Any],
    replacement: Callable[..., Any],
    primals: Any,
    tangents: Any,
    **params: Any,
) -> Any:
    is_complex = any(jnp.issubdtype(each.dtype, jnp.complexfloating) for each in primals)
    if is_complex or not _holds() or all(type(tangent) is ad.Zero for tangent in tangents):
        return original(primals, tangents, **params)
    return replacement(original, primals, tangents, **params)


def _holds() -> bool:
    """Returns whether programs are traced for the guarantee ``portable`` now."""
    return modes.current().portable and bool(contexts.switch.value)


def _of_elements(
    primitive: Primitive,
    derivative: Derivative,
    _: Callable[..., Any],
    primals: Any,
    tangents: Any,
    **params: Any,
) -> Any:
    """Differentiates a function of elements, whose derivative ``DERIVATIVES`` has."""
    (value,), (tangent,) = primals, tangents
    result = primitive.bind(value, **params)
    return result, derivative(tangent, value, result)


#: The dtypes of parts; JAX adds the parts of other dtypes, of which ``portable`` refuses some.
DTYPES = frozenset({"float16", "bfloat16", "float32", "float64", "complex64", "complex128"})

add_parts_p = Primitive("add_parts")


def add(parts: Sequence[jax.Array]) -> jax.Array:
    """Returns the sum of the parts of a derivative, one or more; of three or more it is exact."""
    if len(parts) > 2:
        total: jax.Array = add_parts_p.bind(*cotangents.of_one_type(parts))
        return total
    return functools.reduce(cotangents.add_two, parts)


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


def _jvp_of_parts(parts: Sequence[Any], tangents: Sequence[Any]) -> Any:
    total = add_parts_p.bind(*parts)
    known = [tangent for tangent in tangents if type(tangent) is not ad.Zero]
    return total, add(known) if known else ad.Zero(jax.typeof(total).to_tangent_aval())


def _batch(parts: Sequence[Any], dims: Sequence[Any]) -> Any:
    pairs = [*zip(parts, dims, strict=True)]
    size = next(part.shape[dim] for part, dim in pairs if dim is not None)
    whole = [batching.bdim_at_front(part, dim, size) for part, dim in pairs]
    batched = next(part for part, dim in zip(whole, dims, strict=True) if dim is not None)
    return add([_jax.shard_like(part, jax.typeof(batched)) for part in whole]), 0


add_parts_p.def_impl(functools.partial(xla.apply_primitive, add_parts_p))
add_parts_p.def_abstract_eval(_type)
ad.primitive_jvps[add_parts_p] = _jvp_of_parts
ad.primitive_transposes[add_parts_p] = lambda cotangent, *parts: [
    cotangent if ad.is_undefined_primal(part) else None for part in parts
]
batching.primitive_batchers[add_parts_p] = _batch
# Under ``portable`` the record of the primitive lowers it, and it is traced under no other mode.
_one_by_one = mlir.lower_fun(
    lambda *parts: functools.reduce(jnp.add, parts), multiple_results=False
)
mlir.register_lowering(add_parts_p, _one_by_one)

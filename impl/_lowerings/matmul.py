"""Products of matrices, [batch, m, k] by [batch, k, n]: every way to compute them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from impl._core.numerics import accumulator, convert
from impl._core.shard_axes import vary_like
from impl._kernels import matmul as kernels
from impl._kernels.triton import MAX_ELEMENTS, Launch

#: What the configuration jax_default_matmul_precision may say that lets float32 be rounded to
#: fewer bits before it is multiplied.
_LESS_PRECISE = frozenset(
    {"default", "fastest", "bfloat16", "high", "tensorfloat32", "bfloat16_3x", "TF32_TF32_F32"}
)


def rounds_first(precision: str) -> bool:
    """Whether a precision lets float32 be rounded to fewer bits before it is multiplied."""
    return precision in _LESS_PRECISE


def dot(a: jax.Array, b: jax.Array, precision: str) -> jax.Array:
    """The product by XLA, in the type that sums are kept in."""
    wide = accumulator(a.dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a.dtype
    return jax.lax.dot_general(
        a.astype(wide), b.astype(wide), (((2,), (1,)), ((0,), (0,))), precision=precision
    )


def xla(a: jax.Array, b: jax.Array, *, precision: str) -> jax.Array:
    """By XLA's product; on a CPU its order depends on nothing but sizes and number of threads."""
    return convert(dot(a, b, precision), a.dtype)


def xla_atomic(a: jax.Array, b: jax.Array, *, precision: str) -> jax.Array:
    """By XLA's product of the operands as they are, in whatever order."""
    return jax.lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,))), precision=precision)


def kernel(a: jax.Array, b: jax.Array, *, precision: str, launch: Launch) -> jax.Array:
    """By a kernel that no tuning changes; integers, which are exact in any order, by XLA."""
    run = functools.partial(kernel, precision=precision, launch=launch)
    batch, rows, terms = a.shape
    columns = b.shape[2]
    if 0 in (batch, rows, columns, terms):
        return vary_like(jnp.zeros((batch, rows, columns), a.dtype), a, b)
    if jnp.iscomplexobj(a):
        return by_parts(run, a, b)
    if not jnp.issubdtype(a.dtype, jnp.floating):
        return xla(a, b, precision=precision)
    if max(a.size, b.size, batch * rows * columns) > MAX_ELEMENTS:
        return halved(run, a, b)
    sizes = (batch, rows, columns, terms)
    return kernels.products(
        a,
        b,
        kernels.Product(*sizes, part=kernels.part_of(*sizes)),
        lambda n, row, term: ((n * rows + row) * terms + term, True),
        lambda n, term, column: ((n * terms + term) * columns + column, True),
        launch=launch,
        tf32=rounds_first(precision),
        apart=True,
    )


def by_parts(
    function: Callable[[jax.Array, jax.Array], jax.Array], a: jax.Array, b: jax.Array
) -> jax.Array:
    """A bilinear ``function`` of real arrays, applied to complex ones."""
    real = function(a.real, b.real) - function(a.imag, b.imag)
    imaginary = function(a.real, b.imag) + function(a.imag, b.real)
    return jax.lax.complex(real, imaginary)


def halved(
    function: Callable[[jax.Array, jax.Array], jax.Array], a: jax.Array, b: jax.Array
) -> jax.Array:
    """Two products in place of one whose operands or result are too large for 32-bit offsets."""
    batch, rows, terms = a.shape
    columns = b.shape[2]
    if batch > 1:
        half = batch // 2
        return jnp.concatenate([function(a[:half], b[:half]), function(a[half:], b[half:])])
    if terms == max(rows, columns, terms):
        half = terms // 2
        return function(a[:, :, :half], b[:, :half]) + function(a[:, :, half:], b[:, half:])
    if rows >= columns:
        half = rows // 2
        return jnp.concatenate([function(a[:, :half], b), function(a[:, half:], b)], 1)
    half = columns // 2
    return jnp.concatenate([function(a, b[:, :, :half]), function(a, b[:, :, half:])], 2)

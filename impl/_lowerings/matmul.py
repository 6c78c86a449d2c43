"""Lowerings of matrix products, [batch, m, k] by [batch, k, n]."""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp

from impl import _kernels
from impl._core.numerics import accumulator, convert, isolate
from impl._core.shard_axes import vary_like
from impl._kernels.launch import MAX_ELEMENTS, Launch

#: The values of jax_default_matmul_precision that let XLA round float32 to fewer bits before it
#: multiplies.
_LESS_PRECISE = frozenset(
    {"default", "fastest", "bfloat16", "high", "tensorfloat32", "bfloat16_3x", "TF32_TF32_F32"}
)


def rounds_operands(precision: str) -> bool:
    """Returns whether a precision lets float32 be rounded to fewer bits before it is multiplied."""
    return precision in _LESS_PRECISE


def dot(a: jax.Array, b: jax.Array, precision: str) -> jax.Array:
    """Computes the product by XLA, in the accumulator dtype."""
    dtype = accumulator(a.dtype) if jnp.issubdtype(a.dtype, jnp.floating) else a.dtype
    return jax.lax.dot_general(
        a.astype(dtype), b.astype(dtype), (((2,), (1,)), ((0,), (0,))), precision=precision
    )


def ordered_xla(a: jax.Array, b: jax.Array, *, precision: str) -> jax.Array:
    """Computes the product by XLA.

    On a CPU the order of its terms depends only on the sizes and on the number of threads.
    """
    return convert(dot(a, b, precision), a.dtype)


def ordered_cpu(a: jax.Array, b: jax.Array, *, precision: str) -> jax.Array:
    """Computes ``ordered_xla`` from operands that need not be rounded yet.

    Operands are only multiplied, so XLA contracts them with no sum. An operand is rounded first if
    it is converted to the accumulator's dtype, or complex: complex products add.
    """
    if a.dtype != accumulator(a.dtype) or jnp.iscomplexobj(a):
        a, b = isolate(a), isolate(b)
    return ordered_xla(a, b, precision=precision)


def atomic_xla(a: jax.Array, b: jax.Array, *, precision: str) -> jax.Array:
    """Computes the product by XLA, in the dtype of the operands and in any order."""
    return jax.lax.dot_general(a, b, (((2,), (1,)), ((0,), (0,))), precision=precision)


def ordered_kernel(a: jax.Array, b: jax.Array, *, precision: str, launch: Launch) -> jax.Array:
    """Computes the product by a kernel that no autotuning changes.

    XLA multiplies integers, which are exact in any order. Without kernels it multiplies all, and
    repeats only if it times no kernels of its own (``impl.compile_options``).
    """
    if not launch.has_kernels:
        return ordered_xla(a, b, precision=precision)
    run = functools.partial(ordered_kernel, precision=precision, launch=launch)
    batch, rows, terms = a.shape
    columns = b.shape[2]
    if 0 in (batch, rows, columns, terms):
        return vary_like(jnp.zeros((batch, rows, columns), a.dtype), a, b)
    if jnp.iscomplexobj(a):
        return bilinear_by_parts(run, a, b)
    if not jnp.issubdtype(a.dtype, jnp.floating):
        return ordered_xla(a, b, precision=precision)
    if max(a.size, b.size, batch * rows * columns) > MAX_ELEMENTS:
        return _halved(run, a, b)
    return _kernels.matmul.matrices(a, b, launch=launch, tf32=rounds_operands(precision))


def bilinear_by_parts(
    function: Callable[[jax.Array, jax.Array], jax.Array], a: jax.Array, b: jax.Array
) -> jax.Array:
    """Applies a bilinear ``function`` of real arrays to complex ones."""
    real = function(a.real, b.real) - function(a.imag, b.imag)
    imaginary = function(a.real, b.imag) + function(a.imag, b.real)
    return jax.lax.complex(real, imaginary)


def _halved(
    function: Callable[[jax.Array, jax.Array], jax.Array], a: jax.Array, b: jax.Array
) -> jax.Array:
    """Computes two products instead of one that is too large for 32-bit offsets."""
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

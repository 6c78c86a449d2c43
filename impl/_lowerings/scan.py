"""Lowerings of running folds along the middle axis of [outer, n, inner], for both paths."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

import spec
from impl._core.numerics import accumulator, convert, fence, product
from impl._core.scan_combines import COMBINES, Combine, Parts, Running, joined, split
from impl._kernels import scan as kernels
from impl._kernels.launch import MAX_ELEMENTS, Launch
from impl._lowerings import scan_cpu

#: From parts to their running folds along the middle axis, left to right.
Fold = Callable[[Parts, Combine], Parts]
Scan = Callable[..., Any]


def on_parts(function: Scan) -> Scan:
    """Decorates ``function`` to scan parts, in the accumulator dtype and from left to right.

    The parts are those of all operands. The result is that of the last operand.
    """

    @functools.wraps(function)
    def run(*operands: jax.Array, by: Running, reverse: bool = False, **options: Any) -> jax.Array:
        dtype = operands[-1].dtype
        if operands[-1].size == 0:
            return operands[-1]
        parts = tuple(
            convert(part, accumulator(part.dtype)) for value in operands for part in split(value)
        )
        if reverse:
            parts = tuple(jnp.flip(part, 1) for part in parts)
        out = function(parts, by=by, **options)[-len(split(operands[-1])) :]
        if reverse:
            out = tuple(jnp.flip(part, 1) for part in out)
        return convert(joined(out), dtype)

    return run


def block_length() -> int:
    """Returns the length of a block in the spec's blocked scan."""
    return int(spec.load().orders["blocked_scan"].parameters["block"])


@on_parts
def ordered_cpu(parts: Parts, *, by: Running) -> Parts:
    """Computes the spec's blocked scan, tile by tile."""
    # The factors of a recurrence are not a part of its result.
    first = len(parts) // 2 if by == "affine" else 0
    results = tuple(range(first, len(parts)))
    return scan_cpu.scan(scan_cpu.reader(*parts), parts, COMBINES[by], block_length(), results)


@on_parts
def ordered_xla(parts: Parts, *, by: Running) -> Parts:
    """Computes the spec's blocked scan by loops over vectors."""
    return _blocked_scan(parts, COMBINES[by], _fold)


@on_parts
def ordered_kernel(parts: Parts, *, by: Running, launch: Launch) -> Parts:
    """Computes the spec's blocked scan by kernels, with one lane for each column of a block."""
    outer, n, inner = parts[0].shape
    blocks = -(-n // block_length())
    padded = n if blocks == 1 else blocks * block_length()
    if len(parts) * outer * padded * inner > MAX_ELEMENTS:
        return _blocked_scan(parts, COMBINES[by], _fold)
    return _blocked_scan(parts, COMBINES[by], functools.partial(kernels.fold_blocks, launch=launch))


@on_parts
def atomic_xla(parts: Parts, *, by: Running) -> Parts:
    """Calls XLA's own cumulative sum, which chooses its own order."""
    del by
    return tuple(jax.lax.cumsum(part, axis=1) for part in parts)


def atomic_kernel(values: jax.Array, *, launch: Launch, **options: Any) -> jax.Array:
    """Computes running sums, with the carries of chunks added by atomics."""
    numbers = 2 if jnp.iscomplexobj(values) else 1
    if jnp.issubdtype(values.dtype, jnp.integer) or numbers * values.size > MAX_ELEMENTS:
        # The backend's atomics take floats alone. Integers have the same sum in every order.
        return atomic_xla(values, **options)  # type: ignore[no-any-return]
    return _atomic_sum(values, launch=launch, **options)  # type: ignore[no-any-return]


@on_parts
def _atomic_sum(parts: Parts, *, by: Running, launch: Launch) -> Parts:
    del by
    outer, n, inner = parts[0].shape
    rows = jnp.moveaxis(jnp.stack(parts), 2, 3).reshape(-1, n)
    out = kernels.atomic_carry(rows, launch=launch)
    return tuple(jnp.moveaxis(out.reshape(len(parts), outer, inner, n), 3, 2))


def _fold(parts: Parts, combine: Combine) -> Parts:
    """Computes running folds over the middle axis, left to right."""
    return tuple(
        jnp.moveaxis(out, 0, 1)
        for out in scan_cpu.fold(tuple(jnp.moveaxis(part, 1, 0) for part in parts), combine)
    )


def _blocked_scan(parts: Parts, combine: Combine, fold: Fold) -> Parts:
    """Folds blocks, then their totals, and combines each block with the carry into it."""
    outer, n, inner = parts[0].shape
    block = block_length()
    if n <= block:
        return fold(parts, combine)
    blocks = -(-n // block)
    ends = [(0, 0), (0, blocks * block - n), (0, 0)]
    shape = (outer, blocks, block, inner)
    apart = tuple(jnp.pad(part, ends).reshape(outer * blocks, block, inner) for part in parts)
    local = tuple(part.reshape(shape) for part in fold(apart, combine))
    carries = fold(tuple(fence(part[:, :, -1]) for part in local), combine)
    rolled = (jnp.roll(carry, 1, axis=1)[:, :, None] for carry in carries)
    before = tuple(jnp.broadcast_to(part, shape) for part in rolled)
    carried = combine(before, local, product)
    is_first = (jnp.arange(blocks) == 0)[:, None, None]
    return tuple(
        jnp.where(is_first, a, b).reshape(outer, blocks * block, inner)[:, :n]
        for a, b in zip(local, carried, strict=True)
    )

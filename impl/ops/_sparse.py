"""Products with a sparse left operand: each of its elements adds a row to one of the result."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax.experimental.sparse import BCOO

from impl.decide import Decision
from impl.manual_axes import vary_like
from impl.numerics import accumulator, convert
from impl.primitives.arithmetic import multiply
from impl.primitives.gather import gather
from impl.primitives.scatter_accumulate import scatter_accumulate


def product(input: BCOO, other: jax.Array, *, decision: Decision, pullback: Decision) -> jax.Array:
    """[..., m, k] by [..., k, n], where elements are taken in the order in which they are stored.

    Elements of one position are added up. float16 and bfloat16 are added up in float32 and rounded
    once.

    Raises:
        NotImplementedError: ``input`` has dense dimensions, or two batch dimensions.
    """
    if input.n_dense or input.n_batch > 1:
        raise NotImplementedError(
            "a sparse operand must have no dense dimension and at most one batch dimension, but "
            f"got n_dense={input.n_dense} and n_batch={input.n_batch}"
        )
    wide = accumulator(input.dtype) if jnp.issubdtype(input.dtype, jnp.floating) else input.dtype
    shape = (*input.shape[:-1], other.shape[-1])
    outer = math.prod(input.shape[: input.n_batch])
    data = convert(input.data, wide).reshape(outer, input.nse, 1)
    rows, columns = _places(input, outer)
    # Read at 0 as often as the result has columns: what adds up gradients then keeps an order too.
    every = jnp.zeros((1, shape[-1], 1), jnp.int32)
    factors = gather(data.reshape(outer * input.nse, 1, 1), every, pullback=pullback)
    factors = factors.reshape(outer, data.shape[1], shape[-1])
    dense = convert(other, wide).reshape(
        outer, math.prod(other.shape[input.n_batch : -1]), shape[-1]
    )
    terms = multiply(factors, gather(dense, columns, pullback=pullback))
    zeros = vary_like(
        jnp.zeros((outer, math.prod(shape[input.n_batch : -1]), shape[-1]), wide), terms
    )
    total = scatter_accumulate(zeros, rows, terms, decision=decision)
    return convert(total.reshape(shape), input.dtype)


def _places(input: BCOO, outer: int) -> tuple[jax.Array, jax.Array]:
    """Of each element, its row and its column, counted through what is no batch dimension.

    Elements beyond an edge are BCOO's padding: their row is out of range, so that they are dropped.
    """
    sizes = input.shape[input.n_batch :]
    indices = input.indices.reshape(outer, input.nse, len(sizes))
    inside = ((indices >= 0) & (indices < jnp.asarray(sizes, indices.dtype))).all(axis=-1)
    before = jnp.zeros_like(indices[..., 0])
    for place, size in enumerate(sizes[:-2]):
        before = before * size + indices[..., place]
    row, column = (before * sizes[i] + indices[..., i] for i in (-2, -1))
    row = jnp.where(inside, row, math.prod(sizes[:-1]))
    return row[..., None], jnp.where(inside, column, 0)[..., None]

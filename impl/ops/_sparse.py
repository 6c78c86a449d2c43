"""Products of a sparse matrix, or of a batch of them, with a dense one.

The module checks BCOO and BCSR operands, brings both to elements with rows and columns, and calls
the sparse primitive.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import eager
from impl._core.axes import index_dtype, within
from impl._core.numerics import accumulator, convert
from impl._mode.decide import Decision
from impl._primitives.sparse_matmul import sparse_matmul

if TYPE_CHECKING:
    from jax.experimental.sparse import BCOO, BCSR

#: The module of sparse matrices. It imports SciPy, which takes longer than all of this package:
#: where nobody imported it, nothing is sparse.
_MODULE = "jax.experimental.sparse"
#: A sparse operand.
Sparse: TypeAlias = "BCOO | BCSR"


def is_sparse(value: Any) -> TypeGuard[Sparse]:
    """Returns whether a value is a BCOO or a BCSR."""
    return _is_one_of(value, "BCOO", "BCSR")


def _has_coordinates(value: Sparse) -> TypeGuard[BCOO]:
    return _is_one_of(value, "BCOO")


def _is_one_of(value: Any, *names: str) -> bool:
    module = sys.modules.get(_MODULE)
    return isinstance(value, tuple(getattr(module, name) for name in names if module is not None))


def check(function: str, name: str, value: Sparse) -> None:
    """Refuses dense dimensions, and indices that are out of range.

    An index that equals the length of its dimension is padding and is accepted; so is an element
    of a BCSR that belongs to no row. Under ``jit`` the indices are not known; elements whose index
    is out of range are dropped there.

    Raises:
        RuntimeError: ``value`` has a dense dimension or an index that is out of range.
    """
    if value.n_dense:
        raise RuntimeError(
            f"{function}(): {name} must have 0 dense dims, but has {value.n_dense}; make them "
            "sparse (bcoo_update_layout)"
        )
    shape, first = value.shape, value.n_batch if _has_coordinates(value) else value.ndim - 1

    def check_indices(indices: np.ndarray, stored: Any = True) -> None:
        outside = stored & ((indices < 0) | (indices > np.asarray(shape[first:], np.int64)))
        if outside.any():
            position = tuple(int(i) for i in np.argwhere(outside)[0])
            dim = first + position[-1] if len(shape) - first > 1 else first
            raise RuntimeError(
                f"{function}(): index {indices[position]} is out of bounds for dimension {dim} "
                f"with size {shape[dim]}, at position {list(position)} of the indices of '{name}'; "
                f"allowed are 0 to {shape[dim] - 1}, and {shape[dim]} for padding"
            )

    def check_rows(indices: np.ndarray, starts: np.ndarray) -> None:
        _check_starts(function, name, starts, indices.shape[-1])
        check_indices(indices, np.arange(indices.shape[-1]) < starts[..., -1:])

    if _has_coordinates(value):
        eager.when_known(check_indices, value.indices)
    else:
        rows: Any = value  # A type guard does not narrow the type in the other branch.
        eager.when_known(check_rows, rows.indices, rows.indptr)


def _check_starts(function: str, name: str, starts: np.ndarray, elements: int) -> None:
    rising = (np.diff(starts, axis=-1) >= 0).all()
    if not rising or (starts[..., 0] != 0).any() or (starts[..., -1] > elements).any():
        raise RuntimeError(
            f"{function}(): the indptr of '{name}' must start with 0, never fall, and end with at "
            f"most the number of stored elements, {elements}, but got {starts.tolist()}"
        )


def product(
    input: Sparse, other: jax.Array, *, decision: Decision, pullback: Decision
) -> jax.Array:
    """Multiplies [m, k] by [k, n], or [batch, m, k] by [batch, k, n].

    Products are added in the order in which the elements are stored. Several elements of one
    position are added up. float16 and bfloat16 are added in float32 and rounded once. If the batch
    is a batch dimension of ``input``, each matrix of it has an order of its own.
    """
    wide = accumulator(input.dtype) if jnp.issubdtype(input.dtype, jnp.floating) else input.dtype
    data, rows, columns = _elements(input)
    # The outer axis is a batch dimension of the storage. Another batch becomes part of the rows.
    split = -2 if input.n_batch and input.ndim == 3 else 0
    total = sparse_matmul(
        convert(data, wide),
        rows,
        columns,
        convert(other, wide).reshape(len(data), math.prod(other.shape[split:-1]), other.shape[-1]),
        size=math.prod(input.shape[split:-1]),
        decision=decision,
        pullback=pullback,
    )
    return convert(total.reshape(*input.shape[:-1], other.shape[-1]), input.dtype)


def _elements(input: Sparse) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns elements, their rows and their columns, each of shape [outer, n].

    The outer axis is the batch, if it is a batch dimension of the storage. Otherwise the batch is
    part of the rows and columns. An element whose index is out of range gets a row past the last
    one, so that it contributes nothing.
    """
    indices = _indices(input)
    batch, elements = indices.shape[:-2], indices.shape[-2]
    data = jnp.broadcast_to(input.data, (*batch, elements))
    # Along a batch dimension of the storage, the index of an element is its position.
    positions = jnp.moveaxis(jnp.indices(batch, indices.dtype), 0, -1)[..., None, :]
    positions = jnp.broadcast_to(positions, (*batch, elements, len(batch)))
    every = jnp.concatenate([positions, indices], axis=-1)
    split = 1 if batch and input.ndim == 3 else 0
    shape = math.prod(batch[:split]), math.prod(batch[split:]) * elements
    sizes, every = input.shape[split:], every[..., split:].reshape(*shape, input.ndim - split)
    limits = jnp.broadcast_to(jnp.asarray(sizes, every.dtype), every.shape)
    inside = ((every >= 0) & (every < limits)).all(axis=-1)
    matrix = every[..., 0] if len(sizes) == 3 else jnp.zeros_like(every[..., 0])
    row, column = (matrix * sizes[i] + every[..., i] for i in (-2, -1))
    row = jnp.where(inside, row, math.prod(sizes[:-1]))
    return data.reshape(shape), row, jnp.where(inside, column, 0)


def _indices(input: Sparse) -> jax.Array:
    """Returns indices as BCOO stores them, shape [*batch, elements, sparse dimensions]."""
    sides = [math.prod(input.shape[:-2]) * input.shape[i] for i in (-2, -1)]
    dtype = jnp.promote_types(input.indices.dtype, index_dtype(max(sides)))
    batch, indices = input.shape[: input.n_batch], input.indices.astype(dtype)
    if _has_coordinates(input):
        return jnp.broadcast_to(indices, (*batch, *indices.shape[-2:]))
    rows: Any = input  # It has rows.
    pair = _rows_of(rows.indptr, input.nse).astype(dtype), indices
    return jnp.stack([jnp.broadcast_to(a, (*batch, input.nse)) for a in pair], axis=-1)


def _rows_of(starts: jax.Array, elements: int) -> jax.Array:
    """Returns the row of each element of a BCSR: the number of rows that start up to it, less one.

    An element after the last row gets a row past the last one.
    """
    flat = within(starts.reshape(-1, starts.shape[-1]), elements).astype(jnp.int32)
    batch = jnp.arange(flat.shape[0], dtype=jnp.int32)[:, None]
    starting = jnp.zeros((flat.shape[0], elements), jnp.int32).at[batch, flat].add(1, mode="drop")
    return (jnp.cumsum(starting, axis=-1) - 1).reshape(*starts.shape[:-1], elements)

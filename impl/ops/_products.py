"""Products of a sparse matrix, or of a batch of them, with a dense one.

The module checks BCOO and BCSR operands and brings both to elements with rows and columns. Each
element then multiplies a row of the dense operand, and a scatter adds the products. For the
elements 2, 3 and 5 in the rows 0, 1, 0 and the columns 1, 0, 0::

    dense      [[1, 10], [2, 20]]
    products   2 * [2, 20], 3 * [1, 10], 5 * [1, 10]
    result     [[9, 90], [3, 30]]
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
from impl._core.shard_axes import vary_like

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


def product(input: Sparse, other: jax.Array) -> jax.Array:
    """Multiplies [m, k] by [k, n], or [batch, m, k] by [batch, k, n].

    Several elements of one position are added up. float16 and bfloat16 are added in float32 and
    rounded once. The parts of a complex number are two sums.
    """
    data, rows, columns = _elements(input)
    shape = (*input.shape[:-1], other.shape[-1])
    if 0 in (*shape, data.size, other.size):
        return vary_like(jnp.zeros(shape, other.dtype), data, rows, columns, other)
    dense = other.reshape(-1, other.shape[-1])

    def read(values: jax.Array) -> jax.Array:
        """Returns the row of the dense operand that each element multiplies."""
        rows_of = values.at[columns]
        return rows_of.get(mode="fill", fill_value=0, wrap_negative_indices=False)

    def added(*pairs: tuple[jax.Array, jax.Array]) -> jax.Array:
        """Returns the sum of products of elements and dense operands."""
        wide = accumulator(pairs[0][0].dtype)
        terms = [convert(a, wide)[:, None] * read(convert(b, wide)) for a, b in pairs]
        total = jnp.zeros((math.prod(shape[:-1]), shape[-1]), wide)
        total = total.at[jnp.concatenate([rows] * len(pairs))].add(
            jnp.concatenate(terms), mode="promise_in_bounds", wrap_negative_indices=False
        )
        return total.reshape(shape)

    if not jnp.iscomplexobj(data):
        return convert(added((data, dense)), other.dtype)
    real = added((data.real, dense.real), (-data.imag, dense.imag))
    return jax.lax.complex(real, added((data.real, dense.imag), (data.imag, dense.real)))


def _elements(input: Sparse) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Returns elements, their rows and their columns; a batch is part of the rows and columns.

    An element whose index is out of range is 0, at row 0 and a column past the last one, where the
    dense operand reads as 0 and has no gradient. So it adds 0 to a row, also if that has a NaN.
    """
    indices = _indices(input)
    batch, elements = indices.shape[:-2], indices.shape[-2]
    data = jnp.broadcast_to(input.data, (*batch, elements)).reshape(-1)
    # Along a batch dimension of the storage, the index of an element is its position.
    positions = jnp.moveaxis(jnp.indices(batch, indices.dtype), 0, -1)[..., None, :]
    positions = jnp.broadcast_to(positions, (*batch, elements, len(batch)))
    every = jnp.concatenate([positions, indices], axis=-1).reshape(len(data), input.ndim)
    inside = ((every >= 0) & (every < jnp.asarray([input.shape], every.dtype))).all(axis=-1)
    matrix = every[:, 0] if input.ndim == 3 else jnp.zeros_like(every[:, 0])
    row, column = (matrix * input.shape[i] + every[:, i] for i in (-2, -1))
    past = math.prod(input.shape[:-2]) * input.shape[-1]
    row, column = jnp.where(inside, row, 0), jnp.where(inside, column, past)
    return jnp.where(inside, data, 0), row, column


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

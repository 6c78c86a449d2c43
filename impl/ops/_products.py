"""The ops ``mm``, ``bmm`` and ``mv``, and the parts of them that ``sparse.mm`` uses too.

The left operand may be sparse, a BCOO or BCSR. It is brought to elements with rows and columns.
Each element multiplies a row of the dense operand, and a scatter adds the products. For elements 2,
3 and 5 in the rows 0, 1, 0 and the columns 1, 0, 0::

    dense      [[1, 10], [2, 20]]
    products   2 * [2, 20], 3 * [1, 10], 5 * [1, 10]
    result     [[9, 90], [3, 30]]
"""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

import spec
from impl import _jax
from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.axes import index_dtype
from impl._core.numerics import accumulator, convert
from impl._core.shard_axes import vary_like
from impl._mode.alert import alert, alert_pullback
from impl._mode.decide import decide
from impl.ops._op import op

if TYPE_CHECKING:
    from jax.experimental.sparse import BCOO, BCSR


#: A left operand, dense or sparse.
Left: TypeAlias = "Array | Sparse"


def _left_operand(function: str, input: Any) -> jax.Array | Sparse:
    """Returns the left operand ``input``, checked."""
    if is_sparse(input):
        return sparse_operand(function, "input", input)
    return arguments.array(function, "input", input)


def sparse_operand(function: str, name: str, value: Any) -> Sparse:
    """Returns the sparse operand ``value``, checked."""
    if not is_sparse(value):
        taken = "a jax.experimental.sparse.BCOO or BCSR"
        hint = f"; {function.rpartition('.')[2]} takes dense matrices"
        raise arguments.wrong_type(function, name, taken, value, hint)
    _check_sparse(function, name, value)
    return value


def check_matrices(function: str, **operands: jax.Array | Sparse) -> None:
    """Refuses two operands, given by name, that cannot be multiplied as matrices."""
    for name, operand in operands.items():
        if operand.ndim != 2:
            raise RuntimeError(
                f"{function}(): {name} must be a matrix, but got shape {list(operand.shape)}"
                f"{_other_product(operand.ndim)}"
            )
    (left, a), (right, b) = operands.items()
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{function}(): {left} and {right} shapes cannot be multiplied "
            f"({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )
    _check_dtypes(function, a, right, b, left=left)


def _other_product(ndim: int) -> str:
    """Returns the end of a message: the function for operands of that many dimensions."""
    if ndim < 2:
        return "; impl.mv multiplies a matrix and a vector"
    several = "" if ndim == 3 else ", once reshaped to three dimensions"
    return f"; impl.bmm multiplies batches of matrices{several}"


def _check_dtypes(
    function: str,
    input: jax.Array | Sparse,
    name: str,
    other: jax.Array | Sparse,
    *,
    left: str = "input",
) -> None:
    """Refuses operands of two dtypes, and operands of bools."""
    if input.dtype != other.dtype:
        raise RuntimeError(
            f"{function}(): expected {left} and {name} to have the same dtype, but got: "
            f"{input.dtype} != {other.dtype}; convert one of them"
        )
    arguments.check_kind(function, input.dtype, "integer", "floating", "complex")


def product(
    function: str, input: jax.Array | Sparse, other: jax.Array, **others: spec.FactValue
) -> jax.Array:
    """Multiplies [m, k] by [k, n], or [batch, m, k] by [batch, k, n].

    The rows of ``function`` decide the alerts of the product and of its gradients. ``others`` are
    the facts that only the rows of some functions ask for.
    """
    facts = {"dtype": arguments.dtype_kind(input.dtype), "input_ndim": input.ndim, **others}
    decision, pullback = decide(function, **facts), decide(function, "backward", **facts)
    if is_sparse(input):
        out = _sparse_product(input, other)
    else:
        dense: Any = input  # A type guard does not narrow the type in the other branch.
        out = matmul(dense, other)
    # The alert is attached to the result. A gradient reads the operands again, and would repeat an
    # alert attached to one of them.
    return alert(alert_pullback(out, pullback), decision)


def precision() -> str:
    """Returns the precision of products: the one that the user configured, else the highest."""
    return _jax.default_matmul_precision() or "highest"


def matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiplies [..., m, k] by [..., k, n], of equal batch dimensions and dtypes.

    XLA adds float16 and bfloat16 in float32, and rounds once.
    """
    batch = tuple(range(a.ndim - 2))
    numbers = (((a.ndim - 1,), (a.ndim - 2,)), (batch, batch))
    return jax.lax.dot_general(a, b, numbers, precision=precision())


def _library_facts(input: jax.Array | Sparse) -> dict[str, spec.FactValue]:
    """Returns the facts of products that NVIDIA's libraries may compute."""
    return {"sparse": is_sparse(input), "cublas_workspace_config": _workspace()}


def _workspace() -> str:
    # The environment is read when a program is traced. A compiled program does not read it again.
    return os.environ.get("CUBLAS_WORKSPACE_CONFIG", "")


@op("torch.mm", setting=_workspace)
def mm(input: Left, mat2: Array) -> jax.Array:
    """Multiplies two matrices.

    Products of float32 have full precision, unless ``jax_default_matmul_precision`` is set. float16
    and bfloat16 are added in float32 and rounded once.

    Args:
        input: Shape [m, k], of integers, floats or complex numbers; an array, or a
            ``jax.experimental.sparse.BCOO`` or ``BCSR``. Several elements that a sparse operand
            stores at one position are added up.
        mat2: Shape [k, n], of the same dtype.

    Returns:
        An array of shape [m, n], of the dtype of ``input``.

    Raises:
        NotImplementedError: The operands are of bools.
        RuntimeError: Shapes or dtypes do not fit; or a sparse ``input`` has a dense dimension or an
            index that is out of range (under ``jit`` such an element is dropped).
    """
    a, b = _left_operand("mm", input), arguments.array("mm", "mat2", mat2)
    check_matrices("mm", input=a, mat2=b)
    return product("mm", a, b, **_library_facts(a))


@op("torch.bmm", setting=_workspace)
def bmm(input: Left, mat2: Array) -> jax.Array:
    """Multiplies the matrices of two batches, pair by pair.

    Arguments, results and exceptions are as for ``mm``, with shapes [b, m, k], [b, k, n] and
    [b, m, n].
    """
    a, b = _left_operand("bmm", input), arguments.array("bmm", "mat2", mat2)
    for name, operand in (("input", a), ("mat2", b)):
        if operand.ndim != 3:
            raise RuntimeError(
                f"bmm(): {name} must have three dimensions, but got shape {list(operand.shape)}"
            )
    expected = [a.shape[0], a.shape[2]]
    if list(b.shape[:2]) != expected:
        raise RuntimeError(
            f"bmm(): Expected size for first two dimensions of mat2 to be: {expected} but got: "
            f"{list(b.shape[:2])}"
        )
    _check_dtypes("bmm", a, "mat2", b)
    return product("bmm", a, b, **_library_facts(a))


@op("torch.mv", setting=_workspace)
def mv(input: Left, vec: Array) -> jax.Array:
    """Multiplies a matrix and a vector.

    Arguments, results and exceptions are as for ``mm``, with ``vec`` of shape [k] and a result of
    shape [m].
    """
    a, b = _left_operand("mv", input), arguments.array("mv", "vec", vec)
    if (a.ndim, b.ndim) != (2, 1):
        raise RuntimeError(
            f"mv(): input must be a matrix and vec a vector, but got shapes {list(a.shape)} "
            f"and {list(b.shape)}"
        )
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mv(): size mismatch, got input ({a.shape[0]}x{a.shape[1]}), vec ({b.shape[0]})"
        )
    _check_dtypes("mv", a, "vec", b)
    return product("mv", a, b[:, None], **_library_facts(a))[:, 0]


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


def _check_sparse(function: str, name: str, value: Sparse) -> None:
    """Refuses dense dimensions, and indices that are out of range.

    An index that equals the length of its dimension is padding and is accepted; so is an element of
    a BCSR that belongs to no row. Under ``jit`` the indices are not known; elements whose index is
    out of range are dropped there.
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


def _sparse_product(input: Sparse, other: jax.Array) -> jax.Array:
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
    with_rows: Any = input  # A type guard does not narrow the type of the other kind.
    coordinates = input if _has_coordinates(input) else with_rows.to_bcoo()
    indices = coordinates.indices.astype(dtype)
    return jnp.broadcast_to(indices, (*input.shape[: input.n_batch], *indices.shape[-2:]))

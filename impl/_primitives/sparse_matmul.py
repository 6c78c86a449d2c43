"""Products with a sparse matrix, which are linear in its elements and in the dense operand.

There are two sums over the stored elements, and each is a derivative of the other: the product with
a dense matrix, and ``sample``, which computes one number for each element.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._core.jax_internals import Primitive
from impl._core.shard_axes import aligned
from impl._lowerings import sparse_matmul as lowerings
from impl._mode.decide import Decision
from impl._primitives import _common, scatter_accumulate
from impl._primitives.alert import alert


def sparse_matmul(
    data: jax.Array,
    rows: jax.Array,
    columns: jax.Array,
    dense: jax.Array,
    *,
    size: int,
    decision: Decision,
    pullback: Decision,
) -> jax.Array:
    """Adds the product of each element and its row of ``dense`` to the element's row of the result.

    On the ordered path products are added exactly.

    Args:
        data: The elements, shape [outer, elements].
        rows: The row of the result of each element, int32 or int64, shape [outer or 1, elements].
        columns: The row of ``dense`` of each element, in the dtype and shape of ``rows``. An
            element whose row or column is out of range is left out.
        dense: Shape [outer, k, n], of the same dtype.
        size: Number of rows of the result.
        decision: The decision of this call. The caller gives its alert.
        pullback: The decision of the gradients, which give its alert.

    Returns:
        Shape [outer, size, n].
    """
    params = {"size": size, "decision": decision, "pullback": pullback}
    operands = aligned(data, rows, columns, dense)
    return sparse_matmul_p.bind(*operands, **params)  # type: ignore[no-any-return]


def _sample(
    left: jax.Array, right: jax.Array, rows: jax.Array, columns: jax.Array, **params: Any
) -> jax.Array:
    """Computes for each element the dot product of its row of ``left`` and its row of ``right``."""
    return sample_p.bind(*aligned(left, right, rows, columns), **params)  # type: ignore[no-any-return]


def _abstract_sparse_matmul(
    data: Any, rows: Any, columns: Any, dense: Any, *, size: int, **_: Any
) -> Any:
    return dense.update(shape=(dense.shape[0], size, dense.shape[2]), weak_type=False)


def _abstract_sample(left: Any, right: Any, rows: Any, columns: Any, **_: Any) -> Any:
    # ``rows`` has as many axes as the result: a type on a mesh keeps its number of axes.
    return rows.update(shape=(left.shape[0], rows.shape[1]), dtype=left.dtype, weak_type=False)


def _jvp(
    primitive: Primitive, linear: tuple[int, int], primals: Any, tangents: Any, **params: Any
) -> Any:
    """Computes the tangent; ``linear`` are the positions of the operands that it is linear in."""
    out = primitive.bind(*primals, **params)
    parts = []
    for position in linear:
        if type(tangents[position]) is not ad.Zero:
            operands = [*primals[:position], tangents[position], *primals[position + 1 :]]
            parts.append(primitive.bind(*aligned(*operands), **params))
    return out, functools.reduce(jnp.add, parts) if parts else _common.zero_tangent(out)


def _transpose_sparse_matmul(
    cotangent: Any,
    data: Any,
    rows: Any,
    columns: Any,
    dense: Any,
    *,
    size: int,
    decision: Decision,
    pullback: Decision,
) -> Any:
    of_data = ad.is_undefined_primal(data)
    if type(cotangent) is ad.Zero:
        zero = ad.Zero((data if of_data else dense).aval)
        return (zero, None, None, None) if of_data else (None, None, None, zero)
    cotangent = alert(cotangent, pullback)
    decisions = {"decision": pullback, "pullback": pullback}
    if of_data:
        return _sample(cotangent, dense, rows, columns, **decisions), None, None, None
    height = dense.aval.shape[1]
    of_dense = sparse_matmul(data, columns, rows, cotangent, size=height, **decisions)
    return None, None, None, of_dense


def _transpose_sample(
    cotangent: Any, left: Any, right: Any, rows: Any, columns: Any, **params: Any
) -> Any:
    of_left = ad.is_undefined_primal(left)
    unknown = (left if of_left else right).aval
    size = unknown.shape[1]
    if type(cotangent) is ad.Zero:
        out: Any = ad.Zero(unknown)
    elif of_left:
        out = sparse_matmul(cotangent, rows, columns, right, size=size, **params)
    else:
        out = sparse_matmul(cotangent, columns, rows, left, size=size, **params)
    return (out, None, None, None) if of_left else (None, out, None, None)


def _batch(
    primitive: Primitive, indices: tuple[int, int], args: Any, dims: Any, **params: Any
) -> Any:
    """Merges the batch into the outer axis.

    ``indices`` are the positions of the operands that hold indices. Indices that the whole batch
    and the outer axis share stay as they are.
    """
    size = _common.batch_size(args, dims)
    merged = [
        arg
        if dim is None and position in indices and arg.shape[0] == 1
        else _common.merge_batch(_common.batch_to_front(arg, dim, size))
        for position, (arg, dim) in enumerate(zip(args, dims, strict=True))
    ]
    outer = next(m.shape[0] for position, m in enumerate(merged) if position not in indices)
    for position in indices:
        length = merged[position].shape[0]
        if length not in (1, outer):
            merged[position] = jnp.repeat(merged[position], outer // length, axis=0)
    out = primitive.bind(*merged, **params)
    return _common.split_batch(out, size, outer // size), 0


def _batch_sparse_matmul(args: Any, dims: Any, **params: Any) -> Any:
    *sparse, dense = args
    if any(dim is not None for dim in dims[:-1]):
        return _batch(sparse_matmul_p, (1, 2), args, dims, **params)
    # The whole batch shares one sparse matrix: the batch becomes more columns of ``dense``.
    size = dense.shape[dims[-1]]
    dense = jnp.moveaxis(dense, dims[-1], 2)
    out = sparse_matmul_p.bind(*sparse, dense.reshape(*dense.shape[:2], -1), **params)
    return out.reshape(*out.shape[:2], size, -1), 2


_without_pullback = functools.partial(_common.drop_parameter, "pullback")


def _by_scatter(scatter: Any) -> Any:
    """Returns the lowering of the product that calls the lowering of a scatter."""
    return _without_pullback(functools.partial(lowerings.multiply, scatter))


_exact_sample = _without_pullback(lowerings.sample_exact)

sparse_matmul_p = _common.new_primitive(
    "samebits_sparse_matmul",
    _abstract_sparse_matmul,
    *(by.map(_by_scatter) for by in scatter_accumulate.sums_of_products),
)
sample_p = _common.new_primitive(
    "samebits_sparse_sample",
    _abstract_sample,
    _common.Lowerings(
        cpu=_without_pullback(lowerings.sample_exact_cpu),
        xla=_exact_sample,
        kernel=_common.drop_parameter("launch", _exact_sample),
        anywhere=_exact_sample,
        launches=False,
    ),
    _common.Lowerings.without_kernel(
        _without_pullback(lowerings.sample_cpu), _without_pullback(lowerings.sample_xla)
    ),
)
ad.primitive_jvps[sparse_matmul_p] = functools.partial(_jvp, sparse_matmul_p, (0, 3))
ad.primitive_jvps[sample_p] = functools.partial(_jvp, sample_p, (0, 1))
ad.primitive_transposes[sparse_matmul_p] = _transpose_sparse_matmul
ad.primitive_transposes[sample_p] = _transpose_sample
batching.primitive_batchers[sparse_matmul_p] = _batch_sparse_matmul
batching.primitive_batchers[sample_p] = functools.partial(_batch, sample_p, (2, 3))

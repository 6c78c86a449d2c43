"""Products with a sparse matrix, which are linear in its elements and in the dense operand.

What one is differentiated to is again one of two sums over stored elements: ``multiply``, of a
matrix, and ``sample``, of one number for each element.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from impl._core.shard_axes import aligned
from impl._lowerings import scatter_accumulate, scatter_accumulate_cpu
from impl._lowerings import sparse_matmul as lowerings
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.alert import alert


def multiply(
    data: jax.Array,
    rows: jax.Array,
    columns: jax.Array,
    dense: jax.Array,
    *,
    size: int,
    decision: Decision,
    pullback: Decision,
) -> jax.Array:
    """Each element times its row of ``dense``, added to its row of the result.

    On the ordered path elements are added in panel order, as they come.

    Args:
        data: The elements, shape [outer, elements].
        rows: Rows of the result, int32 or int64, shape [outer or 1, elements].
        columns: Rows of ``dense``, likewise. An element whose row or column is out of range has
            no part in the result.
        dense: Shape [outer, k, n], of the same dtype.
        size: How many rows the result has.
        decision: What each platform does. Alerts are the caller's business.
        pullback: What differentiating it does; it alerts by itself.

    Returns:
        Shape [outer, size, n].
    """
    params = {"size": size, "decision": decision, "pullback": pullback}
    return multiply_p.bind(*aligned(data, rows, columns, dense), **params)  # type: ignore[no-any-return]


def _sample(
    left: jax.Array, right: jax.Array, rows: jax.Array, columns: jax.Array, **params: Any
) -> jax.Array:
    """Of each element, its row of ``left`` by its row of ``right``."""
    return sample_p.bind(*aligned(left, right, rows, columns), **params)  # type: ignore[no-any-return]


def _multiply_shape(data: Any, rows: Any, columns: Any, dense: Any, *, size: int, **_: Any) -> Any:
    return dense.update(shape=(dense.shape[0], size, dense.shape[2]), weak_type=False)


def _sample_shape(left: Any, right: Any, rows: Any, columns: Any, **_: Any) -> Any:
    # Of the indices it has the number of axes, which the types of some meshes count.
    return rows.update(shape=(left.shape[0], rows.shape[1]), dtype=left.dtype, weak_type=False)


def _jvp(
    primitive: Primitive, linear: tuple[int, int], primals: Any, tangents: Any, **p: Any
) -> Any:
    out = primitive.bind(*primals, **p)
    parts = []
    for place in linear:
        if type(tangents[place]) is not ad.Zero:
            operands = [*primals[:place], tangents[place], *primals[place + 1 :]]
            parts.append(primitive.bind(*aligned(*operands), **p))
    return out, functools.reduce(jnp.add, parts) if parts else _common.zero_tangent(out)


def _transpose_multiply(
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
    both = {"decision": pullback, "pullback": pullback}
    if of_data:
        return _sample(cotangent, dense, rows, columns, **both), None, None, None
    height = dense.aval.shape[1]
    return None, None, None, multiply(data, columns, rows, cotangent, size=height, **both)


def _transpose_sample(
    cotangent: Any, left: Any, right: Any, rows: Any, columns: Any, **params: Any
) -> Any:
    of_left = ad.is_undefined_primal(left)
    of = (left if of_left else right).aval
    if type(cotangent) is ad.Zero:
        out: Any = ad.Zero(of)
    elif of_left:
        out = multiply(cotangent, rows, columns, right, size=of.shape[1], **params)
    else:
        out = multiply(cotangent, columns, rows, left, size=of.shape[1], **params)
    return (out, None, None, None) if of_left else (None, out, None, None)


def _batch(
    primitive: Primitive, places: tuple[int, int], args: Any, dims: Any, **params: Any
) -> Any:
    """Folds the batch into the outer axis; indices that are shared, ``places``, stay so."""
    size = _common.batch_size(args, dims)
    moved = [
        arg
        if dim is None and place in places and arg.shape[0] == 1
        else _common.fold(_common.move_batch(arg, dim, size))
        for place, (arg, dim) in enumerate(zip(args, dims, strict=True))
    ]
    whole = next(m.shape[0] for place, m in enumerate(moved) if place not in places)
    for place in places:
        if moved[place].shape[0] not in (1, whole):
            each = jnp.repeat(moved[place], whole // moved[place].shape[0], axis=0)
            moved[place] = each
    out = primitive.bind(*moved, **params)
    return _common.unfold(out, size, whole // size), 0


def _batch_multiply(args: Any, dims: Any, **params: Any) -> Any:
    *others, dense = args
    if any(dim is not None for dim in dims[:-1]):
        return _batch(multiply_p, (1, 2), args, dims, **params)
    # One sparse matrix for the whole batch: that is so many more columns.
    size = dense.shape[dims[-1]]
    wide = jnp.moveaxis(dense, dims[-1], 2)
    out = multiply_p.bind(*others, wide.reshape(*wide.shape[:2], -1), **params)
    return out.reshape(*out.shape[:2], size, -1), 2


def _lowerings(cpu: Any, xla: Any, kernel: Any) -> _common.Lowerings:
    forms = (
        _common.without("pullback", functools.partial(lowerings.multiply, way))
        for way in (cpu, xla, kernel)
    )
    return _common.Lowerings(*forms)


_on_cpu, _at_once = (
    _common.without("pullback", way) for way in (lowerings.sample_on_cpu, lowerings.sample_at_once)
)
_samples = _common.Lowerings(_on_cpu, _at_once, _common.without("launch", _at_once))

multiply_p = _common.new_primitive(
    "samebits_sparse_multiply",
    _multiply_shape,
    {
        # A CPU keeps its order on either path: that needs the least memory.
        "atomic": _lowerings(
            scatter_accumulate_cpu.cpu,
            scatter_accumulate.xla_atomic,
            scatter_accumulate.kernel_atomic,
        ),
        "ordered": _lowerings(
            scatter_accumulate_cpu.cpu,
            scatter_accumulate.xla_chains,
            scatter_accumulate.kernel_chains,
        ),
    },
)
sample_p = _common.new_primitive(
    "samebits_sparse_sample", _sample_shape, {"atomic": _samples, "ordered": _samples}
)
ad.primitive_jvps[multiply_p] = functools.partial(_jvp, multiply_p, (0, 3))
ad.primitive_jvps[sample_p] = functools.partial(_jvp, sample_p, (0, 1))
ad.primitive_transposes[multiply_p] = _transpose_multiply
ad.primitive_transposes[sample_p] = _transpose_sample
batching.primitive_batchers[multiply_p] = _batch_multiply
batching.primitive_batchers[sample_p] = functools.partial(_batch, sample_p, (2, 3))

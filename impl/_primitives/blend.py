"""Blends: weighted sums of rows, which are linear in the rows and in the weights.

Blends and all their derivatives come from one sum, over positions ``p``, taps ``k`` and columns
``c``:

    values[index[p, k], c] * weights[p, k] * sums[p, c]

The derivative of that sum by one of the three arrays is linear in the two others. It is a
primitive, which computes the array of that role.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._core.jax_internals import Primitive
from impl._core.shard_axes import aligned
from impl._lowerings import blend as lowerings
from impl._lowerings._partitioning import Axes
from impl._mode.decide import Decision
from impl._primitives import _common, scatter_accumulate

Role: TypeAlias = Literal["values", "weights", "sums"]
_ROLES: tuple[Role, ...] = ("values", "weights", "sums")


def blend(
    values: jax.Array, weights: jax.Array, indices: jax.Array, *, pullback: Decision
) -> jax.Array:
    """Computes weighted sums of rows of ``values``.

    Each sum adds its rounded products from the first tap to the last. The gradient of ``weights``
    adds products from the first column to the last. The gradient of ``values`` adds contributions
    by position, then by tap; on the ordered path exactly.

    Args:
        values: Floats, shape [outer, size, inner].
        weights: The same dtype, shape [outer, n, k].
        indices: Rows, int32 or int64, shape [outer, n, k]. An index outside [0, size) stands for a
            row of zeros without a derivative.
        pullback: The decision of the gradient of ``values``. The caller gives its alert.

    Returns:
        Shape [outer, n, inner].
    """
    arrays = {"values": values, "weights": weights}
    return _bind("sums", arrays, indices, size=values.shape[1], decision=pullback)


def _bind(role: Role, arrays: dict[Any, jax.Array], indices: jax.Array, **params: Any) -> jax.Array:
    """Computes the array of a role from the arrays of the two other roles."""
    operands = aligned(*(arrays[other] for other in _others(role)), indices)
    return primitives[role].bind(*operands, **params)  # type: ignore[no-any-return]


def _others(role: Role) -> list[Role]:
    return [other for other in _ROLES if other != role]


def _abstract(role: Role, *operands: Any, size: int, decision: Decision) -> Any:
    arrays = dict(zip(_others(role), operands, strict=False))
    outer, n, taps = operands[-1].shape
    inner = (arrays["values"] if role != "values" else arrays["sums"]).shape[2]
    shapes = {
        "values": (outer, size, inner),
        "weights": (outer, n, taps),
        "sums": (outer, n, inner),
    }
    return operands[0].update(shape=shapes[role], weak_type=False)


def _jvp(role: Role, primals: Any, tangents: Any, **params: Any) -> Any:
    *operands, indices = primals
    arrays: dict[Role, jax.Array] = dict(zip(_others(role), operands, strict=True))
    out = _bind(role, arrays, indices, **params)
    parts = [
        _bind(role, {**arrays, other: tangent}, indices, **params)
        for other, tangent in zip(arrays, tangents[:-1], strict=True)
        if type(tangent) is not ad.Zero
    ]
    return out, functools.reduce(jnp.add, parts) if parts else _common.zero_tangent(out)


def _transpose(role: Role, cotangent: Any, *operands: Any, **params: Any) -> Any:
    *pair, indices = operands
    arrays = dict(zip(_others(role), pair, strict=True))
    position, unknown = next(
        (i, other) for i, other in enumerate(arrays) if ad.is_undefined_primal(arrays[other])
    )
    out: list[Any] = [None, None, None]
    if type(cotangent) is ad.Zero:
        out[position] = ad.Zero(arrays[unknown].aval)
    else:
        out[position] = _bind(unknown, {**arrays, role: cotangent}, indices, **params)
    return out


def _batch(role: Role, args: Any, dims: Any, **params: Any) -> Any:
    size = _common.batch_size(args, dims)
    batched = [_common.batch_to_front(arg, dim, size) for arg, dim in zip(args, dims, strict=True)]
    out = primitives[role].bind(*map(_common.merge_batch, batched), **params)
    return _common.split_batch(out, size, batched[0].shape[1]), 0


# The lowerings of a scatter, each of which becomes a lowering of the values.
_by_scatter = functools.partial(functools.partial, lowerings.values_by_scatter)
_values = [by.map(_by_scatter) for by in scatter_accumulate.sums_of_products]
_weights = _common.Lowerings(
    lowerings.weights_cpu, lowerings.weights_xla, lowerings.weights_xla, launches=False
)
_sums = _common.Lowerings(
    lowerings.sums_cpu, lowerings.sums_xla, lowerings.sums_xla, cpu_isolates=True, launches=False
)


def _new_primitive(role: Role, name: str, rule: str, *paths: _common.Lowerings) -> Primitive:
    abstract = functools.partial(_abstract, role)
    primitive = _common.new_primitive(name, abstract, *paths, axes=Axes(rule))
    ad.primitive_jvps[primitive] = functools.partial(_jvp, role)
    ad.primitive_transposes[primitive] = functools.partial(_transpose, role)
    batching.primitive_batchers[primitive] = functools.partial(_batch, role)
    return primitive


#: The primitive that computes the array of each role from the arrays of the two other roles.
primitives: dict[Role, Primitive] = {
    "sums": _new_primitive("sums", "samebits_blend", "o.i, on, on -> oni", _sums),
    "values": _new_primitive("values", "samebits_blend_values", "o, o.i, o -> o.i", *_values),
    "weights": _new_primitive("weights", "samebits_blend_weights", "o, on, on -> on", _weights),
}

"""Blends: weighted sums of rows; linear in rows and in weights, and so are their derivatives.

All come of one sum, over positions ``p``, taps ``k`` and columns ``c``, of

    values[index[p, k], c] * weights[p, k] * sums[p, c]

Its derivative by each of the three is an operation that is linear in the two others.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from impl._core.shard_axes import aligned
from impl._lowerings import blend as lowerings
from impl._lowerings import scatter_accumulate, scatter_accumulate_cpu
from impl._mode.decide import Decision, Path
from impl._primitives import _common

Role: TypeAlias = Literal["values", "weights", "sums"]
_ROLES: tuple[Role, ...] = ("values", "weights", "sums")


def blend(
    values: jax.Array, weights: jax.Array, indices: jax.Array, *, pullback: Decision
) -> jax.Array:
    """Weighted sums of rows of ``values``.

    Each adds its products from the first to the last, rounded. The gradient of ``weights`` adds
    products from the first column to the last. That of ``values`` is in the spec's panel order on
    the ordered path, of contributions by position and then by tap.

    Args:
        values: Floats, shape [outer, size, inner].
        weights: Of the same dtype, shape [outer, n, k].
        indices: Rows, int32 or int64, shape [outer, n, k]. One outside [0, size) counts as a row
            of zeros that has no derivative.
        pullback: What differentiating by ``values`` does; the alert is the caller's business.

    Returns:
        Shape [outer, n, inner].
    """
    given = {"values": values, "weights": weights}
    return _bind("sums", given, indices, size=values.shape[1], decision=pullback)


def _bind(role: Role, given: dict[Any, jax.Array], indices: jax.Array, **params: Any) -> jax.Array:
    operands = aligned(*(given[other] for other in _others(role)), indices)
    return primitives[role].bind(*operands, **params)  # type: ignore[no-any-return]


def _others(role: Role) -> list[Role]:
    return [other for other in _ROLES if other != role]


def _abstract(role: Role, *operands: Any, size: int, decision: Decision) -> Any:
    given = dict(zip(_others(role), operands, strict=False))
    outer, n, taps = operands[-1].shape
    inner = (given["values"] if role != "values" else given["sums"]).shape[2]
    shape = {"values": (outer, size, inner), "weights": (outer, n, taps), "sums": (outer, n, inner)}
    return operands[0].update(shape=shape[role], weak_type=False)


def _jvp(role: Role, primals: Any, tangents: Any, **params: Any) -> Any:
    *operands, indices = primals
    given: dict[Role, jax.Array] = dict(zip(_others(role), operands, strict=True))
    out = _bind(role, given, indices, **params)
    parts = [
        _bind(role, {**given, other: tangent}, indices, **params)
        for other, tangent in zip(given, tangents[:-1], strict=True)
        if type(tangent) is not ad.Zero
    ]
    return out, functools.reduce(jnp.add, parts) if parts else _common.zero_tangent(out)


def _transpose(role: Role, cotangent: Any, *operands: Any, **params: Any) -> Any:
    *pair, indices = operands
    given = dict(zip(_others(role), pair, strict=True))
    place, of = next((i, o) for i, o in enumerate(given) if ad.is_undefined_primal(given[o]))
    out: list[Any] = [None, None, None]
    if type(cotangent) is ad.Zero:
        out[place] = ad.Zero(given[of].aval)
    else:
        out[place] = _bind(of, {**given, role: cotangent}, indices, **params)
    return out


def _batch(role: Role, args: Any, dims: Any, **params: Any) -> Any:
    size = _common.batch_size(args, dims)
    moved = [_common.move_batch(arg, dim, size) for arg, dim in zip(args, dims, strict=True)]
    out = primitives[role].bind(*map(_common.fold, moved), **params)
    return _common.unfold(out, size, moved[0].shape[1]), 0


def _lowerings(cpu: Any, xla: Any, kernel: Any) -> _common.Lowerings:
    scatters = (functools.partial(lowerings.unblend, scatter) for scatter in (cpu, xla, kernel))
    return _common.Lowerings(*scatters)


# A CPU keeps its order on either path: that needs the least memory.
_atomic = _lowerings(
    scatter_accumulate_cpu.cpu, scatter_accumulate.xla_atomic, scatter_accumulate.kernel_atomic
)
_ordered = _lowerings(
    scatter_accumulate_cpu.cpu, scatter_accumulate.xla_chains, scatter_accumulate.kernel_chains
)
_match = _common.Lowerings(lowerings.match_by_tap, lowerings.match_at_once, lowerings.match_at_once)
_blend = _common.Lowerings(lowerings.blend_on_cpu, lowerings.blend, lowerings.blend)


def _new_primitive(
    role: Role, name: str, atomic: _common.Lowerings, ordered: _common.Lowerings
) -> Primitive:
    paths: dict[Path, _common.Lowerings] = {"atomic": atomic, "ordered": ordered}
    primitive = _common.new_primitive(name, functools.partial(_abstract, role), paths)
    ad.primitive_jvps[primitive] = functools.partial(_jvp, role)
    ad.primitive_transposes[primitive] = functools.partial(_transpose, role)
    batching.primitive_batchers[primitive] = functools.partial(_batch, role)
    return primitive


#: One for each role, which makes it of the other two.
primitives: dict[Role, Primitive] = {
    "sums": _new_primitive("sums", "samebits_blend", _blend, _blend),
    "values": _new_primitive("values", "samebits_unblend", _atomic, _ordered),
    "weights": _new_primitive("weights", "samebits_match", _match, _match),
}

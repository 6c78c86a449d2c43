"""Running extremes along an axis, and where each stands."""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._lowerings import scan as lowerings
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.gather import gather


def scan_extreme(
    values: jax.Array, by: Literal["min", "max"], *, decision: Decision, pullback: Decision
) -> tuple[jax.Array, jax.Array]:
    """Running extremes along the middle axis of [outer, n, inner], and the positions of them.

    A NaN goes before every number; -0 equals 0. Of several equal elements the last is taken. All
    this is the same in every order.

    Args:
        values: Real, of any dtype.
        by: Which extreme.
        decision: What each platform does.
        pullback: What differentiating it does, decided when the forward pass was.

    Returns:
        Values, and positions as int32, both of the shape of ``values``.
    """
    kept, places = primitives[by].bind(values, decision=decision, pullback=pullback)
    return kept, places


def _abstract(values: Any, *, decision: Decision, pullback: Decision) -> Any:
    values = values.update(weak_type=False)
    return values, values.update(dtype=jnp.dtype(jnp.int32))


def _jvp(by: Any, primals: Any, tangents: Any, *, pullback: Decision, **params: Any) -> Any:
    out = scan_extreme(primals[0], by, pullback=pullback, **params)
    none = _common.zero_tangent(out[1])
    if type(tangents[0]) is ad.Zero:
        return out, (_common.zero_tangent(out[0]), none)
    return out, (gather(tangents[0], out[1], pullback=pullback), none)


def _batch(by: Any, args: Any, dims: Any, **params: Any) -> Any:
    values = _common.move_batch(args[0], dims[0], args[0].shape[dims[0]])
    out = scan_extreme(_common.fold(values), by, **params)
    return tuple(part.reshape(values.shape) for part in out), (0, 0)


def _ignoring_pullback(function: Any, by: Any) -> Any:
    def run(values: jax.Array, *, pullback: Decision, **options: Any) -> Any:
        del pullback
        return function(values, by=by, **options)

    return run


def _new(by: Literal["min", "max"]) -> Any:
    ways = (lowerings.cpu_extreme, lowerings.xla_extreme, lowerings.kernel_extreme)
    same = _common.Lowerings(*(_ignoring_pullback(way, by) for way in ways))
    paths: dict[Any, _common.Lowerings] = {"atomic": same, "ordered": same}
    primitive = _common.new_primitive(
        f"samebits_scan_{by}", _abstract, paths, multiple_results=True
    )
    ad.primitive_jvps[primitive] = functools.partial(_jvp, by)
    batching.primitive_batchers[primitive] = functools.partial(_batch, by)
    return primitive


primitives = {"min": _new("min"), "max": _new("max")}

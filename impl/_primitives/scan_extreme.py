"""Running minima and maxima along an axis, and the position of each."""

from __future__ import annotations

import functools
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._lowerings import scan_extreme as lowerings
from impl._lowerings._partitioning import Axes
from impl._mode.decide import Decision
from impl._primitives import _common
from impl.ops._scatters import gather


def scan_extreme(
    values: jax.Array, by: Literal["min", "max"], *, decision: Decision, pullback: Decision
) -> tuple[jax.Array, jax.Array]:
    """Computes running extremes along the middle axis of [outer, n, inner], and their positions.

    A NaN is more extreme than every number; -0 equals 0. Of several equal elements, the position of
    the last is returned. The result is the same in every order.

    Args:
        values: Real, of any dtype.
        by: The extreme.
        decision: The decision of this call.
        pullback: The decision of the gradient, made in the forward pass.

    Returns:
        Values, and positions as int32, both of the shape of ``values``.
    """
    extremes, positions = primitives[by].bind(values, decision=decision, pullback=pullback)
    return extremes, positions


def _abstract(values: Any, *, decision: Decision, pullback: Decision) -> Any:
    values = values.update(weak_type=False)
    return values, values.update(dtype=jnp.dtype(jnp.int32))


def _jvp(by: Any, primals: Any, tangents: Any, *, pullback: Decision, **params: Any) -> Any:
    out = scan_extreme(primals[0], by, pullback=pullback, **params)
    zero = _common.zero_tangent(out[1])
    if type(tangents[0]) is ad.Zero:
        return out, (_common.zero_tangent(out[0]), zero)
    return out, (gather(tangents[0], out[1], pullback=pullback), zero)


def _batch(by: Any, args: Any, dims: Any, **params: Any) -> Any:
    values = _common.batch_to_front(args[0], dims[0], args[0].shape[dims[0]])
    out = scan_extreme(_common.merge_batch(values), by, **params)
    return tuple(part.reshape(values.shape) for part in out), (0, 0)


def _new_primitive(by: Literal["min", "max"]) -> Any:
    functions = (lowerings.extreme_cpu, lowerings.extreme_xla, lowerings.extreme_kernel)
    ordered = _common.Lowerings(
        *(_common.drop_parameter("pullback", functools.partial(f, by=by)) for f in functions)
    )
    primitive = _common.new_primitive(
        f"samebits_scan_{by}",
        _abstract,
        ordered,
        axes=Axes("o.i -> o.i, o.i"),
        multiple_results=True,
        adds=False,
    )
    ad.primitive_jvps[primitive] = functools.partial(_jvp, by)
    batching.primitive_batchers[primitive] = functools.partial(_batch, by)
    return primitive


primitives = {"min": _new_primitive("min"), "max": _new_primitive("max")}

"""Running sum along an axis."""

from __future__ import annotations

from typing import Any

import jax
from jax.interpreters import ad, batching

from impl.decide import Decision
from impl.lowerings import scan as lowerings
from impl.primitives import _core
from impl.primitives.alert import alert


def scan(values: jax.Array, *, decision: Decision, reverse: bool = False) -> jax.Array:
    """Running sums along the middle axis of [outer, n, inner], of the dtype of ``values``.

    On the ordered path additions are in the spec's blocked scan order, of the flipped axis where
    ``reverse``.
    """
    return scan_p.bind(values, decision=decision, reverse=reverse)  # type: ignore[no-any-return]


def _batch(args: Any, dims: Any, *, decision: Decision, reverse: bool) -> Any:
    values = _core.move_batch(args[0], dims[0], args[0].shape[dims[0]])
    out = scan(_core.fold(values), decision=decision, reverse=reverse)
    return out.reshape(values.shape), 0


def _transpose(cotangent: Any, values: Any, *, decision: Decision, reverse: bool) -> Any:
    if type(cotangent) is ad.Zero:
        return (ad.Zero(values.aval),)
    cotangent = alert(cotangent, decision)
    return (scan(cotangent, decision=decision, reverse=not reverse),)


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    out = scan(*primals, **params)
    if type(tangents[0]) is ad.Zero:
        return out, _core.zero_tangent(out)
    return out, scan(*tangents, **params)


scan_p = _core.new_primitive(
    "samebits_scan",
    lambda values, *, decision, reverse: values.update(weak_type=False),
    {
        "atomic": _core.Lowerings(
            cpu=lowerings.xla_atomic, xla=lowerings.xla_atomic, kernel=lowerings.kernel_atomic
        ),
        "ordered": _core.Lowerings(
            cpu=lowerings.xla_blocked, xla=lowerings.xla_blocked, kernel=lowerings.kernel_blocked
        ),
    },
)
ad.primitive_jvps[scan_p] = _jvp
ad.primitive_transposes[scan_p] = _transpose
batching.primitive_batchers[scan_p] = _batch

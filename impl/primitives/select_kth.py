"""Position of the k-th smallest element along an axis."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl.decide import Decision
from impl.lowerings import select as lowerings
from impl.primitives import _core


def select_kth(values: jax.Array, k: int, *, decision: Decision) -> jax.Array:
    """Position of the k-th smallest (from 1) along the middle axis of [outer, n, inner].

    NaNs come after every number. Of several equal elements the ordered path takes the one with
    the lowest index, the atomic path any.

    Returns:
        int32, shape [outer, 1, inner].
    """
    return select_kth_p.bind(values, k=k, decision=decision)  # type: ignore[no-any-return]


def _abstract(values: Any, *, k: int, decision: Decision) -> Any:
    shape = (values.shape[0], 1, values.shape[2])
    return values.update(shape=shape, dtype=jnp.dtype(jnp.int32), weak_type=False)


def _jvp(primals: Any, tangents: Any, **params: Any) -> Any:
    out = select_kth_p.bind(*primals, **params)
    return out, _core.zero_tangent(out)


def _batch(args: Any, dims: Any, *, k: int, decision: Decision) -> Any:
    values = _core.move_batch(args[0], dims[0], args[0].shape[dims[0]])
    out = select_kth(_core.fold(values), k, decision=decision)
    return _core.unfold(out, *values.shape[:2]), 0


select_kth_p = _core.new_primitive(
    "samebits_select_kth",
    _abstract,
    {
        "atomic": _core.Lowerings(
            cpu=lowerings.xla_first, xla=lowerings.xla_first, kernel=lowerings.kernel_any
        ),
        "ordered": _core.Lowerings(
            cpu=lowerings.xla_first, xla=lowerings.xla_first, kernel=lowerings.kernel_first
        ),
    },
)
ad.primitive_jvps[select_kth_p] = _jvp
batching.primitive_batchers[select_kth_p] = _batch

"""Products of matrices; what they are differentiated to are products again."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._core import jax_internals
from impl._core.shard_axes import aligned
from impl._lowerings import matmul as lowerings
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.alert import alert


def matmul(a: jax.Array, b: jax.Array, *, decision: Decision, pullback: Decision) -> jax.Array:
    """Products of matrices, one for each of a batch.

    float32 is multiplied in full precision, unless jax_default_matmul_precision says otherwise.
    float16 and bfloat16 are added up in float32 and rounded once.

    Args:
        a: Shape [batch, m, k].
        b: Shape [batch, k, n], of the same dtype.
        decision: What each platform does. Alerts are the caller's business.
        pullback: What differentiating it does, and what its gradients are computed by; it alerts
            by itself.

    Returns:
        Shape [batch, m, n].
    """
    return _bind(a, b, decision=decision, pullback=pullback, precision=precision())


def precision() -> str:
    """The precision of products: that which the caller configured, and else the highest."""
    return jax_internals.default_matmul_precision() or "highest"


def _bind(a: jax.Array, b: jax.Array, **params: Any) -> jax.Array:
    return matmul_p.bind(*aligned(a, b), **params)  # type: ignore[no-any-return]


def _abstract(a: Any, b: Any, **params: Any) -> Any:
    return a.update(shape=(a.shape[0], a.shape[1], b.shape[2]), weak_type=False)


def _transpose_left(cotangent: Any, a: Any, b: jax.Array, **params: Any) -> Any:
    cotangent = alert(cotangent, params["pullback"])
    return _bind(cotangent, jnp.swapaxes(b, 1, 2), **_back(params))


def _transpose_right(cotangent: Any, a: jax.Array, b: Any, **params: Any) -> Any:
    cotangent = alert(cotangent, params["pullback"])
    return _bind(jnp.swapaxes(a, 1, 2), cotangent, **_back(params))


def _back(params: Any) -> dict[str, Any]:
    """The parameters of a gradient."""
    return {**params, "decision": params["pullback"]}


def _batch(args: Any, dims: Any, **params: Any) -> Any:
    size = _common.batch_size(args, dims)
    moved = [_common.move_batch(arg, dim, size) for arg, dim in zip(args, dims, strict=True)]
    out = _bind(*map(_common.fold, moved), **params)
    return _common.unfold(out, size, moved[0].shape[1]), 0


_form = functools.partial(_common.without, "pullback")
_xla = _form(lowerings.xla)
_as_it_comes = _form(lowerings.xla_atomic)
matmul_p = _common.new_primitive(
    "samebits_matmul",
    _abstract,
    {
        "atomic": _common.Lowerings(_xla, _as_it_comes, _common.without("launch", _as_it_comes)),
        "ordered": _common.Lowerings(_xla, _xla, _form(lowerings.kernel)),
    },
)
ad.defbilinear(matmul_p, _transpose_left, _transpose_right)
ad.defjvp(
    matmul_p,
    lambda tangent, a, b, **params: _bind(tangent, b, **params),
    lambda tangent, a, b, **params: _bind(a, tangent, **params),
)
batching.primitive_batchers[matmul_p] = _batch

"""Matrix products, whose derivatives are matrix products too."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._core import jax_internals
from impl._core.shard_axes import aligned
from impl._lowerings import _partitioning
from impl._lowerings import matmul as lowerings
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.alert import alert


def matmul(a: jax.Array, b: jax.Array, *, decision: Decision, pullback: Decision) -> jax.Array:
    """Computes a batch of matrix products.

    float32 is multiplied in full precision, unless jax_default_matmul_precision lowers it. float16
    and bfloat16 are summed in float32 and rounded once.

    Args:
        a: Shape [batch, m, k].
        b: Shape [batch, k, n], of the same dtype.
        decision: The decision of this call. The caller gives its alert.
        pullback: The decision of the gradients, which give its alert.

    Returns:
        Shape [batch, m, n].
    """
    return _bind(a, b, decision=decision, pullback=pullback, precision=precision())


def precision() -> str:
    """Returns the precision of products: the one that the user configured, else the highest."""
    return jax_internals.default_matmul_precision() or "highest"


def _bind(a: jax.Array, b: jax.Array, **params: Any) -> jax.Array:
    return matmul_p.bind(*aligned(a, b), **params)  # type: ignore[no-any-return]


def _abstract(a: Any, b: Any, **params: Any) -> Any:
    return a.update(shape=(a.shape[0], a.shape[1], b.shape[2]), weak_type=False)


def _transpose_left(cotangent: Any, a: Any, b: jax.Array, **params: Any) -> Any:
    cotangent = alert(cotangent, params["pullback"])
    return _bind(cotangent, jnp.swapaxes(b, 1, 2), **_params_of_gradient(params))


def _transpose_right(cotangent: Any, a: jax.Array, b: Any, **params: Any) -> Any:
    cotangent = alert(cotangent, params["pullback"])
    return _bind(jnp.swapaxes(a, 1, 2), cotangent, **_params_of_gradient(params))


def _params_of_gradient(params: Any) -> dict[str, Any]:
    return {**params, "decision": params["pullback"]}


def _batch(args: Any, dims: Any, **params: Any) -> Any:
    size = _common.batch_size(args, dims)
    batched = [_common.batch_to_front(arg, dim, size) for arg, dim in zip(args, dims, strict=True)]
    out = _bind(*map(_common.merge_batch, batched), **params)
    return _common.split_batch(out, size, batched[0].shape[1]), 0


_without_pullback = functools.partial(_common.drop_parameter, "pullback")
_ordered = _without_pullback(lowerings.ordered_xla)
_cpu = _without_pullback(lowerings.ordered_cpu)
_atomic = _without_pullback(lowerings.atomic_xla)
matmul_p = _common.new_primitive(
    jax_internals.PRODUCT,
    _abstract,
    _common.Lowerings(
        _cpu, _ordered, _without_pullback(lowerings.ordered_kernel), cpu_isolates=True
    ),
    _common.Lowerings.without_kernel(_cpu, _atomic, cpu_isolates=True),
    axes=_partitioning.LEFT_TO_XLA,
)
ad.defbilinear(matmul_p, _transpose_left, _transpose_right)
ad.defjvp(
    matmul_p,
    lambda tangent, a, b, **params: _bind(tangent, b, **params),
    lambda tangent, a, b, **params: _bind(a, tangent, **params),
)
batching.primitive_batchers[matmul_p] = _batch

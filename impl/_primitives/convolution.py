"""Convolutions and their gradients: three products, each a derivative of the other two."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._core import jax_internals
from impl._core.shard_axes import aligned
from impl._families.convolution_window import ConvolutionWindow
from impl._lowerings import _partitioning
from impl._lowerings import convolution as lowerings
from impl._lowerings.convolution import Role as Role
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.alert import alert
from impl._primitives.matmul import precision


def convolution(
    a: jax.Array,
    b: jax.Array,
    *,
    role: Role,
    window: ConvolutionWindow,
    decision: Decision,
    pullback: Decision,
) -> jax.Array:
    """Computes the result, the image or the weights of a convolution from the other two.

    On the ordered path taps are added in the spec's tap order. Dtypes are as in ``matmul``. With
    the cotangent of the result as an operand, the image and the weights are gradients.

    Args:
        a: The image, [n, groups * inputs, *sizes]; for the role ``image`` the result.
        b: The weights, [groups * outputs, inputs, *taps]; for the role ``weights`` the result.
        role: The array to compute; the other two are the operands.
        window: The geometry.
        decision: The decision of this call. The caller gives its alert.
        pullback: The decision of the gradients, which give its alert.
    """
    return _bind(
        a,
        b,
        role=role,
        window=window,
        decision=decision,
        pullback=pullback,
        precision=precision(),
    )


def _bind(a: jax.Array, b: jax.Array, **params: Any) -> jax.Array:
    return convolution_p.bind(*aligned(a, b), **params)  # type: ignore[no-any-return]


def _abstract(a: Any, b: Any, *, role: Role, window: ConvolutionWindow, **_: Any) -> Any:
    return a.update(shape=lowerings.shape_of(role, a, b, window), weak_type=False)


def _transpose_first(cotangent: Any, a: Any, b: jax.Array, *, role: Role, **params: Any) -> Any:
    """Computes the cotangent of ``a``, which is the image or the result."""
    cotangent = alert(cotangent, params["pullback"])
    params["decision"] = params["pullback"]
    if role == "weights":
        # ``b`` is the result, and the cotangent stands for the weights.
        return _bind(b, cotangent, role="image", **params)
    return _bind(cotangent, b, role="image" if role == "result" else "result", **params)


def _transpose_second(cotangent: Any, a: jax.Array, b: Any, *, role: Role, **params: Any) -> Any:
    """Computes the cotangent of ``b``, which is the weights or the result."""
    cotangent = alert(cotangent, params["pullback"])
    params["decision"] = params["pullback"]
    if role == "weights":
        return _bind(a, cotangent, role="result", **params)
    image, result = (a, cotangent) if role == "result" else (cotangent, a)
    return _bind(image, result, role="weights", **params)


def _batch(args: Any, dims: Any, *, role: Role, window: ConvolutionWindow, **params: Any) -> Any:
    size = _common.batch_size(args, dims)
    if role != "weights" and dims[1] is None:
        a = _common.batch_to_front(args[0], dims[0], size)
        out = _bind(_common.merge_batch(a), args[1], role=role, window=window, **params)
        return _common.split_batch(out, size, a.shape[1]), 0
    a, b = (_common.batch_to_front(arg, dim, size) for arg, dim in zip(args, dims, strict=True))
    # The members of the batch become groups of channels.
    window = dataclasses.replace(window, groups=size * window.groups)
    a = _merge_batch_into_channels(a)
    b = _common.merge_batch(b) if role != "weights" else _merge_batch_into_channels(b)
    out = _bind(a, b, role=role, window=window, **params)
    if role == "weights":
        return out.reshape(size, -1, *out.shape[1:]), 0
    return out.reshape(out.shape[0], size, -1, *out.shape[2:]), 1


def _merge_batch_into_channels(batched: jax.Array) -> jax.Array:
    """Reorders [batch, n, channels, *sizes] to [n, batch * channels, *sizes]."""
    moved = jnp.moveaxis(batched, 0, 1)
    return moved.reshape(moved.shape[0], -1, *moved.shape[3:])


_without_pullback = functools.partial(_common.drop_parameter, "pullback")
convolution_p = _common.new_primitive(
    jax_internals.PRODUCT,
    _abstract,
    _common.Lowerings(
        _without_pullback(lowerings.ordered_cpu),
        _without_pullback(lowerings.ordered_xla),
        _without_pullback(lowerings.ordered_kernel),
        cpu_isolates=True,
    ),
    _common.Lowerings(
        _without_pullback(lowerings.atomic_cpu),
        _without_pullback(lowerings.atomic_xla),
        _without_pullback(lowerings.atomic_kernel),
        launches=False,
    ),
    axes=_partitioning.LEFT_TO_XLA,
)
ad.defbilinear(convolution_p, _transpose_first, _transpose_second)
ad.defjvp(
    convolution_p,
    lambda tangent, a, b, **params: _bind(tangent, b, **params),
    lambda tangent, a, b, **params: _bind(a, tangent, **params),
)
batching.primitive_batchers[convolution_p] = _batch

"""Convolutions and their gradients: three products, each a derivative of the other two."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching

from impl._core.convolution_window import ConvolutionWindow
from impl._core.shard_axes import aligned
from impl._lowerings import convolution as lowerings
from impl._lowerings.convolution import Wanted
from impl._mode.decide import Decision
from impl._primitives import _common
from impl._primitives.alert import alert
from impl._primitives.matmul import precision


def convolution(
    a: jax.Array,
    b: jax.Array,
    *,
    wanted: Wanted,
    strides: ConvolutionWindow,
    decision: Decision,
    pullback: Decision,
) -> jax.Array:
    """The result, the image or the weights of a convolution, from the other two.

    On the ordered path taps are in the spec's tap order. Types are as ``matmul``'s.

    Args:
        a: The image, [n, groups * inputs, *sizes]; or the result, where the image is wanted.
        b: The weights, [groups * outputs, inputs, *taps]; or the result, where they are wanted.
        wanted: Which of the three to compute; the others are its operands. The image and the
            weights are the gradients, if what is in place of the result is its cotangent.
        strides: The geometry.
        decision: What each platform does. Alerts are the caller's business.
        pullback: What differentiating it does, and what its gradients are computed by; it alerts
            by itself.
    """
    return _bind(
        a,
        b,
        wanted=wanted,
        strides=strides,
        decision=decision,
        pullback=pullback,
        precision=precision(),
    )


def _bind(a: jax.Array, b: jax.Array, **params: Any) -> jax.Array:
    return convolution_p.bind(*aligned(a, b), **params)  # type: ignore[no-any-return]


def _abstract(a: Any, b: Any, *, wanted: Wanted, strides: ConvolutionWindow, **_: Any) -> Any:
    return a.update(shape=lowerings.shape_of(wanted, a, b, strides), weak_type=False)


def _transpose_first(cotangent: Any, a: Any, b: jax.Array, *, wanted: Wanted, **params: Any) -> Any:
    """Of the image's cotangent the result is wanted, and of the result's the image."""
    cotangent = alert(cotangent, params["pullback"])
    params["decision"] = params["pullback"]
    if wanted == "weights":
        # ``b`` is the result, and the cotangent is in place of the weights.
        return _bind(b, cotangent, wanted="image", **params)
    return _bind(cotangent, b, wanted="image" if wanted == "result" else "result", **params)


def _transpose_second(
    cotangent: Any, a: jax.Array, b: Any, *, wanted: Wanted, **params: Any
) -> Any:
    cotangent = alert(cotangent, params["pullback"])
    params["decision"] = params["pullback"]
    if wanted == "weights":
        return _bind(a, cotangent, wanted="result", **params)
    image, result = (a, cotangent) if wanted == "result" else (cotangent, a)
    return _bind(image, result, wanted="weights", **params)


def _batch(
    args: Any, dims: Any, *, wanted: Wanted, strides: ConvolutionWindow, **params: Any
) -> Any:
    size = _common.batch_size(args, dims)
    if wanted != "weights" and dims[1] is None:
        a = _common.move_batch(args[0], dims[0], size)
        out = _bind(_common.fold(a), args[1], wanted=wanted, strides=strides, **params)
        return _common.unfold(out, size, a.shape[1]), 0
    a, b = (_common.move_batch(arg, dim, size) for arg, dim in zip(args, dims, strict=True))
    groups = strides.groups
    more = dataclasses.replace(strides, groups=size * groups)
    a = _into_channels(a)
    b = _common.fold(b) if wanted != "weights" else _into_channels(b)
    out = _bind(a, b, wanted=wanted, strides=more, **params)
    if wanted == "weights":
        return out.reshape(size, -1, *out.shape[1:]), 0
    return out.reshape(out.shape[0], size, -1, *out.shape[2:]), 1


def _into_channels(batched: jax.Array) -> jax.Array:
    """[batch, n, channels, *sizes] to [n, batch * channels, *sizes]."""
    moved = jnp.moveaxis(batched, 0, 1)
    return moved.reshape(moved.shape[0], -1, *moved.shape[3:])


_form = functools.partial(_common.without, "pullback")
convolution_p = _common.new_primitive(
    "samebits_convolution",
    _abstract,
    {
        "atomic": _common.Lowerings(
            _form(lowerings.xla_atomic_on_cpu),
            _form(lowerings.xla_atomic),
            _form(lowerings.kernel_atomic),
        ),
        "ordered": _common.Lowerings(
            _form(lowerings.xla), _form(lowerings.xla), _form(lowerings.kernel)
        ),
    },
)
ad.defbilinear(convolution_p, _transpose_first, _transpose_second)
ad.defjvp(
    convolution_p,
    lambda tangent, a, b, **params: _bind(tangent, b, **params),
    lambda tangent, a, b, **params: _bind(a, tangent, **params),
)
batching.primitive_batchers[convolution_p] = _batch

"""The programs that are compiled for GPUs and TPUs, in addition to the calls of rows.

``PROGRAMS`` are operations and training steps under ``portable``. Their arrays are small, since XLA
takes as long for long ones. ``CALLS`` are ops of ``impl`` at the sizes of benchmarks, whose bytes
matter; ``elementary()`` has the functions that ``portable`` computes by itself.

Each entry returns a function and its arguments, by shape and dtype, without values::

    PROGRAMS["scatter"]()   x.at[indices].add(updates) of float32[128, 32], int32[512] and
                            float32[512, 32], whose result is float32[128, 32]
    CALLS["histc"]()        impl.histc(x, 100, 0, 1) of float32[10000000]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import impl
from conformance.lab.compiled import PROGRAM_TARGETS
from conformance.lab.portable import programs as steps
from impl._exact.elementary import DOUBLE, FUNCTIONS

#: A function of arrays, and its arguments: arrays, or their shapes and dtypes, in trees.
Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]


def _of(*shape: int, dtype: Any = np.float32) -> jax.ShapeDtypeStruct:
    """Returns a shape and a dtype."""
    return jax.ShapeDtypeStruct(shape, dtype)


def _attention(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
    mixed: jax.Array = jnp.einsum("hqk,hkd->hqd", jax.nn.softmax(scores), v)
    return mixed


def _regression(weights: jax.Array, x: jax.Array, labels: jax.Array) -> jax.Array:
    """Returns the weights after a step of a regression by softmax."""

    def loss(weights: jax.Array) -> jax.Array:
        logs = jax.nn.log_softmax(x @ weights)
        mean: jax.Array = -jnp.take_along_axis(logs, labels[:, None], -1).mean()
        return mean

    moved: jax.Array = weights - 0.1 * jax.grad(loss)(weights)
    return moved


def _convolution(x: jax.Array, kernel: jax.Array) -> jax.Array:
    return lax.conv(x, kernel, (1, 1), "SAME")


def _scatter(x: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
    return x.at[indices].add(updates)


def _call(function: Callable[..., Any], *arguments: Any) -> Callable[[], Call]:
    return lambda: (function, arguments)


#: The training steps, whose plain code is inexact.
STEPS = ("transformer", "mixed_precision", "recurrent", "conv_net")
#: The programs by name: the cheapest to compile come first.
PROGRAMS: Mapping[str, Callable[[], Call]] = {
    "exponential": _call(jnp.exp, _of(256, 1024)),
    "logarithm": _call(jnp.log, _of(256, 1024)),
    "tanh": _call(jnp.tanh, _of(256, 1024)),
    "quotient": _call(jnp.divide, _of(256, 1024), _of(256, 1024)),
    "inverse_root": _call(lax.rsqrt, _of(256, 1024)),
    "sum": _call(lambda x: x.sum(-1), _of(256, 1024)),
    "softmax": _call(jax.nn.softmax, _of(64, 256)),
    "running_sum": _call(lambda x: jnp.cumsum(x, -1), _of(64, 256)),
    "scatter": _call(_scatter, _of(128, 32), _of(512, dtype=np.int32), _of(512, 32)),
    "product": _call(jnp.matmul, _of(64, 64), _of(64, 64)),
    "product_of_bfloat16": _call(
        jnp.matmul, _of(64, 64, dtype=jnp.bfloat16), _of(64, 64, dtype=jnp.bfloat16)
    ),
    "convolution": _call(_convolution, _of(2, 8, 16, 16), _of(16, 8, 3, 3)),
    "attention": _call(_attention, *(_of(2, 16, 8) for _ in range(3))),
    "regression": _call(_regression, _of(16, 8), _of(32, 16), _of(32, dtype=np.int32)),
    **{name: steps.PROGRAMS[name] for name in STEPS},
}


def _ints(*shape: int) -> jax.ShapeDtypeStruct:
    return _of(*shape, dtype=np.int32)


def _gradient(call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the gradient of a call, as a function of the cotangent and the call's arrays."""

    def function(cotangent: Any, first: Any, *others: Any) -> Any:
        _, pullback = jax.vjp(lambda first: call(first, *others), first)
        return pullback(cotangent)[0]

    return function


_F: Any = impl.nn.functional
_MATRIX, _ROW = _of(4096, 4096), _of(1, 10_000_000)
_IMAGE, _POOLED = _of(64, 64, 112, 112), _of(64, 64, 56, 56)
_SAMPLED, _WEIGHTS = _of(1, 16, 64, 64), _of(64, 64, 3, 3)
#: Calls of ops at the sizes of benchmarks, by name. The gradients of ``embedding`` and of
#: ``grid_sample`` are smaller: XLA folds a reduction of as many constants as their results have
#: elements, which takes minutes for large ones.
CALLS: Mapping[str, Callable[[], Call]] = {
    "index_add": _call(
        lambda x, i, s: impl.index_add(x, 0, i, s),
        *(_of(100_000), _ints(1_000_000), _of(1_000_000)),
    ),
    "index_add of rows": _call(
        lambda x, i, s: impl.index_add(x, 0, i, s),
        *(_of(10_000, 64), _ints(100_000), _of(100_000, 64)),
    ),
    "scatter_reduce, product": _call(
        lambda x, i, s: impl.scatter_reduce(x, 0, i, s, "prod"),
        *(_of(10_000), _ints(100_000), _of(100_000)),
    ),
    "embedding, gradient": _call(
        _gradient(lambda table, i: _F.embedding(i, table)),
        *(_of(1_024, 1024), _of(500, 1024), _ints(1_024)),
    ),
    "histc": _call(lambda x: impl.histc(x, 100, 0, 1), _of(10_000_000)),
    "bincount": _call(lambda x: impl.bincount(x, length=100), _ints(10_000_000)),
    "cumsum": _call(lambda x: impl.cumsum(x, -1), _MATRIX),
    "cummax": _call(lambda x: impl.cummax(x, -1), _MATRIX),
    "cumprod, gradient": _call(_gradient(lambda x: impl.cumprod(x, -1)), _MATRIX, _MATRIX),
    "kthvalue": _call(lambda x: impl.kthvalue(x, 1024, -1), _MATRIX),
    "median of one row": _call(lambda x: impl.median(x, -1), _ROW),
    "mode": _call(lambda x: impl.mode(x, -1), _of(512, 1024)),
    "topk": _call(lambda x: impl.topk(x, 16), _MATRIX),
    "sort": _call(lambda x: impl.sort(x, -1), _MATRIX),
    "max_pool2d, gradient": _call(_gradient(lambda x: _F.max_pool2d(x, 3, 2, 1)), _POOLED, _IMAGE),
    "interpolate, gradient": _call(
        _gradient(lambda x: _F.interpolate(x, scale_factor=2, mode="bilinear")),
        *(_of(8, 64, 112, 112), _of(8, 64, 56, 56)),
    ),
    "grid_sample, gradient": _call(
        _gradient(lambda x, grid: _F.grid_sample(x, grid, align_corners=False)),
        *(_SAMPLED, _SAMPLED, _of(1, 64, 64, 2)),
    ),
    "conv2d": _call(lambda x, w: _F.conv2d(x, w, padding=1), _POOLED, _WEIGHTS),
    "conv2d, gradient of the weights": _call(
        _gradient(lambda w, x: _F.conv2d(x, w, padding=1)), _POOLED, _WEIGHTS, _POOLED
    ),
    "mm": _call(impl.mm, _MATRIX, _MATRIX),
}


#: The GPUs that each program or call is compiled for. Without a device, XLA finds no kernel for a
#: product of int8 of ``conv_net``.
ON_GPUS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(PROGRAMS, PROGRAM_TARGETS),
    **dict.fromkeys(("conv_net", *CALLS), PROGRAM_TARGETS[:1]),
}


def elementary() -> Mapping[str, Callable[[], Call]]:
    """Returns the elementary functions of each dtype, by name: ``exp of float32``."""
    dtypes = tuple(map(np.dtype, (np.float32, np.float16, jnp.bfloat16)))
    return {
        f"{name} of {dtype.name}": _call(_function(name), *_operands(name, dtype))
        for name in FUNCTIONS
        for dtype in (*dtypes, *([np.dtype(np.float64)] if name in DOUBLE else []))
    }


def _function(name: str) -> Callable[..., Any]:
    parameters = {"y": 7} if name == "integer_pow" else {}
    return lambda *operands: FUNCTIONS[name](*operands, **parameters)


def _operands(name: str, dtype: np.dtype[Any]) -> list[jax.ShapeDtypeStruct]:
    return [_of(1 << 20, dtype=dtype)] * (2 if name in ("atan2", "div", "pow") else 1)

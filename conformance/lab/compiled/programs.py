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

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
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

_EXAMPLES = Path(__file__).parents[3] / "docs/examples"


def _of(*shape: int, dtype: Any = np.float32) -> jax.ShapeDtypeStruct:
    """Returns a shape and a dtype."""
    return jax.ShapeDtypeStruct(shape, dtype)


def _example(name: str) -> Any:
    """Returns an example of the documents as a module of its own, which nothing else changes.

    Raises:
        FileNotFoundError: This is no checkout.
    """
    path = _EXAMPLES / f"{name}.py"
    if not path.exists():
        raise FileNotFoundError(f"{path} is not here: the examples are in a checkout alone")
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _portable() -> Call:
    """Returns the step of ``portable.py``, with one layer in place of two."""
    example = _example("portable")
    example.LAYERS = 1
    weights = jax.eval_shape(example.initial, jax.random.key(0))
    words = _of(example.BATCH, example.LENGTH + 1, dtype=np.int32)
    return example.step, ((weights, weights, weights, _of()), words)


def _resume() -> Call:
    """Returns the step of ``resume.py``."""
    example = _example("resume")
    return example.train, (example.first_state(), _of(16, 8))


def _processes() -> Call:
    """Returns the step of ``processes.py``."""
    example = _example("processes")
    width = example.WIDTH
    return example.step, (_of(width, example.CLASSES), _of(example.BATCH, width + 1))


def _micro_batches() -> Call:
    """Returns the step of ``micro_batches.py`` for one micro-batch of two."""
    example = _example("micro_batches")
    width, every = example.WIDTH, 2
    weights = {"in": _of(width, width), "bias": _of(width), "out": _of(width, 2)}
    optimizer = example.MultiSteps(example.optax.sgd(1e-2, momentum=0.9), every)

    def step(weights: Any, state: Any, x: jax.Array, y: jax.Array) -> Any:
        updates, state = optimizer.update(jax.grad(example.loss), state, weights, x, y)
        return example.optax.apply_updates(weights, updates), state

    state = jax.eval_shape(optimizer.init, weights)
    rows = example.BATCH // every
    return step, (weights, state, _of(rows, width), _of(rows, 2))


def _digits() -> Call:
    """Returns the step of ``digits.py`` on eight images."""
    example = _example("digits")
    weights = example.initial_weights(example.impl.Generator())
    state = jax.eval_shape(example.OPTIMIZER.init, weights)
    images, labels = _of(8, 8, 8, dtype=np.int32), _of(8, dtype=np.int32)
    return example.update.__wrapped__, (weights, state, images, labels)


def _one_policy() -> Call:
    """Returns the step of ``one_policy.py``: two micro-batches, and one layer in place of two."""
    example = _example("one_policy")
    example.LAYERS = 1
    weights = jax.tree.map(jnp.asarray, example.initial("float32"))
    shape = (2, example.SEQUENCES // 2, example.LENGTH)
    batch = {
        "tokens": _of(*shape, dtype=np.int32),
        "logs": _of(*shape[:2], example.LENGTH - 1),
        "live": _of(*shape[:2], example.LENGTH - 1, dtype=bool),
        "advantages": _of(*shape[:2]),
    }
    return example.updated.__wrapped__, (weights, batch, _of())


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
    "example_processes": _processes,
    "example_micro_batches": _micro_batches,
    "example_resume": _resume,
    "example_digits": _digits,
    "example_portable": _portable,
    "example_one_policy": _one_policy,
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
#: product of int8 of ``conv_net``. The other examples need more packages.
ON_GPUS: Mapping[str, Sequence[str]] = {
    **{name: PROGRAM_TARGETS for name in PROGRAMS if not name.startswith("example_")},
    "example_portable": PROGRAM_TARGETS,
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

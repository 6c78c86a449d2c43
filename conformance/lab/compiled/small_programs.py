"""Programs for devices without float64 or with little: single operations, and steps of training.

Their arrays are small, since XLA takes longest over a program, however long its arrays are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from conformance.lab.compiled import example_steps
from conformance.lab.compiled.example_steps import Call
from conformance.lab.compiled.example_steps import of as _of
from conformance.lab.portable import programs


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


def _step(name: str) -> Callable[[], Call]:
    def call() -> Call:
        state, batch, step = programs.PROGRAMS[name]()
        return step, (state, batch)

    return call


def _call(function: Callable[..., Any], *arguments: Any) -> Callable[[], Call]:
    return lambda: (function, arguments)


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
    "example_processes": example_steps.processes,
    "example_micro_batches": example_steps.micro_batches,
    "example_resume": example_steps.resume,
    "example_digits": example_steps.digits,
    "example_portable": example_steps.portable,
    "example_one_policy": example_steps.one_policy,
    "transformer": _step("transformer"),
    "mixed_precision": _step("mixed_precision"),
    "recurrent": _step("recurrent"),
    "conv_net": _step("conv_net"),
}

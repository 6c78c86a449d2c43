"""Training steps in ``jax.numpy`` and ``jax.lax`` alone, whose batches devices can share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from conformance.programs import Program

WIDTH, LENGTH, BATCH = 16, 8, 16


def transformer(
    width: int = WIDTH,
    heads: int = 2,
    layers: int = 1,
    length: int = LENGTH,
    batch: int = BATCH,
    words: int = 32,
    dtype: Any = jnp.float32,
) -> Program:
    """Returns a transformer with updates as Adam's, which predicts the next word.

    Weights are float32, and used in ``dtype``.
    """
    block = {
        "qkv": (width, 3 * width),
        "out": (width, width),
        "up": (width, 4 * width),
        "down": (4 * width, width),
    }
    blocks = {f"{name}{n or ''}": shape for n in range(layers) for name, shape in block.items()}
    weights = {
        name: jax.random.normal(jax.random.fold_in(jax.random.key(0), i), shape) * 0.1
        for i, (name, shape) in enumerate({"embed": (words, width), **blocks}.items())
    }

    def loss(weights: Mapping[str, jax.Array], batch: Mapping[str, jax.Array]) -> jax.Array:
        weights = jax.tree.map(lambda w: w.astype(dtype), weights)
        text, nexts = batch["text"][:, :-1], batch["text"][:, 1:]
        x = weights["embed"][text] + jnp.sin(jnp.arange(length, dtype=jnp.float32))[:, None]
        for n in range(layers):
            qkv, out, up, down = (weights[f"{name}{n or ''}"] for name in block)
            parts = jnp.split(_normed(x) @ qkv, 3, -1)
            q, k, v = (part.reshape(*part.shape[:2], heads, -1) for part in parts)
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width / heads)
            scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -1e9)
            mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
            x = x + mixed.reshape(x.shape) @ out
            x = x + jax.nn.gelu(_normed(x) @ up) @ down
        logs = jax.nn.log_softmax(x @ weights["embed"].T)
        mean: jax.Array = (
            -jnp.take_along_axis(logs, nexts[..., None], -1).mean().astype(jnp.float32)
        )
        return mean

    text = np.random.default_rng(0).integers(0, words, (batch, length + 1))
    return _adam(weights, loss, {"text": jnp.asarray(text)})


def _normed(x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5)


def recurrent() -> Program:
    """Returns a recurrent net with a scan, a segment sum, a cumulative sum and a condition."""
    rng = np.random.default_rng(1)
    weights = {
        "w": jnp.asarray(rng.normal(size=(WIDTH, WIDTH)), jnp.float32) * 0.3,
        "u": jnp.asarray(rng.normal(size=(WIDTH, WIDTH)), jnp.float32) * 0.3,
    }
    batch = {
        "x": jnp.asarray(rng.normal(size=(BATCH, LENGTH, WIDTH)), jnp.float32),
        "group": jnp.asarray(rng.integers(0, 5, BATCH)),
    }

    def loss(weights: Mapping[str, jax.Array], batch: Mapping[str, jax.Array]) -> jax.Array:
        @jax.checkpoint
        def step(h: jax.Array, x: jax.Array) -> tuple[jax.Array, jax.Array]:
            h = jnp.tanh(h @ weights["w"] + jax.nn.sigmoid(x @ weights["u"]))
            return h, h.sum(-1)

        h, sums = jax.lax.scan(step, jnp.zeros((BATCH, WIDTH)), batch["x"].swapaxes(0, 1))
        pooled = jax.ops.segment_sum(h, batch["group"], 5)
        pooled = jax.lax.cond(pooled.sum() > 0, jnp.cos, jax.nn.softplus, pooled)
        return jnp.std(jnp.cumsum(pooled, 1)) + jnp.logaddexp(sums, 1.0).mean()

    return _adam(weights, loss, batch)


def conv_net() -> Program:
    """Returns a convolutional net in ``jax.lax``: strides, groups, pools and one dimension."""
    rng = np.random.default_rng(4)
    shapes = {"image": (3, 3, 3, 4), "grouped": (3, 3, 2, 8), "line": (5, 8, 8), "out": (8, 5)}
    weights = {
        name: jnp.asarray(rng.normal(size=shape), jnp.float32) * 0.2
        for name, shape in shapes.items()
    }
    batch = {
        "x": jnp.asarray(rng.normal(size=(BATCH, 8, 8, 3)), jnp.float32),
        "y": jnp.asarray(rng.integers(0, 5, BATCH)),
    }

    def pooled(x: jax.Array) -> jax.Array:
        highest: jax.Array = jax.lax.reduce_window(
            x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
        )
        return highest

    def loss(weights: Mapping[str, jax.Array], batch: Mapping[str, jax.Array]) -> jax.Array:
        image, line = ("NHWC", "HWIO", "NHWC"), ("NWC", "WIO", "NWC")
        conv = jax.lax.conv_general_dilated
        x = conv(batch["x"], weights["image"], (1, 1), "SAME", dimension_numbers=image)
        x = (x - x.mean((0, 1, 2))) * jax.lax.rsqrt(jnp.var(x, (0, 1, 2)) + 1e-5)
        x = conv(
            pooled(jax.nn.relu(x)),
            weights["grouped"],
            (2, 2),
            "SAME",
            dimension_numbers=image,
            feature_group_count=2,
        )
        x = jax.nn.silu(x).reshape(BATCH, -1, 8)
        x = conv(x, weights["line"], (1,), "SAME", rhs_dilation=(2,), dimension_numbers=line)
        logs = jax.nn.log_softmax(jnp.tanh(x).mean(1) @ weights["out"])
        return -jnp.take_along_axis(logs, batch["y"][:, None], 1).mean()

    return _adam(weights, loss, batch)


def curve_fit() -> Program:
    """Returns a step of Levenberg and Marquardt, which fits the energy of a bond in float64."""
    distances = np.random.default_rng(5).uniform(0.6, 3, 8 * BATCH)
    curve = np.array([1.3, 2.1, 0.9, 0.2])

    def energies(curve: jax.Array, distances: jax.Array) -> jax.Array:
        depth, width, place, tilt = curve
        morse = depth * (1 - jnp.exp(-width * (distances - place))) ** 2
        energy: jax.Array = morse + tilt * jnp.sin(3 * distances) * jnp.log1p(distances)
        return energy

    def step(state: Any, batch: Mapping[str, jax.Array]) -> Any:
        curve, damping = state
        rest = energies(curve, batch["distances"]) - batch["energies"]
        slopes = jax.jacfwd(energies)(curve, batch["distances"])
        square = slopes.T @ slopes
        matrix = square + damping * jnp.diag(jnp.diag(square))
        factor = jax.scipy.linalg.cho_factor(matrix, lower=True)
        return curve - jax.scipy.linalg.cho_solve(factor, slopes.T @ rest), damping / 2

    # NumPy's functions differ in their last bits from machine to machine.
    measured = np.round(np.asarray(energies(jnp.asarray(curve), jnp.asarray(distances))), 3)
    batch = {"distances": jnp.asarray(distances), "energies": jnp.asarray(measured)}
    return step, ((jnp.asarray(curve * 1.25), jnp.float64(0.5)), batch)


def _adam(weights: Any, loss: Callable[[Any, Any], jax.Array], batch: Any) -> Program:
    """Returns a step of Adam, which maps a state and a batch to the next state, and both."""

    def step(state: Any, batch: Any) -> Any:
        weights, first, second, count = state
        gradients = jax.grad(loss)(weights, batch)
        count = count + 1
        scales = 1 - 0.9**count, 1 - 0.99**count
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
        second = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g**2, second, gradients)

        def moved(w: jax.Array, m: jax.Array, v: jax.Array) -> jax.Array:
            step: jax.Array = 0.01 * (m / scales[0]) / (jnp.sqrt(v / scales[1]) + 1e-8)
            return w - step

        return jax.tree.map(moved, weights, first, second), first, second, count

    zeros = jax.tree.map(jnp.zeros_like, weights)
    return step, ((weights, zeros, zeros, jnp.float32(0)), batch)

"""Trains a small transformer on 1, 2, 4 and 8 devices, and compares the bits of the weights.

Each training runs in a process of its own, whose CPU stands for as many devices. The text is the
Zen of Python, which ships with Python. The model is plain ``jax.numpy``; one call of
``impl.use_deterministic_algorithms`` makes its bits independent of the devices.

    python docs/examples/portable.py

With a GPU, this prints the digests of the GPU and of the CPU of the same machine:

    python docs/examples/portable.py --platforms cuda cpu --devices 1
"""

from __future__ import annotations

import argparse
import codecs
import contextlib
import functools
import hashlib
import io
import os
import subprocess
import sys
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import impl

Weights: TypeAlias = dict[str, Any]

DEVICES = (1, 2, 4, 8)
WIDTH, HEADS, LAYERS, LENGTH, BATCH = 32, 4, 2, 16, 16


def text() -> np.ndarray[Any, np.dtype[np.int32]]:
    """Returns the Zen of Python as bytes, int32."""
    with contextlib.redirect_stdout(io.StringIO()):
        import this  # noqa: PLC0415  # The import prints the text.
    return np.frombuffer(codecs.decode(this.s, "rot13").encode(), np.uint8).astype(np.int32)


def initial(key: jax.Array) -> Weights:
    """Returns random weights."""
    keys = iter(jax.random.split(key, 2 + 4 * LAYERS))

    def matrix(rows: int, columns: int) -> jax.Array:
        drawn: jax.Array = jax.random.normal(next(keys), (rows, columns)) * rows**-0.5
        return drawn

    shapes = {
        "qkv": (WIDTH, 3 * WIDTH),
        "out": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
    }
    return {
        "embedding": matrix(128, WIDTH),
        "positions": matrix(LENGTH, WIDTH),
        "blocks": [{k: matrix(*shape) for k, shape in shapes.items()} for _ in range(LAYERS)],
    }


def normalized(x: jax.Array) -> jax.Array:
    """Returns ``x`` with mean 0 and variance 1 along its last axis."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5)


def attention(block: Weights, x: jax.Array) -> jax.Array:
    """Returns causal attention over [batch, length, width]."""
    parts = (x @ block["qkv"]).reshape(*x.shape[:-1], 3, HEADS, WIDTH // HEADS)
    q, k, v = (parts[:, :, i] for i in range(3))
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (WIDTH // HEADS) ** -0.5
    causal = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9))
    mixed: jax.Array = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ block["out"]
    return mixed


def loss(weights: Weights, words: jax.Array) -> jax.Array:
    """Returns the mean cross entropy of the next byte."""
    x = weights["embedding"][words[:, :-1]] + weights["positions"]
    for block in weights["blocks"]:
        x = x + attention(block, normalized(x))
        x = x + jax.nn.gelu(normalized(x) @ block["up"]) @ block["down"]
    scores = jax.nn.log_softmax(normalized(x) @ weights["embedding"].T)
    return -jnp.take_along_axis(scores, words[:, 1:, None], -1).mean()


@jax.jit
def step(state: Any, words: jax.Array) -> tuple[Any, jax.Array]:
    """Returns the state after a step of Adam, and the loss before it."""
    weights, mean, square, count = state
    value, gradient = jax.value_and_grad(loss)(weights, words)
    count = count + 1
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, square, gradient)
    rate = 3e-3 * jnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
    update = functools.partial(jax.tree.map, lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-8))
    return (update(weights, mean, square), mean, square, count), value


def train(devices: int, steps: int, guarantee: str | None) -> str:
    """Trains with the batch cut over devices; returns the digest of weights and losses."""
    if guarantee is not None:
        impl.use_deterministic_algorithms(True, guarantee=guarantee)
    mesh = Mesh(np.array(jax.devices()[:devices]), ("data",))
    weights = jax.jit(initial)(jax.random.key(0))
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = jax.device_put(
        (weights, zeros, zeros, jnp.float32(0)), NamedSharding(mesh, PartitionSpec())
    )
    source, rng, losses = text(), np.random.default_rng(0), []
    for _ in range(steps):
        starts = rng.integers(0, len(source) - LENGTH - 1, BATCH)
        words = source[starts[:, None] + np.arange(LENGTH + 1)]
        state, value = step(
            state, jax.device_put(words, NamedSharding(mesh, PartitionSpec("data")))
        )
        losses.append(value)
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves((state[0], losses)):
        digest.update(np.asarray(leaf).tobytes())
    return f"{digest.hexdigest()}  loss {float(losses[-1]):.4f}"


def in_a_process(platform: str, devices: int, steps: int, guarantee: str | None) -> str:
    """Trains in a process of its own on the devices of a platform, and returns its last line."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
    command = [sys.executable, __file__, "--steps", str(steps), "--devices", str(devices), "--here"]
    if guarantee is not None:
        command += ["--guarantee", guarantee]
    done = subprocess.run(  # noqa: S603  # It runs this file.
        command,
        env={**os.environ, "XLA_FLAGS": flags.strip(), "JAX_PLATFORMS": platform},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()[-1]


def main(arguments: list[str] | None = None) -> int:
    """Compares plain JAX and the guarantee ``portable``; returns 0 if the latter has one digest."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--devices", type=int, nargs="+", default=DEVICES)
    parser.add_argument("--platforms", nargs="+", default=("cpu",), help="as cuda, cpu or tpu")
    parser.add_argument("--guarantee", choices=("portable", "run_to_run"), help="with --here")
    parser.add_argument("--here", action="store_true", help="train in this process, and no more")
    options = parser.parse_args(arguments)
    if options.here:
        print(train(options.devices[0], options.steps, options.guarantee))
        return 0
    settings = [(platform, n) for platform in options.platforms for n in options.devices]
    results: dict[str, set[str]] = {"plain JAX": set(), "portable": set()}
    for name, digests in results.items():
        guarantee = None if name == "plain JAX" else name
        for platform, devices in settings:
            line = in_a_process(platform, devices, options.steps, guarantee)
            print(f"{name:9}  {devices} {platform}  {line}", flush=True)
            digests.add(line.partition(" ")[0])
    for name, digests in results.items():
        word = "result" if len(digests) == 1 else "results"
        print(f"{name}: {len(digests)} {word} of {len(settings)} runs")
    return 0 if len(results["portable"]) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())

"""Trains small programs, and prints a digest of their results: the same one wherever it runs.

``python -m conformance.lab.portable.programs NAME`` trains one on every device that JAX has, with
the batch sharded over them. ``--plain`` does so with the mode off; ``--eager`` runs the equations
one by one.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import impl

#: The parameters, the batch, and the function of both that makes the next parameters.
Program = tuple[Any, Any, Callable[[Any, Any], Any]]

WIDTH, HEADS, WORDS, LENGTH, BATCH, STEPS = 16, 2, 32, 8, 16, 3


def transformer() -> Program:
    """Returns a transformer of one block with updates as Adam's, in ``jax.numpy`` alone."""
    key = jax.random.key(0)
    shapes = {
        "embed": (WORDS, WIDTH),
        "qkv": (WIDTH, 3 * WIDTH),
        "out": (WIDTH, WIDTH),
        "up": (WIDTH, 4 * WIDTH),
        "down": (4 * WIDTH, WIDTH),
    }
    weights = {
        name: jax.random.normal(jax.random.fold_in(key, i), shape) * 0.1
        for i, (name, shape) in enumerate(shapes.items())
    }
    zeros = jax.tree.map(jnp.zeros_like, weights)
    text = np.random.default_rng(0).integers(0, WORDS, (BATCH, LENGTH + 1))
    return (weights, zeros, zeros, jnp.float32(0)), {"text": jnp.asarray(text)}, _adam(_attention)


def _normed(x: jax.Array) -> jax.Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt(jnp.var(x, -1, keepdims=True) + 1e-5)


def _attention(weights: Mapping[str, jax.Array], batch: Mapping[str, jax.Array]) -> jax.Array:
    text, nexts = batch["text"][:, :-1], batch["text"][:, 1:]
    x = weights["embed"][text] + jnp.sin(jnp.arange(LENGTH, dtype=jnp.float32))[:, None]
    parts = jnp.split(_normed(x) @ weights["qkv"], 3, -1)
    q, k, v = (part.reshape(*part.shape[:2], HEADS, -1) for part in parts)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(WIDTH / HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((LENGTH, LENGTH), bool)), scores, -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)
    x = x + mixed.reshape(x.shape) @ weights["out"]
    x = x + jax.nn.gelu(_normed(x) @ weights["up"]) @ weights["down"]
    logs = jax.nn.log_softmax(x @ weights["embed"].T)
    loss: jax.Array = -jnp.take_along_axis(logs, nexts[..., None], -1).mean()
    return loss


def mixed_precision() -> Program:
    """Returns the transformer with weights in float32 that are used in bfloat16."""
    state, batch, _ = transformer()

    def loss(weights: Mapping[str, jax.Array], batch: Mapping[str, jax.Array]) -> jax.Array:
        halves = jax.tree.map(lambda w: w.astype(jnp.bfloat16), weights)
        return _attention(halves, batch).astype(jnp.float32)

    return state, batch, _adam(loss)


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

    zeros = jax.tree.map(jnp.zeros_like, weights)
    return (weights, zeros, zeros, jnp.float32(0)), batch, _adam(loss)


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

    zeros = jax.tree.map(jnp.zeros_like, weights)
    return (weights, zeros, zeros, jnp.float32(0)), batch, _adam(loss)


def flax_cnn() -> Program:
    """Returns a convolutional net of Flax with batch norm and dropout, trained by Optax."""
    import optax  # noqa: PLC0415  # only this program needs them
    from flax import linen  # noqa: PLC0415

    class Net(linen.Module):  # type: ignore[misc]  # Flax's types are not known here
        @linen.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: jax.Array) -> jax.Array:
            for width in (4, 8):
                x = linen.Conv(width, (3, 3))(x)
                x = linen.relu(linen.BatchNorm(use_running_average=False)(x))
                x = linen.max_pool(x, (2, 2), (2, 2))
            x = linen.avg_pool(x, (2, 2), (1, 1)).reshape(x.shape[0], -1)
            x = linen.Dropout(0.3, deterministic=False)(x)
            logits: jax.Array = linen.Dense(10)(x)
            return logits

    net = Net()
    rng = np.random.default_rng(2)
    batch = {
        "x": jnp.asarray(rng.normal(size=(BATCH, 8, 8, 3)), jnp.float32),
        "y": jnp.asarray(rng.integers(0, 10, BATCH)),
    }
    key = jax.random.key(3)
    variables = net.init({"params": key, "dropout": key}, batch["x"])
    optimizer = optax.adamw(1e-2)

    def step(state: Any, batch: Any) -> Any:
        params, stats, moments, count = state

        def loss(params: Any) -> Any:
            dropout = {"dropout": jax.random.fold_in(key, count)}
            both = {"params": params, "batch_stats": stats}
            logits, new = net.apply(both, batch["x"], mutable=["batch_stats"], rngs=dropout)
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["y"])
            return losses.mean(), new["batch_stats"]

        (_, stats), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        updates, moments = optimizer.update(gradients, moments, params)
        return optax.apply_updates(params, updates), stats, moments, count + 1

    params = variables["params"]
    return (params, variables["batch_stats"], optimizer.init(params), jnp.int32(0)), batch, step


def _adam(loss: Callable[[Any, Any], jax.Array]) -> Callable[[Any, Any], Any]:
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

    return step


PROGRAMS: Mapping[str, Callable[[], Program]] = {
    "transformer": transformer,
    "mixed_precision": mixed_precision,
    "recurrent": recurrent,
    "conv_net": conv_net,
    "flax_cnn": flax_cnn,
}


def installed() -> list[str]:
    """Returns the programs whose libraries are installed."""
    missing = any(importlib.util.find_spec(name) is None for name in ("flax", "optax"))
    return [name for name in PROGRAMS if not (missing and name.startswith("flax"))]


def trained(name: str, *, eager: bool = False) -> str:
    """Returns the SHA-256 of a program's parameters after some steps, under the mode that holds.

    Args:
        name: One of ``PROGRAMS``.
        eager: Whether to run the equations one by one; otherwise a step is one program.

    Examples:
        ``programs.toml`` has the digests that every device and every supported JAX must give. For
        the program ``recurrent`` the command printed, on one kind of CPU::

            mode           devices    digest
            portable       1          33742cac3f62745c...
            portable       8          33742cac3f62745c...
            off            1          2fe4f3f7591cc65c...
            off            8          8367d87ac56ef9ab...

        Over eight devices the batch is sharded, so plain JAX adds the gradients in another order.
    """
    state, batch, step = PROGRAMS[name]()
    mesh = Mesh(np.array(jax.devices()), ("data",))
    batch = jax.device_put(batch, NamedSharding(mesh, PartitionSpec("data")))
    state = jax.device_put(state, NamedSharding(mesh, PartitionSpec()))
    call = step if eager else jax.jit(step)
    for _ in range(STEPS):
        state = call(state, batch)
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(state):
        digest.update(np.asarray(leaf).tobytes())
    return digest.hexdigest()


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the digest of each program that the command names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+", choices=tuple(PROGRAMS))
    parser.add_argument("--plain", action="store_true", help="leave the mode off")
    parser.add_argument("--eager", action="store_true", help="run the equations one by one")
    options = parser.parse_args(arguments)
    impl.use_deterministic_algorithms(not options.plain, guarantee="portable")
    for name in options.names:
        print(f"{name} {trained(name, eager=options.eager)}", flush=True)


if __name__ == "__main__":
    main()

"""Trains a language model on its own samples, and compares the sampler with the trainer.

The model has grouped heads of attention, rotary positions and a mixture of experts. The sampler has
a cache; it reads some tokens at a time, in a batch that grows. The trainer computes all positions
at once, in micro-batches, with padding, on one device and on four. Both add the same numbers, but
in other orders. Under the guarantee ``portable`` they have the same bits: each ratio of
probabilities is 1, the divergence is 0, and the weights have one digest.

    python docs/examples/one_policy.py
    python docs/examples/one_policy.py --dtype bfloat16
"""

from __future__ import annotations

import argparse
import functools
import sys
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import impl

Array: TypeAlias = jax.Array
Weights: TypeAlias = dict[str, Any]

WORDS, WIDTH, HEADS, SHARED, HEAD, LAYERS, EXPERTS = 24, 32, 4, 2, 8, 2, 4
SEQUENCES, LENGTH, STOP, RATE = 8, 16, 0, 0.3
POSITIONS = 32
#: The lengths of the prompts.
PROMPTS = np.array([4, 4, 4, 4, 8, 8, 8, 8])
#: Most of the time goes into compiling, so XLA optimises little. It changes no bit of ``portable``.
OPTIONS = {"xla_backend_optimization_level": 0}


class Cut(NamedTuple):
    """How the work of a round is cut.

    Attributes:
        chunk: The tokens of a prompt that the sampler reads at once.
        readers: The sequences whose prompts the sampler reads together.
        cache: The positions of the cache, which begins full of numbers that must not count.
        padding: The positions that the trainer adds to each sequence.
        micro_batches: The parts of the batch whose gradients the trainer adds.
        devices: The devices over which the trainer cuts each part.
    """

    chunk: int
    readers: int
    cache: int
    padding: int
    micro_batches: int
    devices: int


CUTS = (
    Cut(chunk=1, readers=8, cache=16, padding=0, micro_batches=8, devices=1),
    Cut(chunk=4, readers=4, cache=40, padding=5, micro_batches=2, devices=4),
)


def initial(dtype: str) -> Weights:
    """Returns random weights. The blocks of all layers are stacked."""
    rng = np.random.default_rng(0)

    def matrix(*shape: int) -> Any:
        return (rng.uniform(-1, 1, shape) * (3 / shape[-2]) ** 0.5).astype(jnp.dtype(dtype))

    blocks = {
        "heads": matrix(LAYERS, WIDTH, (HEADS + 2 * SHARED) * HEAD),
        "out": matrix(LAYERS, HEADS * HEAD, WIDTH),
        "gate": matrix(LAYERS, WIDTH, EXPERTS),
        "up": matrix(LAYERS, EXPERTS, WIDTH, WIDTH),
        "down": matrix(LAYERS, EXPERTS, WIDTH, WIDTH),
    }
    return {"embedding": matrix(WORDS, WIDTH), "blocks": blocks}


def normalized(x: Array) -> Array:
    """Returns ``x``, divided by the root of the mean of its squares."""
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt((wide**2).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype)


def all_turns() -> tuple[Array, Array]:
    """Returns the cosines and sines of the angles by which heads are turned, for each position."""
    rates = 100.0 ** (-np.arange(HEAD // 2) / (HEAD // 2))
    with jax.ensure_compile_time_eval():  # A table: no other program has to compile a cosine.
        angles = jnp.arange(POSITIONS)[:, None, None] * rates
        return jnp.cos(angles), jnp.sin(angles)


def rotated(x: Array, turns: tuple[Array, Array]) -> Array:
    """Returns queries or keys, turned by angles of which the cosines and sines are given."""
    cosine, sine = turns
    one, two = jnp.split(x.astype(jnp.float32), 2, -1)
    return jnp.concatenate([one * cosine - two * sine, one * sine + two * cosine], -1).astype(
        x.dtype
    )


def experts(block: Weights, x: Array) -> Array:
    """Returns the outputs of the two best experts of each token. No token is dropped."""
    chances = jax.nn.softmax((x @ block["gate"]).astype(jnp.float32))
    least = lax.top_k(lax.stop_gradient(chances), 2)[0][..., -1:]
    gates = jnp.where(chances >= least, chances, 0).astype(x.dtype)
    inner = jax.nn.silu(jnp.einsum("btd,edf->btef", x, block["up"])) * gates[..., None]
    return jnp.einsum("btef,efd->btd", inner, block["down"])


def logits(weights: Weights, tokens: Array, start: Array, cache: Any = None) -> tuple[Array, Any]:
    """Returns the logits of tokens whose first position is ``start``, and the cache with them."""
    positions = start[:, None] + jnp.arange(tokens.shape[1])
    cosines, sines = all_turns()
    turns = cosines[positions], sines[positions]

    def written(old: Array, new: Array, at: Array) -> Array:
        return lax.dynamic_update_slice(old, new, (at, 0, 0))

    def layer(x: Array, of_layer: Any) -> tuple[Array, Any]:
        block, cached = of_layer
        heads = (normalized(x) @ block["heads"]).reshape(*tokens.shape, -1, HEAD)
        query, key, value = jnp.split(heads, (HEADS, HEADS + SHARED), 2)
        query, key = rotated(query, turns), rotated(key, turns)
        if cached is not None:
            key = jax.vmap(written)(cached[0], key, start)
            value = jax.vmap(written)(cached[1], value, start)
        mask = jnp.arange(key.shape[1]) <= positions[..., None]
        mixed = jax.nn.dot_product_attention(query, key, value, mask=mask[:, None])
        x = x + mixed.reshape(*tokens.shape, -1) @ block["out"]
        return x + experts(block, normalized(x)), (key, value)

    x, cache = lax.scan(layer, weights["embedding"][tokens], (weights["blocks"], cache))
    return (normalized(x) @ weights["embedding"].T).astype(jnp.float32), cache


@functools.partial(jax.jit, compiler_options=OPTIONS)
def next_token(
    weights: Weights, tokens: Array, start: Array, cache: Any, keys: Array
) -> tuple[Array, Array, Any]:
    """Returns the token after some others, the logarithms of all probabilities, and the cache."""
    scores, cache = logits(weights, tokens, start, cache)
    logs = jax.nn.log_softmax(scores[:, -1])
    own = jax.vmap(jax.random.fold_in)(keys, start + tokens.shape[1])
    return jax.vmap(jax.random.categorical)(own, logs), logs, cache


def sampled(weights: Weights, prompts: Any, keys: Array, cut: Cut) -> tuple[Any, Any]:
    """Returns the prompts with other tokens after them, and the logarithms of all probabilities."""
    tokens, logs = prompts.copy(), np.zeros((SEQUENCES, LENGTH, WORDS), np.float32)
    shape, dtype = (LAYERS, SEQUENCES, cut.cache, SHARED, HEAD), weights["embedding"].dtype
    cache = [np.full(shape, 1e4, dtype), np.full(shape, -1e4, dtype)]
    at = np.zeros(SEQUENCES, np.int32)

    def step(rows: Any, count: int) -> None:
        """Reads the next tokens of some sequences, and draws one token more."""
        chunk = tokens[rows[:, None], at[rows, None] + np.arange(count)]
        parts = [each[:, rows] for each in cache]
        words, of_words, parts = jax.device_get(
            next_token(weights, chunk, at[rows], parts, keys[rows])
        )
        for each, part in zip(cache, parts, strict=True):
            each[:, rows] = part
        goes_on = at[rows] + count < LENGTH  # The other sequences are complete.
        rows = rows[goes_on]
        at[rows] += count
        logs[rows, at[rows]] = of_words[goes_on]
        is_drawn = at[rows] >= PROMPTS[rows]
        tokens[rows, at[rows]] = np.where(is_drawn, words[goes_on], tokens[rows, at[rows]])

    for rows in np.split(np.arange(SEQUENCES), SEQUENCES // cut.readers):
        while at[rows].max() < PROMPTS[rows].min():
            step(rows, cut.chunk)
    while at.min() < LENGTH - 1:
        step(np.arange(SEQUENCES), 1)
    return tokens, logs


def loss(weights: Weights, part: Any, count: Array) -> tuple[Array, Array]:
    """Returns the objective of a policy gradient, and the logarithms of all probabilities."""
    tokens = part["tokens"]
    scores, _ = logits(weights, tokens[:, :-1], jnp.zeros(len(tokens), jnp.int32))
    logs = jax.nn.log_softmax(scores)
    ratios = jnp.exp(jnp.take_along_axis(logs, tokens[:, 1:, None], 2)[..., 0] - part["logs"])
    gains = jnp.where(part["live"], ratios * part["advantages"][:, None], 0)
    return -gains.sum() / count, logs


@functools.partial(jax.jit, compiler_options=OPTIONS)
def updated(weights: Weights, batch: Any, count: Array) -> tuple[Weights, Array]:
    """Returns the weights after a step, and the logarithms of all probabilities before it."""

    def add(total: Weights, part: Any) -> tuple[Weights, Array]:
        gradient, logs = jax.grad(loss, has_aux=True)(weights, part, count)
        return jax.tree.map(jnp.add, total, gradient), logs

    total, logs = lax.scan(add, jax.tree.map(jnp.zeros_like, weights), batch)
    return jax.tree.map(lambda weight, g: weight - RATE * g, weights, total), logs


def trained(weights: Weights, tokens: Any, logs: Any, cut: Cut) -> tuple[Weights, float, float]:
    """Returns the weights after a step on samples, and how far the trainer is from the sampler.

    Returns:
        The weights, the greatest distance of a ratio of probabilities from 1, and the greatest
        divergence (Kullback and Leibler) of a distribution.
    """
    drawn, before = tokens[:, 1:], tokens[:, :-1]
    live = np.arange(1, LENGTH) >= PROMPTS[:, None]
    stops = (drawn == STOP) & live
    live &= np.cumsum(stops, 1) - stops == 0
    rewards = ((drawn == before + 1) & live).sum(1) / live.sum(1)
    chosen = np.take_along_axis(logs[:, 1:], drawn[..., None], 2)[..., 0]
    more = ((0, 0), (0, cut.padding))
    batch = {
        "tokens": np.pad(tokens, more, constant_values=WORDS - 1),
        "logs": np.pad(chosen, more),
        "live": np.pad(live, more),
        "advantages": (rewards - rewards.mean()).astype(np.float32),
    }
    batch = {k: x.reshape(cut.micro_batches, -1, *x.shape[1:]) for k, x in batch.items()}
    mesh = Mesh(np.array(jax.devices()[: cut.devices]), ("data",))
    batch = jax.device_put(batch, NamedSharding(mesh, PartitionSpec(None, "data")))
    weights = jax.device_put(weights, NamedSharding(mesh, PartitionSpec()))
    weights, of_trainer = updated(weights, batch, np.float32(live.sum()))
    ours = np.asarray(of_trainer, np.float64).reshape(SEQUENCES, -1, WORDS)[:, : LENGTH - 1][live]
    theirs, words = logs[:, 1:][live].astype(np.float64), drawn[live]
    at = np.arange(len(words))
    ratios = np.exp(ours[at, words] - theirs[at, words])
    divergence = (np.exp(theirs) * (theirs - ours)).sum(1)
    return jax.device_get(weights), np.abs(ratios - 1).max(), np.abs(divergence).max()


def run(cut: Cut, rounds: int, dtype: str) -> tuple[str, float, float]:
    """Returns the digest of the weights after rounds of sampling and training, and the drifts."""
    weights = initial(dtype)
    rng, drifts = np.random.default_rng(0), []
    for number in range(rounds):
        prompts = rng.integers(1, WORDS, (SEQUENCES, LENGTH), np.int32)
        keys = jax.random.split(jax.random.key(number), SEQUENCES)
        tokens, logs = sampled(weights, prompts, keys, cut)
        weights, *drift = trained(weights, tokens, logs, cut)
        drifts.append(drift)
    ratio, divergence = np.max(drifts, 0)
    return impl.digest(weights), ratio, divergence


def main(arguments: list[str] | None = None) -> int:
    """Compares plain JAX and the guarantee ``portable``; returns 0 if the latter has no drift."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    options = parser.parse_args(arguments)
    jax.config.update("jax_num_cpu_devices", max(cut.devices for cut in CUTS))
    same = True
    for name, mode in (("plain JAX", False), ("portable", True)):
        digests = set()
        with impl.deterministic(mode, guarantee="portable" if mode else None):
            for cut in CUTS:
                digest, ratio, divergence = run(cut, options.rounds, options.dtype)
                digests.add(digest)
                print(f"{name}, {cut}")
                print(
                    f"  ratio 1 +- {ratio:.1e}, KL {divergence:.1e}, weights {digest}", flush=True
                )
                same = same and not (mode and (ratio or divergence))
        same = same and not (mode and len(digests) > 1)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())

"""A language model of Flax NNX in bfloat16, which is trained and continues texts with a cache."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import nnx

from conformance.programs._data import integers

WORDS, LENGTH, WIDTH, HEADS, LAYERS = 16, 8, 8, 2, 2
HALF = {"dtype": jnp.bfloat16, "param_dtype": jnp.float32}


class Block(nnx.Module):
    """Attention and a feed-forward net, each after a layer norm and with a residual connection."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.norms = nnx.List([nnx.LayerNorm(WIDTH, rngs=rngs, **HALF) for _ in range(2)])
        self.project = nnx.Linear(WIDTH, 3 * WIDTH, use_bias=False, rngs=rngs, **HALF)
        self.mix = nnx.Linear(WIDTH, WIDTH, rngs=rngs, **HALF)
        self.widen = nnx.Linear(WIDTH, 2 * WIDTH, rngs=rngs, **HALF)
        self.narrow = nnx.Linear(2 * WIDTH, WIDTH, rngs=rngs, **HALF)
        self.drop = nnx.Dropout(0.1, rngs=rngs)

    def heads(self, x: Any) -> Any:
        """Returns queries, keys and values, [batch, words, heads, width of a head] each."""
        split = self.project(self.norms[0](x)).reshape(*x.shape[:2], 3 * HEADS, WIDTH // HEADS)
        return jnp.split(split, 3, axis=2)

    def __call__(self, x: Any, heads: Any, mask: Any) -> Any:
        query, keys, values = heads
        mixed = jax.nn.dot_product_attention(query, keys, values, mask=mask)
        x = x + self.drop(self.mix(mixed.reshape(x.shape)))
        return x + self.drop(self.narrow(nnx.gelu(self.widen(self.norms[1](x)))))


class Model(nnx.Module):
    """Blocks, whose weights are stacked, between the embedding and its transpose."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.words = nnx.Embed(WORDS, WIDTH, dtype=jnp.bfloat16, rngs=rngs)
        self.places = nnx.Embed(LENGTH, WIDTH, dtype=jnp.bfloat16, rngs=rngs)
        self.norm = nnx.LayerNorm(WIDTH, rngs=rngs)
        self.blocks = nnx.split_rngs(splits=LAYERS)(nnx.vmap(Block))(rngs)

    def __call__(self, text: Any) -> Any:
        x = self.words(text) + self.places(jnp.arange(text.shape[1]))
        mask = jnp.tril(jnp.ones((text.shape[1],) * 2, bool))

        @nnx.scan(in_axes=(0, nnx.Carry), out_axes=nnx.Carry)
        @nnx.remat
        def run(block: Block, x: Any) -> Any:
            return block(x, block.heads(x), mask[None, None])

        return self.logits(run(self.blocks, x))

    def logits(self, x: Any) -> Any:
        return self.words.attend(self.norm(x)).astype(jnp.float32)


def continued(model: Model, prompt: Any, key: Any) -> Any:
    """Returns texts that begin with a prompt, drawn word by word with a cache."""
    graph, stacked = nnx.split(model.blocks)
    count, given = prompt.shape
    cache = jnp.zeros((2, LAYERS, count, LENGTH, HEADS, WIDTH // HEADS), jnp.bfloat16)

    def next_word(carry: Any, at: Any) -> Any:
        word, cache, key = carry
        x = model.words(word)[:, None] + model.places(at)[None, None]
        mask = (jnp.arange(LENGTH) <= at)[None, None, None]

        def layer(x: Any, of_layer: Any) -> Any:
            block = nnx.merge(graph, of_layer[0])
            query, *made = block.heads(x)
            kept = [
                jax.lax.dynamic_update_slice(old, new, (0, at, 0, 0))
                for old, new in zip(of_layer[1], made, strict=True)
            ]
            return block(x, (query, *kept), mask), jnp.stack(kept)

        x, cache = jax.lax.scan(layer, x, (stacked, cache.swapaxes(0, 1)))
        key, own = jax.random.split(key)
        drawn = jax.random.categorical(own, model.logits(x)[:, 0] / 0.8)
        word = jnp.where(at + 1 < given, prompt[:, jnp.minimum(at + 1, given - 1)], drawn)
        return (word, cache.swapaxes(0, 1), key), word

    carry = (prompt[:, 0], cache, key)
    _, words = jax.lax.scan(next_word, carry, jnp.arange(LENGTH - 1))
    return words.T


def gpt(scale: int = 1) -> Any:
    """Returns a step of training by AdamW that also writes texts, and its arguments."""
    model = Model(nnx.Rngs(0, dropout=1))
    warm = optax.warmup_cosine_decay_schedule(0, 3e-2, 5, 100)
    optimizer = nnx.Optimizer(
        model, optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(warm)), wrt=nnx.Param
    )

    graph, state = nnx.split((model, optimizer))

    def loss(model: Model, text: Any) -> Any:
        losses = optax.softmax_cross_entropy_with_integer_labels(model(text[:, :-1]), text[:, 1:])
        return losses.mean()

    def step(state: Any, text: Any, key: Any) -> Any:
        model, optimizer = nnx.merge(graph, state)
        model.train()
        value, gradients = nnx.value_and_grad(loss)(model, text)
        optimizer.update(model, gradients)
        new = nnx.state((model, optimizer))
        model.eval()
        return new, value, continued(model, text[:, :3], key)

    return step, (state, integers(0, WORDS, 8 * scale, LENGTH), jax.random.key(7))

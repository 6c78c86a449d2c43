"""Under ``portable`` an element depends on its terms that are not zero, and on nothing else.

So its bits do not change with the batch, the length of a cache, or chunks;
``impl/tests/programs/test_invariance.py`` tries batches, masked padding and later positions.

Tests: impl._portable.rules.products.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl.tests.support.bits import assert_same_bits

pytestmark = pytest.mark.usefixtures("portable")

HEADS, WIDTH, LENGTH, CACHE = 2, 8, 11, 20


def normal(seed, *shape):
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


def attend(queries, keys, values, allowed):
    scores = jnp.einsum("qhd,khd->hqk", queries, keys) / 2
    weights = jax.nn.softmax(jnp.where(allowed, scores, -jnp.inf))
    # The values are the left factor here, as in ``jax.nn``.
    return jnp.einsum("khd,hqk->qhd", values, weights)


WEIGHTS = normal(1, 3, WIDTH, HEADS, WIDTH // HEADS)


def projected(tokens):
    return [jnp.einsum("td,dhe->the", tokens, weight) for weight in WEIGHTS]


@jax.jit
def whole(tokens):
    count = len(tokens)
    return attend(*projected(tokens), jnp.tril(jnp.ones((count, count), bool)))


@functools.partial(jax.jit, static_argnames="length")
def with_cache(chunk, keys, values, start, length=CACHE):
    queries, *new = projected(chunk)
    keys, values = (
        jax.lax.dynamic_update_slice(old, each, (start, 0, 0))
        for old, each in zip((keys, values), new, strict=True)
    )
    allowed = jnp.arange(length) <= start + jnp.arange(len(chunk))[:, None]
    return attend(queries, keys, values, allowed), keys, values


@pytest.mark.once
@pytest.mark.parametrize("garbage", [0.0, 1e4, 3e38])
@pytest.mark.parametrize("chunks", [(1,) * LENGTH, (5, 1, 3, 2), (LENGTH,)], ids=str)
def test_a_cache_and_chunks_give_the_bits_of_the_whole(chunks, garbage):
    tokens = normal(2, LENGTH, WIDTH)
    keys, values = [np.full((CACHE, HEADS, WIDTH // HEADS), garbage, np.float32)] * 2
    parts, start = [], 0
    for count in chunks:
        part, keys, values = with_cache(tokens[start : start + count], keys, values, start)
        parts.append(part)
        start += count
    assert_same_bits(np.concatenate(parts), whole(tokens))

"""Under ``portable`` an element depends on its terms that are not zero, and on nothing else.

So its bits do not change with the batch, masked padding, the length of a cache, or chunks.

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


def test_the_tokens_after_a_prefix_change_none_of_its_bits():
    tokens = normal(2, LENGTH, WIDTH)
    longer = np.concatenate([tokens, 1e4 * normal(3, 5, WIDTH)])
    assert_same_bits(whole(longer)[:LENGTH], whole(tokens))


def test_padding_changes_no_gradient_of_a_masked_loss():
    @jax.jit
    def gradient(weight, rows, mask):
        def loss(weight):
            error = jnp.tanh(rows @ weight)
            return jnp.where(mask[:, None], error**2, 0).sum() / mask.sum()

        return jax.grad(loss)(weight)

    weight, rows = normal(4, 6, 5), normal(5, 7, 6)
    want = gradient(weight, rows, np.ones(7, bool))
    for padding in (0.0, 50.0, 1e30):
        padded = np.concatenate([rows, np.full((9, 6), padding, np.float32)])
        assert_same_bits(gradient(weight, padded, np.arange(16) < 7), want, str(padding))


#: Functions of rows and a matrix that compute each row by itself, the row as either factor.
ROWS = {
    "x @ w": lambda x, w: x @ w,
    "(w.T @ x.T).T": lambda x, w: (w.T @ x.T).T,
    "bd,dk->kb": lambda x, w: jnp.einsum("bd,dk->kb", x, w).T,
    "vmap": lambda x, w: jax.vmap(lambda row: w.T @ row)(x),
    "softmax": lambda x, w: jax.nn.softmax(x @ w),
    "layer norm": lambda x, w: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True) @ w,
    "bfloat16": lambda x, w: x.astype("bfloat16") @ w.astype("bfloat16"),
    "highest": lambda x, w: jnp.matmul(x, w, precision="highest"),
    "convolution": lambda x, w: jax.vmap(lambda row: jnp.convolve(row, w[:, 0], "same"))(x),
}


@pytest.mark.once
@pytest.mark.parametrize("name", ROWS)
def test_a_row_has_the_same_bits_in_every_batch(name):
    function = jax.jit(ROWS[name])
    x, w = normal(6, 6, 33), normal(7, 33, 5)
    want = function(x, w)
    for count in (1, 2, 5):
        assert_same_bits(function(x[:count], w), want[:count], f"{count} rows")
    for factor in (1e3, 1e20):
        company = np.concatenate([np.float32(factor) * normal(8, 3, 33), x])
        assert_same_bits(function(company, w)[3:], want, f"rows that are {factor} times as great")

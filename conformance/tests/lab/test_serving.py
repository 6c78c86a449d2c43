"""Under ``portable`` a decoder with a cache has the bits of the pass over all positions.

Flax and ``jax.nn`` compute the attention, and ``jax.lax.ragged_dot`` the experts; none of them is
changed. A cache is longer than the text, and full of numbers that must not count.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from impl.tests.support.bits import assert_same_bits

BATCH, LENGTH, CACHE, WIDTH, HEADS, SHARED, EXPERTS = 3, 7, 12, 16, 4, 2, 4
GARBAGE = (37.0, 1e4)
#: It follows from products that are rounded once; `impl/tests/portable` tries these on each jax.
pytestmark = [pytest.mark.once, pytest.mark.usefixtures("portable")]


@pytest.fixture(params=["float32", "bfloat16"])
def dtype(request):
    return request.param


def normal(seed, *shape, dtype="float32"):
    numbers = np.random.default_rng(seed).standard_normal(shape)
    return jnp.asarray(numbers, dtype)


def with_garbage(x, count, value, axis=1):
    """Returns an array that is longer by ``count`` along an axis."""
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return jnp.concatenate([x, jnp.full(shape, value, x.dtype)], axis)


def causal(count):
    return jnp.tril(jnp.ones((count, count), bool))


def squares(outputs, live):
    """Returns the sum of the squares of the rows that are live."""
    return jnp.where(live, outputs.astype(jnp.float32) ** 2, 0).sum()


def test_flax_decodes_with_the_bits_of_the_whole(dtype):
    nnx = pytest.importorskip("flax.nnx", reason="`nox -s tests-3.11` has it")
    layer = nnx.MultiHeadAttention(
        HEADS, WIDTH, dtype=dtype, param_dtype=dtype, decode=True, rngs=nnx.Rngs(0)
    )
    tokens = normal(0, BATCH, LENGTH, WIDTH, dtype=dtype)

    @nnx.jit
    def whole(layer, tokens):
        return layer(tokens, mask=causal(tokens.shape[1])[None, None], decode=False)

    @nnx.jit
    def one(layer, token):
        return layer(token)

    want = whole(layer, tokens)
    for garbage in GARBAGE:
        layer.init_cache((BATCH, CACHE, WIDTH), dtype=dtype)
        for cached in (layer.cached_key, layer.cached_value):
            cached[...] = jnp.full(cached[...].shape, garbage, dtype)
        rows = [one(layer, tokens[:, at : at + 1]) for at in range(LENGTH)]
        assert_same_bits(jnp.concatenate(rows, 1), want, f"garbage {garbage}")


HEAD = WIDTH // HEADS


def test_the_attention_of_jax_decodes_with_the_bits_of_the_whole(dtype):
    queries = normal(2, BATCH, LENGTH, HEADS, HEAD, dtype=dtype)
    keys, values = (normal(seed, BATCH, LENGTH, SHARED, HEAD, dtype=dtype) for seed in (3, 4))
    want = jax.jit(lambda *x: jax.nn.dot_product_attention(*x, is_causal=True))(
        queries, keys, values
    )

    @jax.jit
    def one(query, keys, values, length):
        lengths = jnp.full(len(query), length)
        return jax.nn.dot_product_attention(query, keys, values, key_value_seq_lengths=lengths)

    for garbage in (*GARBAGE, 3e38):
        caches = [with_garbage(x[:, :0], CACHE, garbage) for x in (keys, values)]
        rows = []
        for at in range(LENGTH):
            caches = [
                c.at[:, at].set(x[:, at]) for c, x in zip(caches, (keys, values), strict=True)
            ]
            rows.append(one(queries[:, at : at + 1], *caches, at + 1))
        assert_same_bits(jnp.concatenate(rows, 1), want, f"garbage {garbage}")


def projected(weights, tokens):
    """Returns queries, keys and values, [positions, heads, width of a head] each."""
    return [(tokens @ weight).reshape(len(tokens), -1, HEAD) for weight in weights]


def test_k_tokens_are_verified_at_once_after_others_were_rejected(dtype):
    weights = [normal(seed, WIDTH, n * HEAD, dtype=dtype) for seed, n in ((5, 4), (6, 2), (7, 2))]
    tokens, drafts = normal(8, LENGTH, WIDTH, dtype=dtype), normal(9, LENGTH, WIDTH, dtype=dtype)

    @jax.jit
    def verify(chunk, caches, at):
        query, *new = projected(weights, chunk)
        caches = [
            lax.dynamic_update_slice(c, x, (at, 0, 0)) for c, x in zip(caches, new, strict=True)
        ]
        mask = jnp.arange(CACHE) <= at + jnp.arange(len(chunk))[:, None]
        return jax.nn.dot_product_attention(query, *caches, mask=mask[None]), caches

    @jax.jit
    def whole(tokens):
        return jax.nn.dot_product_attention(*projected(weights, tokens), is_causal=True)

    # Of the three tokens of each round, these are accepted; the rest is in the cache until then.
    rows, at, caches = [], 0, [jnp.full((CACHE, SHARED, HEAD), 37.0, dtype)] * 2
    for accepted in (2, 1, 3, 1):
        chunk = jnp.concatenate([tokens[at : at + accepted], 100 * drafts[accepted:3]])[:3]
        logits, caches = verify(chunk, caches, at)
        rows.append(logits[:accepted])
        at += accepted
    assert at == LENGTH
    assert_same_bits(jnp.concatenate(rows), whole(tokens))


def segments(*counts):
    """Returns the number of the segment of each position, and the position in it."""
    numbers = [np.full(count, number) for number, count in enumerate(counts)]
    return np.concatenate(numbers), np.concatenate([np.arange(count) for count in counts])


def test_packed_segments_have_the_bits_and_the_gradient_of_segments_alone(dtype):
    weights = [normal(seed, WIDTH, WIDTH, dtype=dtype) for seed in (10, 11, 12)]
    one, two = normal(13, 4, WIDTH, dtype=dtype), normal(14, 6, WIDTH, dtype=dtype)
    garbage = jnp.full((3, WIDTH), 1e4, dtype)

    def packed(weights, tokens, number, position):
        mask = (number[:, None] == number) & (position[:, None] >= position)
        return jax.nn.dot_product_attention(*projected(weights, tokens), mask=mask[None])

    @jax.jit
    def both(weights, tokens, number, position, live):
        def loss(weights):
            outputs = packed(weights, tokens, number, position)
            return squares(outputs, live[:, None, None]), outputs

        gradients, outputs = jax.grad(loss, has_aux=True)(weights)
        return outputs, gradients

    rows, want = both(weights, jnp.concatenate([one, two]), *segments(4, 6), np.ones(10, bool))
    alone, _ = both(weights, two, *segments(6), np.ones(6, bool))
    assert_same_bits(rows[4:], alone)
    tokens = jnp.concatenate([two, one, garbage])
    other, got = both(weights, tokens, *segments(6, 4, 3), np.arange(13) < 10)
    assert_same_bits(other[6:10], rows[:4])
    for mine, theirs in zip(got, want, strict=True):
        assert_same_bits(mine, theirs)


def experts(weights, tokens):
    """Returns the outputs of two experts of each token, by ``ragged_dot`` over sorted tokens."""
    gate, up = weights
    chances, chosen = lax.top_k(jax.nn.softmax((tokens @ gate).astype(jnp.float32)), 2)
    order = jnp.argsort(chosen.reshape(-1), stable=True)
    sizes = jnp.bincount(chosen.reshape(-1), length=EXPERTS).astype(jnp.int32)
    sorted_rows = lax.ragged_dot(tokens[order // 2], up, sizes)
    rows = jnp.zeros_like(sorted_rows).at[order].set(sorted_rows).reshape(len(tokens), 2, -1)
    return (rows * chances[..., None].astype(rows.dtype)).sum(1)


def test_a_token_has_the_same_experts_and_bits_in_every_batch(dtype):
    weights = normal(15, WIDTH, EXPERTS, dtype=dtype), normal(16, EXPERTS, WIDTH, 8, dtype=dtype)
    tokens = normal(17, 6, WIDTH, dtype=dtype)
    run = jax.jit(experts)
    want = run(weights, tokens)
    for count in (1, 4):
        assert_same_bits(run(weights, tokens[:count]), want[:count], f"{count} tokens")
    assert_same_bits(run(weights, tokens[::-1])[::-1], want)

    @jax.jit
    @jax.grad
    def gradient(weights, tokens, live):
        return squares(experts(weights, tokens), live[:, None])

    want = gradient(weights, tokens, np.ones(6, bool))
    for garbage in GARBAGE:
        padded = with_garbage(tokens, 4, garbage, 0)
        got = gradient(weights, padded, np.arange(10) < 6)
        for one, other in zip(got, want, strict=True):
            assert_same_bits(one, other, f"garbage {garbage}")

"""scaled_dot_product_attention.

Tests: impl.nn.functional._attention.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import normal

attention = impl.nn.functional.scaled_dot_product_attention
pytestmark = pytest.mark.usefixtures("complete")

Q, K, V = normal((2, 3, 4)), normal((2, 5, 4), 1), normal((2, 5, 6), 2)
#: A query that sees no key, one that sees all but one, and one that sees all.
SEEN = np.array([[False] * 5, [True] * 3 + [False, True], [True] * 5])
SUBTRACTED = np.where(SEEN, 0.5, -np.inf)
BIAS = normal((3, 5), 3)


def test_each_query_sees_the_keys_up_to_its_position():
    values = np.eye(5, dtype=np.float32)
    out = np.asarray(attention(Q, K, values[None], is_causal=True))
    assert (out > 0)[0].tolist() == np.tri(3, 5, dtype=bool).tolist()
    assert_same_bits(out, attention(Q, K, values[None], np.tri(3, 5, dtype=bool)))


def test_a_query_that_sees_no_key_has_no_gradient():
    @jax.jit
    def run(*arrays):
        out, pullback = jax.vjp(attention, *arrays)
        return out, pullback(jnp.ones_like(out))

    for on in (False, True):
        with impl.deterministic(on, profile="complete"):
            out, (of_query, *others) = run(Q, K, V, SUBTRACTED.astype(np.float32))
        assert not np.any(out[:, 0])
        assert not np.any(of_query[:, 0])
        assert all(np.all(np.isfinite(gradient)) for gradient in others)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=lambda d: d.__name__)
def test_narrow_floats_are_computed_in_float32_and_rounded_once(dtype):
    narrow = [array.astype(dtype) for array in (Q, K, V, BIAS)]
    run = jax.jit(attention)
    want = run(*(array.astype(np.float32) for array in narrow))
    assert_same_bits(run(*narrow), np.asarray(want).astype(dtype))
    # PyTorch takes masks of float32 as well.
    assert_same_bits(run(*narrow[:3], narrow[3].astype(np.float32)), np.asarray(want).astype(dtype))


def test_dropout_draws_from_the_key():
    key, ones = jax.random.key(0), np.ones((4, 50, 4), np.float32)

    @jax.jit
    def run(key):
        return [
            attention(ones, ones, np.eye(50, dtype=np.float32)[None], None, p, dropout_key=key)
            for p in (0.0, 0.25, 1.0)
        ]

    none, quarter, all_ = map(np.asarray, run(key))
    np.testing.assert_allclose(none, 1 / 50, rtol=1e-6)
    assert not np.any(all_)
    np.testing.assert_allclose(quarter[quarter > 0], 1 / 50 / 0.75, rtol=1e-6)
    assert 0.2 < np.mean(quarter == 0) < 0.3
    assert_same_bits(run(key)[1], quarter)
    assert np.any(np.asarray(run(jax.random.key(1))[1]) != quarter)


def test_arguments_have_pytorchs_order_and_defaults():
    parameters = inspect.signature(attention).parameters.values()
    assert [(p.name, p.default) for p in parameters if p.name != "dropout_key"] == [
        *((name, inspect.Parameter.empty) for name in ("query", "key", "value")),
        ("attn_mask", None),
        ("dropout_p", 0.0),
        ("is_causal", False),
        ("scale", None),
        ("enable_gqa", False),
    ]

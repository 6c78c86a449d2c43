"""scaled_dot_product_attention.

Tests: impl.nn.functional._attention.
"""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import normal
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.refusals import Call, bad_arguments

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


#: Positional arguments, keywords, exception, fragment of the message
BAD: list[Call] = [
    (([1.0], K, V), TypeError, "argument 'query' must be a jax.Array"),
    ((Q, [1.0], V), TypeError, "argument 'key' must be a jax.Array"),
    ((Q, K, 1.0), TypeError, "argument 'value' must be a jax.Array"),
    ((Q, K, V, [1.0]), TypeError, "argument 'attn_mask' must be a jax.Array"),
    ((Q[0, 0], K, V), RuntimeError, "at least 2 dimensional, but got query.ndim: 1"),
    ((Q, K.astype(np.float16), V), RuntimeError, "to have the same dtype, but got query"),
    ((Q.astype(int), K.astype(int), V.astype(int)), RuntimeError, "it takes floats"),
    ((Q > 0, K > 0, V > 0), RuntimeError, "not implemented for bool; it takes floats"),
    ((Q + 0j, K + 0j, V + 0j), NotImplementedError, "not implemented for complex64"),
    ((Q, K[:, :, :3], V), RuntimeError, "size 4 in the last dimension of key, as in query"),
    ((Q, K, V[:, :4]), RuntimeError, "size 5 in dimension -2 of value, as in key, but got"),
    ((Q, normal((3, 5, 4)), V), RuntimeError, "must match, but got shapes: query [2, 3, 4]"),
    ((Q, K, normal((3, 5, 6))), RuntimeError, "key [2, 5, 4], value [3, 5, 6]"),
    ((Q, K, V, BIAS[:, :4]), RuntimeError, "must broadcast to the shape of the scores, [2, 3"),
    ((Q, K, V, SEEN[None, None]), RuntimeError, "[2, 3, 5], but got shape [1, 1, 3, 5]"),
    ((Q, K, V, SEEN.astype(int)), RuntimeError, "attn_mask.dtype: int"),
    ((Q, K, V, BIAS.astype(np.float16)), RuntimeError, "bool or float32 or to match query"),
    ((Q, K, V, SEEN, 0.0, True), RuntimeError, "should not be set when is_causal=True"),
    ((Q, K, V, None, 2.0), RuntimeError, "has to be between 0 and 1, but got 2.0"),
    ((Q, K, V, None, "1"), TypeError, "argument 'dropout_p' must be float, not str"),
    ((Q, K, V, None, 0.0, 1), TypeError, "argument 'is_causal' must be bool, not int"),
    ((Q, K, V), {"scale": "1"}, TypeError, "argument 'scale' must be float, not str"),
    ((Q, K, V), {"enable_gqa": 1}, TypeError, "argument 'enable_gqa' must be bool, not int"),
    ((Q[0], K[0], V[0]), {"enable_gqa": True}, IndexError, "query needs heads in dimension -3"),
    ((Q, normal((4, 5, 4)), V), {"enable_gqa": True}, RuntimeError, "but got 4, 2 and 2"),
]
#: PyTorch ignores such a dropout, has its own generator, and repeats a missing head.
OWN: list[Call] = [
    ((Q, K, V, None, -0.5), RuntimeError, "between 0 and 1, but got -0.5"),
    ((Q, K, V, None, float("nan")), RuntimeError, "between 0 and 1, but got nan"),
    ((Q, K, V, None, 0.5), TypeError, "argument 'dropout_key' is missing: dropout_p=0.5"),
    ((Q, K, V, None, 0.5), {"dropout_key": 1}, TypeError, "'dropout_key' must be a JAX key"),
    ((Q, K[:0], V[:0]), {"enable_gqa": True}, RuntimeError, "but got 0, 0 and 2"),
]
TestBadArguments = bad_arguments(BAD, OWN, "scaled_dot_product_attention")


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

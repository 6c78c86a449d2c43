"""nll_loss and cross_entropy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import normal

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

X = normal((4, 3))
T = np.array([0, 2, 1, 0])
W = np.array([0.5, 2, 1.5], np.float32)


def test_targets_of_uint8_or_without_a_batch_and_deprecated_arguments():
    want = -X[np.arange(4), T]
    assert_same_bits(F.nll_loss(X, T.astype(np.uint8), reduction="none"), want)
    assert_same_bits(F.nll_loss(X[0], np.array([1]), reduction="none"), -X[0, 1])
    assert_same_bits(F.nll_loss(X, T.astype(np.uint8), reduction="none", ignore_index=300), want)
    with pytest.warns(UserWarning, match="use reduction='none' instead"):
        assert_same_bits(F.nll_loss(X, T, reduce=False), want)
    with pytest.warns(UserWarning, match="use reduction='sum' instead"):
        got = F.nll_loss(X, T, size_average=False)
    assert_same_bits(got, F.nll_loss(X, T, reduction="sum"))


def test_all_elements_are_ignored():
    ignored = np.full(4, -100)
    x = np.full((4, 3), np.nan, np.float32)

    def call(x, reduction):
        return F.nll_loss(x, ignored, W, reduction=reduction)

    @jax.jit
    def run(x):
        gradients = [jax.grad(call)(x, reduction) for reduction in ("mean", "sum")]
        return F.nll_loss(x, ignored), call(x, "none"), gradients

    mean, _, gradients = run(X)
    assert np.isnan(mean)
    for gradient in gradients:
        assert_same_bits(gradient, np.zeros((4, 3), np.float32))
    assert_same_bits(run(x)[1], np.zeros(4, np.float32))


def test_targets_out_of_range_under_jit():
    targets = np.array([0, 3, -1, -100], np.int32)

    @jax.jit
    def call(x, t):
        out, pullback = jax.vjp(lambda x: F.nll_loss(x, t, W, reduction="none"), x)
        return out, pullback(jnp.ones_like(out))[0]

    out, gradient = call(X, targets)
    assert np.isnan(out).tolist() == [False, True, True, False]
    want = np.zeros((4, 3), np.float32)
    want[0, 0] = -W[0]
    assert_same_bits(gradient, want)
    with jax.enable_x64(True):
        wide = np.array([2**32, 0, 0, 0])
        assert np.isnan(np.asarray(call(X, wide)[0])).tolist() == [True, False, False, False]
    with pytest.raises(IndexError, match="Target 4294967296"):
        F.nll_loss(X, wide)


def test_infinities_and_large_values():
    big = np.float32(1e4)
    x = np.array([[big, big - 1, 0], [-np.inf, 0, 1], [np.inf, 0, 1], [-np.inf, 0, 1]], np.float32)
    certain = np.array([[1, 0, 0]], np.float32)

    @jax.jit
    def run(x):
        return (
            F.cross_entropy(x, np.array([0, 0, 1, 2]), reduction="none"),
            F.cross_entropy(x[:1], certain),
            jax.grad(lambda x: F.cross_entropy(x, np.array([2])))(x[3:]),
        )

    losses, of_probabilities, gradient = run(x)
    np.testing.assert_allclose(losses[0], np.log1p(np.exp(-1)), rtol=1e-6)
    np.testing.assert_allclose(of_probabilities, losses[0], rtol=1e-6)
    assert losses[1] == np.inf
    assert np.isnan(losses[2])
    np.testing.assert_allclose(losses[3], np.log1p(np.exp(-1)), rtol=1e-6)
    np.testing.assert_allclose(gradient, [[0, 0.26894143, -0.26894143]], rtol=1e-6)


def test_dtypes_are_promoted_and_deprecated_arguments_warn():
    x, p = np.ones((64, 5), np.float32), np.ones((64, 5), np.float32)
    for dtype in (np.float16, jnp.bfloat16):
        for arrays in ((x, p.astype(dtype)), (x.astype(dtype), p)):
            assert jax.eval_shape(F.cross_entropy, *arrays).dtype == np.float32
    assert jax.eval_shape(F.cross_entropy, X, T.astype(np.uint8)).dtype == np.float32
    with pytest.warns(UserWarning, match="use reduction='none' instead"):
        assert jax.eval_shape(lambda x: F.cross_entropy(x, T, reduce=False), X).shape == (4,)


def test_targets_out_of_range_under_jit_of_cross_entropy():
    targets = np.array([0, 3, -1, -100], np.int32)
    losses = jax.jit(lambda t: F.cross_entropy(X, t, W, reduction="none"))(targets)
    assert np.isnan(losses).tolist() == [False, True, True, False]
    assert losses[3] == 0

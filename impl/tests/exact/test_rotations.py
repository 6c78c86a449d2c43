"""Eigenvalues and singular values, against the oracle of their order and NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl.tests.support.bits import assert_same_bits
from spec import oracles


@pytest.fixture(autouse=True)
def portable():
    with impl.deterministic(guarantee="portable"):
        yield


def symmetric(rng, *shape):
    a = rng.uniform(-0.49, 0.49, size=shape).astype(np.float32)
    a[..., 0, 0] = 0.75  # The scale is 1.
    return np.tril(a) + np.tril(a, -1).swapaxes(-1, -2)


@pytest.mark.parametrize("n", [2, 5, 8])
def test_eigenvalues_have_the_bits_of_the_oracle(rng, n):
    a = symmetric(rng, 2, n, n).astype(float)
    with jax.enable_x64(True):
        vectors, values = jax.jit(lambda a: lax.linalg.eigh(a, symmetrize_input=False))(a)
    for one, result, value in zip(a, np.asarray(vectors), np.asarray(values), strict=True):
        diagonal, v = oracles.rotations(one, symmetric=True)
        order = np.argsort(np.diag(diagonal), kind="stable")
        assert_same_bits(value, np.diag(diagonal)[order])
        signs = np.sign(np.take_along_axis(v, np.abs(v).argmax(0)[None], 0))
        assert_same_bits(result, (v * signs)[:, order])


@pytest.mark.parametrize("shape", [(6, 3), (4, 4)])
def test_singular_values_have_the_bits_of_the_oracle(rng, shape):
    a = rng.uniform(-0.49, 0.49, size=shape)
    a[0, 0] = 0.75
    with jax.enable_x64(True):
        _, values, right = jax.jit(lambda a: jnp.linalg.svd(a, full_matrices=False))(a)
    columns, v = oracles.rotations(a, symmetric=False)
    squares = columns * columns
    lengths = np.sqrt(np.array([oracles.sum_of_halves(square) for square in squares.T]))
    order = np.argsort(-lengths, kind="stable")
    assert_same_bits(np.asarray(values), lengths[order])
    signs = np.sign(np.take_along_axis(v, np.abs(v).argmax(0)[None], 0))
    assert_same_bits(np.asarray(right), (v * signs)[:, order].T)


def assert_decomposes(a, u, values, right):
    k = values.shape[-1]
    back = (u[..., :k].astype(float) * values[..., None, :]) @ right[..., :k, :]
    assert np.abs(back - a).max() < 1e-6 * max(np.abs(a).max(), 1e-30)
    for q in (u, right.swapaxes(-1, -2)):
        assert np.abs(q.swapaxes(-1, -2).astype(float) @ q - np.eye(q.shape[-1])).max() < 1e-6


@pytest.mark.once
def test_matrices_of_any_kind(rng):
    a = rng.normal(size=(7, 9, 6)).astype(np.float32)
    a[1], a[2], a[3] = 0, 1, np.eye(9, 6)
    a[4, :, 3] = a[4, :, 2]
    a[5] *= np.float32(1e-30)
    a[6, :, 4:] *= np.float32(1e-12)
    tall, wide = jax.jit(lambda a: (jnp.linalg.svd(a), jnp.linalg.svd(a.swapaxes(1, 2))))(a)
    for k, one in enumerate(a):
        assert_decomposes(one, *(np.asarray(part)[k] for part in tall))
        assert_decomposes(one.T, *(np.asarray(part)[k] for part in wide))
    exact = np.linalg.svd(a.astype(float), compute_uv=False)
    assert np.abs(tall[1] - exact).max() < 1e-6
    # No matrix depends on other matrices of a batch.
    alone = jax.jit(jnp.linalg.svd)(a[4])
    for part, whole in zip(alone, tall, strict=True):
        assert_same_bits(np.asarray(part), np.asarray(whole)[4])


def test_a_nan_stays_in_its_matrix():
    a = np.stack([np.eye(3), np.full((3, 3), np.nan), np.diag([np.inf, 1, 1])]).astype(np.float32)
    for function in (jnp.linalg.eigvalsh, lambda a: jnp.linalg.svd(a, compute_uv=False)):
        result = np.isnan(jax.jit(function)(a))
        assert result.tolist() == [[False] * 3, [True] * 3, [True] * 3]


@pytest.mark.once
def test_what_is_made_of_them(rng):
    a = rng.normal(size=(5, 3)).astype(np.float32)
    a[:, 2] = a[:, 0]
    assert np.allclose(jnp.linalg.pinv(a), np.linalg.pinv(a), atol=1e-5)
    assert (jnp.linalg.matrix_rank(a), jnp.linalg.norm(a, 2) > 0) == (2, True)
    result = jax.grad(lambda a: jnp.linalg.eigvalsh(a)[-1])(a.T @ a + np.diag([3, 2, 1.0]))
    vectors = np.linalg.eigh((a.T @ a + np.diag([3, 2, 1.0])).astype(float))[1]
    assert np.allclose(result, np.outer(vectors[:, -1], vectors[:, -1]), atol=1e-5)


def test_sides_beyond_the_limit_are_refused():
    refused = r"lax.linalg.svd of .* shorter side is at most 256.*deterministic\(False"
    with pytest.raises(RuntimeError, match=refused):
        jax.jit(jnp.linalg.svd).lower(jnp.ones((257, 300)))

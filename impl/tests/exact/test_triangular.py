"""Eliminations and reflections, against the same steps in NumPy's float64.

Tests: impl._exact.linear_algebra.householder.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl


@pytest.fixture(autouse=True)
def portable():
    with impl.deterministic(guarantee="portable"):
        yield


def positive(rng, n=7):
    root = rng.normal(size=(3, n, n))
    return (root @ root.swapaxes(1, 2) + np.eye(n)).astype(np.float32)


def oracle_of_cholesky(matrix):
    a = matrix.astype(np.float64)
    for k in range(len(a)):
        a[k, k] = np.sqrt(a[k, k])
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[None, k + 1 :, k]
    return np.tril(a).astype(np.float32)


def oracle_of_lu(matrix):
    a, order = matrix.astype(np.float64), np.arange(len(matrix))
    for k in range(min(a.shape)):
        best = k + np.argmax(np.abs(a[k:, k]))
        for array in (a, order):
            array[[k, best]] = array[[best, k]]
        if a[k, k] != 0:
            a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= a[k + 1 :, k, None] * a[None, k, k + 1 :]
    return a.astype(np.float32), order


def oracle_of_solutions(triangle, right):
    x = right.astype(np.float64)
    for k, column in enumerate(triangle.astype(np.float64).T):
        x[k] /= column[k]
        x[k + 1 :] -= column[k + 1 :, None] * x[k]
    return x.astype(np.float32)


def test_triangles_have_the_bits_of_the_oracle(rng):
    a = positive(rng)
    result = jax.jit(jnp.linalg.cholesky)(a)
    assert np.array_equal(result, [oracle_of_cholesky(each) for each in a])
    right = rng.normal(size=(3, 7, 2)).astype(np.float32)
    solved = jax.jit(lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True, lower=True))
    expected = [oracle_of_solutions(*each) for each in zip(a, right, strict=True)]
    assert np.array_equal(solved(a, right), expected)


@pytest.mark.parametrize("shape", [(7, 4), (4, 7)])
def test_pivots_have_the_bits_of_the_oracle(rng, shape):
    a = rng.integers(-3, 4, (3, *shape)).astype(np.float32)
    a[0, :, 0] = 0
    triangles, _, order = jax.jit(lax.linalg.lu)(a)
    for each, triangle, rows in zip(a, triangles, order, strict=True):
        expected, expected_order = oracle_of_lu(each)
        assert np.array_equal(triangle, expected)
        assert np.array_equal(rows, expected_order)


SIDES = list(itertools.product([False, True], repeat=4))


@pytest.mark.once
def test_every_side_of_a_system(rng):
    a, b = positive(rng)[0], rng.normal(size=(7, 7)).astype(np.float32)
    solve = lax.linalg.triangular_solve
    names = ("left_side", "lower", "transpose_a", "unit_diagonal")
    everything = [dict(zip(names, each, strict=True)) for each in SIDES]
    result = jax.jit(lambda a, b: [solve(a, b, **each) for each in everything])(a, b)
    for x, each in zip(result, everything, strict=True):
        triangle = np.tril(a) if each["lower"] else np.triu(a)
        if each["unit_diagonal"]:
            triangle = triangle - np.diag(np.diag(triangle)) + np.eye(7)
        triangle = triangle.T if each["transpose_a"] else triangle
        back = triangle @ x if each["left_side"] else x @ triangle
        assert np.allclose(back, b, atol=1e-5 * np.abs(x).max())


@pytest.mark.once
@pytest.mark.parametrize("shape", [(6, 4), (4, 6)])
def test_reflections_are_those_of_numpy(rng, shape):
    a = rng.normal(size=(2, *shape)).astype(np.float32)
    a[0, 1:, 0] = 0
    q, r = jax.jit(jnp.linalg.qr)(a)
    expected_q, expected_r = np.linalg.qr(a.astype(np.float64))
    assert np.allclose(q, expected_q, atol=1e-6)
    assert np.allclose(r, expected_r, atol=1e-5)


def oracle_of_reflections(a, taus, c):
    """The product of all reflections, from the last to the first, in NumPy's float64."""
    c = c.astype(np.float64)
    for k in range(len(taus))[::-1]:
        v = np.concatenate([np.zeros(k), [1.0], a[k + 1 :, k]])
        c -= np.outer(v, taus[k] * (v @ c))
    return c


@pytest.mark.once
def test_products_with_reflections_are_those_of_numpy(rng):
    turned, taus = jnp.linalg.qr(rng.normal(size=(2, 6, 4)).astype(np.float32), mode="raw")
    a = np.asarray(np.swapaxes(turned, 1, 2))
    c = rng.normal(size=(2, 6, 3)).astype(np.float32)
    whole = np.stack(
        [oracle_of_reflections(*each, np.eye(6)) for each in zip(a, taus, strict=True)]
    )

    @jax.jit
    def products(c):
        sides = itertools.product([True, False], repeat=2)
        return [
            lax.linalg.ormqr(a, taus, c if left else c.mT, left=left, transpose=transpose)
            for left, transpose in sides
        ]

    expected = [
        np.swapaxes(whole, 1, 2) @ c,
        whole @ c,
        np.swapaxes(c, 1, 2) @ np.swapaxes(whole, 1, 2),
        np.swapaxes(c, 1, 2) @ whole,
    ]
    for result, exact in zip(products(c), expected, strict=True):
        assert np.allclose(result, exact, atol=1e-6)


def test_a_matrix_that_is_not_positive_has_no_triangle():
    a = np.stack([np.eye(3), np.diag([1.0, -1, 1]), np.diag([1.0, 0, 1])]).astype(np.float32)
    result = np.isnan(jnp.linalg.cholesky(a)).any((1, 2))
    assert result.tolist() == [False, True, True]


@pytest.mark.once
def test_derivatives_and_batches(rng):
    a = positive(rng)

    def loss(a):
        return jnp.linalg.slogdet(a)[1] + jnp.sum(jnp.linalg.solve(a, jnp.ones(7)))

    result = jax.jit(jax.vmap(jax.grad(loss)))(a)
    inverse = np.linalg.inv(a.astype(np.float64))
    column, line = inverse.sum(2), inverse.sum(1)
    expected = inverse.swapaxes(1, 2) - line[:, :, None] * column[:, None, :]
    assert np.allclose(result, expected, rtol=1e-4, atol=1e-5)

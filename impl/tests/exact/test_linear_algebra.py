"""Fourier transforms, rotations, eliminations and reflections, against the oracles and NumPy.

Tests: impl._exact.linear_algebra.fourier, impl._exact.linear_algebra.decompositions,
impl._exact.linear_algebra.rotations.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._exact.linear_algebra.fourier import roots_of_unity
from impl.tests.support.bits import assert_same_bits
from spec import oracles

pytestmark = pytest.mark.usefixtures("portable")

#: XLA contracts a product and a sum from level 1 on.
contracting = functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 1})


def complex_numbers(rng, *shape):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


def transform_by_oracle(real, imaginary, *, inverse=False):
    """Returns the parts of a transform, float64."""
    parts = oracles.transform(real, imaginary, inverse=inverse)
    return tuple(part * (1 / real.shape[-1] if inverse else 1.0) for part in parts)


@pytest.mark.parametrize("n", [1, 12, 45])
def test_transforms_have_the_bits_of_the_oracle(rng, n):
    x, y = rng.normal(size=(2, 3, n))

    @contracting
    def transforms(x, y):
        x, y = x * 1.1, y * 1.1
        z = lax.complex(x, y)
        narrow = lax.complex(*(part.astype(np.float32) for part in (x, y)))
        result = (
            lax.fft(each, "FFT", (n,)) for each in (z, lax.complex(x, lax.full_like(x, 0)), narrow)
        )
        return [(each.real, each.imag) for each in (*result, lax.fft(z, "IFFT", (n,)))]

    # The bits of float64 show differences that a rounding to float32 hides.
    with jax.enable_x64(True):
        result = transforms(x, y)
    x, y = x * 1.1, y * 1.1
    narrow = [part.astype(np.float32).astype(float) for part in (x, y)]
    expected = [
        transform_by_oracle(x, y),
        transform_by_oracle(x, np.zeros_like(x)),
        transform_by_oracle(*narrow),
        transform_by_oracle(x, y, inverse=True),
    ]
    for parts, right in zip(result, expected, strict=True):
        for part, exact in zip(parts, right, strict=True):
            assert_same_bits(np.asarray(part), exact.astype(part.dtype))


def test_a_real_transform_has_the_zeros_of_the_oracle(rng):
    # XLA must not fold the additions of imaginary parts that it knows: -0 + 0 is 0.
    x = np.where(rng.normal(size=(4, 12)) > 0, -0.0, 1.0).astype(np.float32)
    result = np.asarray(jax.jit(jnp.fft.rfft)(x))
    expected = transform_by_oracle(x.astype(float), np.zeros(x.shape))
    for part, exact in zip((result.real, result.imag), expected, strict=True):
        assert_same_bits(part, exact[:, :7].astype(np.float32))


@pytest.mark.once
def test_every_kind_is_as_near_to_numpy_as_float32_can_be(rng):
    x, z = rng.normal(size=(2, 6, 10)).astype(np.float32), complex_numbers(rng, 2, 6, 10)

    def everything(x, z, fft):
        return [
            *(fft.fft(z), fft.ifft(z), fft.rfft(x), fft.irfft(z[..., :6]), fft.irfft(z, 17)),
            *(fft.fftn(z), fft.ifft2(z), fft.rfftn(x), fft.irfftn(z), fft.fft(x, axis=0)),
        ]

    result = jax.jit(lambda x, z: everything(x, z, jnp.fft))(x, z)
    expected = everything(x.astype(float), z.astype(complex), np.fft)
    for one, exact in zip(result, expected, strict=True):
        # JAX multiplies some results once more, and that product is rounded too.
        assert np.linalg.norm(one - exact) < 1.5 * 2**-24 * np.linalg.norm(exact)


def test_roots_of_unity():
    assert roots_of_unity(4).tolist() == [[1, 0, -1, 0], [0, 1, 0, -1]]
    angle = 2 * np.pi * np.arange(4096) / 4096
    assert np.abs(roots_of_unity(4096) - [np.cos(angle), np.sin(angle)]).max() < 1e-15


BEYOND = {
    "a prime": (jnp.fft.fft, (131,), "lengths of at most 65536.* above 127"),
    "a long one": (jnp.fft.fft, (3**11,), "lengths of at most 65536.* above 127"),
    "sides": (jnp.linalg.svd, (257, 300), "shorter side is at most 256"),
}


@pytest.mark.parametrize("name", BEYOND)
def test_sizes_beyond_the_limits_are_refused(name):
    function, shape, words = BEYOND[name]
    x = jax.ShapeDtypeStruct(shape, np.complex64 if function is jnp.fft.fft else np.float32)
    with pytest.raises(
        RuntimeError, match=rf"lax\.(fft|linalg.svd) of .*{words}.*deterministic\(F"
    ):
        jax.jit(function).lower(x)
    assert {finding.verdict for finding in impl.audit(function)(x).findings} == {"raises"}
    with impl.deterministic(guarantee="run_to_run"):
        assert jax.jit(function).lower(x)


def symmetric(rng, *shape):
    a = rng.uniform(-0.49, 0.49, size=shape).astype(np.float32)
    a[..., 0, 0] = 0.75  # The scale is 1.
    return np.tril(a) + np.tril(a, -1).swapaxes(-1, -2)


@pytest.mark.parametrize("n", [5, 8])
def test_eigenvalues_have_the_bits_of_the_oracle(rng, n):
    a = symmetric(rng, 2, n, n).astype(float)
    with jax.enable_x64(True):
        vectors, values = contracting(lambda a: lax.linalg.eigh(a, symmetrize_input=False))(a)
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
    triangles, _, order = contracting(lax.linalg.lu)(a)
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

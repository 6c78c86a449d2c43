"""Fourier transforms, against the oracle of their order and against NumPy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._exact.linear_algebra.fourier import roots_of_unity
from impl.tests.support.bits import assert_same_bits
from spec import oracles


@pytest.fixture(autouse=True)
def portable():
    with impl.deterministic(guarantee="portable"):
        yield


def complex_numbers(rng, *shape):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


def oracle(real, imaginary, *, inverse=False):
    """Returns the parts of a transform, float64."""
    parts = oracles.transform(real, imaginary, inverse=inverse)
    return tuple(part * (1 / real.shape[-1] if inverse else 1.0) for part in parts)


@pytest.mark.parametrize("n", [1, 24, 45])
def test_transforms_have_the_bits_of_the_oracle(rng, n):
    x, y = rng.normal(size=(2, 3, n))

    @jax.jit
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
        oracle(x, y),
        oracle(x, np.zeros_like(x)),
        oracle(*narrow),
        oracle(x, y, inverse=True),
    ]
    for parts, right in zip(result, expected, strict=True):
        for part, exact in zip(parts, right, strict=True):
            assert_same_bits(np.asarray(part), exact.astype(part.dtype))


def test_a_real_transform_has_the_zeros_of_the_oracle(rng):
    # XLA must not fold the additions of imaginary parts that it knows: -0 + 0 is 0.
    x = np.where(rng.normal(size=(4, 12)) > 0, -0.0, 1.0).astype(np.float32)
    result = np.asarray(jax.jit(jnp.fft.rfft)(x))
    expected = oracle(x.astype(float), np.zeros(x.shape))
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


@pytest.mark.once
def test_a_gradient(rng):
    x, weight = rng.normal(size=12).astype(np.float32), complex_numbers(rng, 7)

    def loss(x):
        product = jnp.fft.rfft(x) * weight
        return product.real.sum()

    result = jax.jit(jax.grad(loss))(x)
    rows = np.fft.rfft(np.eye(12))
    assert np.allclose(result, (rows * weight).real.sum(1), atol=1e-5)


@pytest.mark.parametrize("n", [131, 3**11])
def test_lengths_beyond_the_limits_are_refused(n):
    refused = r"lax.fft of complex64.* lengths of at most 65536.* above 127.*deterministic\(False"
    with pytest.raises(RuntimeError, match=refused):
        jax.jit(jnp.fft.fft).lower(jnp.ones(n, jnp.complex64))
    (finding,) = impl.audit(lambda x: lax.fft(x, "FFT", (n,)))(jnp.ones(n, jnp.complex64)).findings
    assert finding.verdict == "raises"
    with impl.deterministic(guarantee="run_to_run"):
        assert jax.jit(jnp.fft.fft).lower(jnp.ones(n, jnp.complex64))

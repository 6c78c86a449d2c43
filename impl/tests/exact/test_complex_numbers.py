"""Complex numbers of two float32, against NumPy's of two float64, rounded once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.exact._sums import assert_same
from impl.tests.exact._terms import hard_matrix
from spec import oracles

pytestmark = pytest.mark.usefixtures("portable")


#: Functions of JAX or NumPy and two arrays.
OPERATIONS = {
    "add": lambda _, a, b: a + b,
    "sub": lambda _, a, b: a - b,
    "mul": lambda _, a, b: a * b,
    "div": lambda _, a, b: a / b,
    "abs": lambda library, a, _: library.abs(a),
    "exp": lambda library, a, _: library.exp(a),
    "log": lambda library, _, b: library.log(b),
    "power": lambda _, a, __: a**3,
    "of real": lambda _, a, __: a.real * 1j,
    "magnitude": lambda _, a, __: (a * a.conj()).real,
}


@pytest.mark.usefixtures("engine")
def test_parts_are_rounded_from_float64(rng):
    a, b = ((rng.normal(size=(9, 5)) + 1j * rng.normal(size=(9, 5))) for _ in range(2))
    a, b = a.astype("complex64"), b.astype("complex64")
    result = jax.jit(lambda a, b: {name: f(jnp, a, b) for name, f in OPERATIONS.items()})(a, b)
    wide = a.astype("complex128"), b.astype("complex128")
    for name, function in OPERATIONS.items():
        expected = function(np, *wide)
        error = np.abs(np.asarray(result[name]) - expected)
        assert (error <= np.abs(expected) * 2.0**-23).all(), name
        assert result[name].dtype == expected.astype(result[name].dtype).dtype


@pytest.mark.usefixtures("engine")
def test_each_part_of_a_sum_is_rounded_once(rng):
    # Parts of a product that cancel in float64, or to the last bit, and hard terms of a sum.
    terms = hard_matrix(rng, 20)
    a = np.empty(terms.shape, "complex64")
    a.real, a.imag = terms, terms[::-1]
    finite = a[:, np.isfinite(terms).all(0)]
    finite = np.where(np.abs(finite) < 1e30, finite, np.complex64(3 - 2j))
    b = (rng.normal(size=(20, 4)) + 1j * rng.normal(size=(20, 4))).astype("complex64")
    step = jax.jit(lambda a, f, b: (a.sum(0), f.T @ b, f.T @ b.real, f.T.real @ b, f.T @ f))
    total, *products = step(a, finite, b)
    for part in (np.real, np.imag):
        assert_same(part(total), part(oracles.nearest(a)))
    real = b.real.astype("complex64"), finite.real.astype("complex64")
    factors = [(finite, b), (finite, real[0]), (real[1], b), (finite, finite)]
    for product, (left, right) in zip(products, factors, strict=True):
        want = oracles.nearest_product(left.T, right, "complex64")
        for part in (np.real, np.imag):
            assert_same(part(product), part(want))


@pytest.mark.once
def test_derivatives(rng):
    a = (rng.normal(size=7) + 1j * rng.normal(size=7)).astype("complex64")

    def loss(a):
        return jnp.abs(jnp.sum(jnp.exp(a) * a / (1 + a))) + jnp.sum(jnp.abs(a) ** 2)

    step = jax.jit(jax.grad(loss))
    result = step(a)
    with impl.deterministic(False):
        assert np.allclose(result, step(a), rtol=1e-4)

"""Complex numbers of two float32, against NumPy's of two float64, rounded once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl


@pytest.fixture(autouse=True)
def portable():
    with impl.deterministic(guarantee="portable"):
        yield


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
    "sum": lambda _, a, __: a.sum(0),
    "dot": lambda _, a, b: a @ b.T,
    "magnitude": lambda _, a, __: (a * a.conj()).real,
}


def test_parts_are_rounded_from_float64(rng):
    a, b = ((rng.normal(size=(9, 5)) + 1j * rng.normal(size=(9, 5))) for _ in range(2))
    a, b = a.astype("complex64"), b.astype("complex64")
    result = jax.jit(lambda a, b: {name: f(jnp, a, b) for name, f in OPERATIONS.items()})(a, b)
    wide = a.astype("complex128"), b.astype("complex128")
    for name, function in OPERATIONS.items():
        expected = function(np, *wide)
        error = np.abs(np.asarray(result[name]) - expected)
        assert (error <= np.abs(expected) * 2.0**-23 + 1e-6 * (name in ("sum", "dot"))).all(), name
        assert result[name].dtype == expected.astype(result[name].dtype).dtype


@pytest.mark.once
def test_derivatives(rng):
    a = (rng.normal(size=7) + 1j * rng.normal(size=7)).astype("complex64")

    def loss(a):
        return jnp.abs(jnp.sum(jnp.exp(a) * a / (1 + a))) + jnp.sum(jnp.abs(a) ** 2)

    step = jax.jit(jax.grad(loss))
    result = step(a)
    with impl.deterministic(False):
        assert np.allclose(result, step(a), rtol=1e-4)

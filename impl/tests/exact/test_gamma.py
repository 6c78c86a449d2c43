"""lgamma and digamma against SciPy in float64, rounded once."""

import jax
import numpy as np
import pytest
from scipy import special

import impl

REFERENCES = {"lgamma": special.gammaln, "digamma": special.psi}
SPECIAL = {
    "lgamma": [(0, np.inf), (-2, np.inf), (-np.inf, np.inf), (np.inf, np.inf), (1, 0), (2, 0)],
    "digamma": [(0, -np.inf), (-2, np.nan), (-np.inf, np.nan), (np.inf, np.inf)],
}


@pytest.fixture(autouse=True)
def portable():
    with impl.deterministic(guarantee="portable"):
        yield


@pytest.mark.parametrize("name", REFERENCES)
def test_values_are_rounded_once(rng, name):
    parts = [rng.uniform(0, 3, 1000), rng.uniform(-12, 12, 1000), 2.0 ** rng.uniform(-99, 99, 1000)]
    near_zeros = [zero + rng.normal(size=200) * 1e-4 for zero in (1, 2, 2.5, 10)]
    x = np.concatenate([*parts, *near_zeros]).astype(np.float32)
    result = jax.jit(getattr(jax.lax, name))(x)
    assert np.array_equal(result, REFERENCES[name](x.astype(np.float64)).astype(np.float32))


@pytest.mark.parametrize("name", REFERENCES)
def test_special_values(name):
    arguments, expected = np.array([*SPECIAL[name], (np.nan, np.nan)], np.float32).T
    assert np.array_equal(getattr(jax.lax, name)(arguments), expected, equal_nan=True)


@pytest.mark.once
def test_draws_and_densities(rng):
    key, x = jax.random.key(0), rng.gamma(2.0, size=100).astype(np.float32)
    counts = jax.jit(lambda: jax.random.poisson(key, 35.0, (200,)))()
    assert 33 < counts.mean() < 37
    slope = jax.jit(jax.grad(lambda a: jax.scipy.stats.gamma.logpdf(x, a).sum()))(2.0)
    assert np.isclose(slope, np.log(x).sum() - 100 * special.psi(2.0), rtol=1e-5)

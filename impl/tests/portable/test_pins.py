"""Functions of JAX and their derivatives have the same bits in every release of JAX.

Tests: impl._jax.initializers, impl._portable.rules.functions,
impl._portable.rules.products.
"""

import tomllib

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import impl
from impl._portable import derivatives
from impl.tests.portable import functions


def test_the_bits_of_functions_and_of_their_derivatives():
    expected = tomllib.loads(functions.FILE.read_text(encoding="utf-8"))
    found = functions.digests()
    assert {name for name in expected if found.get(name) != expected[name]} == set()
    assert set(found) == set(expected)


def test_each_derivative_that_is_pinned_is_among_them():
    known = {name.rpartition(".")[2] for name in functions.FUNCTIONS}
    assert {*derivatives.DERIVATIVES, *derivatives.RULES} <= known


def test_a_polynomial_has_a_derivative_where_its_point_varies_over_devices():
    # The first value of its steps must have the type of the next one.
    x, coefficients = jnp.float32([0.25, 1.5]), jnp.float32([1.0, 0.3, -2.0])

    def value(x, coefficients):
        return jnp.polyval(coefficients, x).sum()

    def part(x, coefficients):
        return jax.grad(lambda *each: lax.psum(value(*each), "d"), (0, 1))(x, coefficients)

    mesh, specs = Mesh(np.array(jax.devices()[:1]), ("d",)), (P("d"), P())
    with impl.deterministic(guarantee="portable"):
        want = jax.grad(value, (0, 1))(x, coefficients)
        mapped = jax.shard_map(part, mesh=mesh, in_specs=specs, out_specs=specs)
        got = jax.jit(mapped)(x, coefficients)
    assert [each.tobytes() for each in map(np.asarray, got)] == [
        each.tobytes() for each in map(np.asarray, want)
    ]

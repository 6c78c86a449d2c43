"""The parts of a derivative are one exact sum, however the derivative is asked for.

Tests: impl._jax.cotangents, impl._portable.derivatives.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._portable import derivatives
from impl.tests.exact._sums import DTYPES, assert_same
from impl.tests.exact.test_reduction import hard
from spec.oracles import nearest

pytestmark = pytest.mark.usefixtures("portable")

#: How many parts a derivative has.
COUNT = 4


@pytest.fixture
def factors(rng):
    return list(hard(rng, COUNT, "float32", 30))


def linear(x, factors):
    """Returns a function whose derivative by ``x`` has the factors as parts."""
    return functools.reduce(jnp.add, [x * factor for factor in factors]).sum()


def looped(x, factors):
    """Computes ``linear`` in a loop that runs once."""
    step = lambda c, row: (c + linear(x, list(row)), None)  # noqa: E731
    return lax.scan(step, 0.0, jnp.stack(factors)[None])[0]


def chosen(x, factors):
    return lax.cond(x.sum() == x.sum(), linear, lambda x, _: x.sum(), x, factors)


def custom(x, factors):
    by = jax.custom_vjp(linear)
    forward = lambda x, factors: (linear(x, factors), (x, factors))  # noqa: E731
    by.defvjp(forward, lambda saved, g: (g * jax.grad(linear)(*saved), saved[1]))
    return by(x, factors)


def aliased(x, factors):
    y, z = jax.jit(lambda x: (x, x), inline=True)(x)
    return linear(y, factors[:2]) + linear(z, factors[2:])


@pytest.mark.parametrize("dtype", [*DTYPES, "complex64", "complex128"])
def test_the_derivative_is_the_nearest_float_to_the_sum_of_all_parts(rng, dtype):
    real = {"complex64": "float32", "complex128": "float64"}.get(dtype, dtype)
    rows, others = (hard(rng, COUNT, real, 6) for _ in range(2))
    factors = rows + 1j * others if real != dtype else rows
    with jax.enable_x64(real == "float64"):
        one = jnp.ones(factors.shape[1:], factors.dtype)
        _, pullback = jax.vjp(lambda x: [x * factor for factor in factors], one)
        cotangents = [one] * COUNT
        eager = pullback(cotangents)[0]
        compiled = jax.jit(lambda x: pullback(x)[0])(cotangents)
    for got in map(np.asarray, (eager, compiled)):
        assert_same(got.real, nearest(np.asarray(rows)))
        if real != dtype:
            assert_same(got.imag, nearest(np.asarray(others)))


@pytest.mark.parametrize(
    "function",
    [linear, jax.jit(linear), jax.checkpoint(linear), chosen, looped, custom, aliased],
    ids=["plain", "jit", "remat", "cond", "scan of a constant", "custom_vjp", "alias"],
)
def test_calls_and_loops_give_the_same_sum(factors, function):
    x = jnp.ones(factors[0].shape)
    gradient = jax.grad(function)
    want = nearest(np.asarray(factors))
    assert_same(gradient(x, factors), want)
    assert_same(jax.jit(gradient)(x, factors), want)


def test_batches_and_derivatives_of_the_sum(factors):
    x, rows = jnp.ones(factors[0].shape), jnp.stack(factors)
    want = nearest(np.asarray(factors))
    # One factor has no batch, and two factors have different batch axes.
    gradient = jax.grad(lambda x, a, b, c, d: linear(x, [a, b, c, d]))
    operands = (x, rows[0], jnp.stack([rows[1]] * 2), jnp.stack([rows[2]] * 2, 1), rows[3])
    got = jax.vmap(gradient, (None, None, 0, 1, None))(*operands)
    assert_same(got, np.stack([want] * 2))
    # The gradient is linear in the factors, so its tangent is the gradient for their tangents.
    at = functools.partial(jax.grad(linear), x)
    assert_same(jax.jvp(at, ([*map(jnp.zeros_like, rows)],), ([*rows],))[1], want)
    # And its transpose gives each factor the cotangent.
    (cotangents,) = jax.vjp(at, [*rows])[1](x * 3)
    assert all((np.asarray(each) == 3).all() for each in cotangents)
    # A factor without a tangent adds nothing.
    some = jax.jvp(lambda a: at([a, *rows[1:]]), (rows[0],), (rows[0],))[1]
    assert_same(some, np.asarray(rows[0]))


def test_each_step_of_a_scan_adds_its_parts_to_the_sum_so_far(factors):
    rows = np.stack([factors, factors[::-1]])

    def steps(x, unroll):
        step = lambda c, row: (c + linear(x, list(row)), None)  # noqa: E731
        return lax.scan(step, 0.0, rows, unroll=unroll)[0]

    x = jnp.ones(rows.shape[-1])
    last = nearest(np.asarray(rows[1]))
    want = nearest(np.stack([last, *rows[0]]))
    for unroll in (1, 2):
        assert_same(jax.grad(steps)(x, unroll), want)


def test_a_sum_that_the_program_writes_keeps_its_order():
    a, b, c = (np.float32([each]) for each in (1, 2.0**-24, 2.0**-24))

    def plain(a, b, c):
        return (a + b) + c

    assert jax.jit(plain)(a, b, c) == 1
    _, tangent = jax.jvp(plain, (a, b, c), (a, b, c))
    assert tangent == 1


def equations(mode):
    with mode:
        return str(jax.make_jaxpr(jax.grad(linear))(jnp.ones(3), [np.ones(3, np.float32)] * 3))


def test_other_modes_add_as_jax_does():
    assert "add_parts" in equations(impl.deterministic(guarantee="portable"))
    plain = equations(impl.deterministic(False))
    assert equations(impl.deterministic(guarantee="run_to_run")) == plain
    assert "add_parts" not in plain
    assert plain.count("add_any") == 2


def test_a_scope_adds_the_parts_that_arise_in_it(factors):
    x = jnp.ones(factors[0].shape)

    def scoped(x, factors):
        with impl.deterministic(guarantee="portable"):
            return linear(x, factors)

    with impl.deterministic(False):
        gradient = jax.jit(jax.grad(scoped))
        assert_same(gradient(x, factors), nearest(np.asarray(factors)))


def test_a_product_that_enters_is_rounded_first(rng):
    a, b, c, d = (jnp.asarray(rng.standard_normal(500), "float32") for _ in range(4))
    products = [np.asarray(each) for each in (a * b, b * c, c * d)]

    def loss(x):
        return linear(x, [a * b, b * c, c * d])

    assert_same(jax.jit(jax.grad(loss))(jnp.ones(500)), nearest(np.asarray(products)))


def test_the_audit_knows_the_sum():
    report = impl.audit(jax.grad(linear))(jnp.ones(3), [jnp.ones(3)] * 3)
    assert report.ok
    assert not report.findings


def test_parts_without_elements():
    with impl.testing.engine("float64"):
        result = jax.jit(jax.grad(linear))(jnp.zeros((4, 0)), [jnp.ones((4, 0))] * COUNT)
    assert result.shape == (4, 0)


def test_parts_of_several_types_are_refused():
    with pytest.raises(TypeError, match="pass two parts or more of one type"):
        derivatives.add_parts_p.bind(jnp.ones(3), jnp.ones(3), jnp.ones(4))

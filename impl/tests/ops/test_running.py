"""cumsum, cumprod, logcumsumexp, cummax and cummin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits
from impl.tests.support.numbers import near_one, spread
from spec import oracles

pytestmark = pytest.mark.usefixtures("complete")

EXTREMES = ("cummax", "cummin")


# Extremes.


def maxima(x):
    """Returns the greatest elements so far down the first axis, and their last positions."""
    reached = x == np.maximum.accumulate(x, axis=0)
    positions = np.arange(len(x), dtype=np.int32)[:, None]
    last = np.maximum.accumulate(np.where(reached, positions, 0), axis=0)
    return np.take_along_axis(x, last, axis=0), last


@pytest.mark.parametrize("op", EXTREMES)
@pytest.mark.parametrize(("scale", "lanes"), [(1, 3), (1e-39, 3), (1, 16)])
def test_extremes_are_elements_with_their_bits(op, scale, lanes, rng):
    # Small integers are often equal. On a CPU XLA takes subnormal numbers for equal.
    values = rng.integers(-3, 4, (300, lanes)).astype(np.float32) * np.float32(scale)
    values[150:] *= -1
    values[250, 1] = np.nan
    extremes, places = jax.jit(lambda x: getattr(impl, op)(x, 0))(values)
    assert_same_bits(extremes, np.take_along_axis(values, np.asarray(places), 0))


# Exact results, under ``portable``.


def gradient_of_products(ct, x):
    before, after = np.ones(x.shape), ct.astype(np.float64)
    for i in range(1, len(x)):
        before[i] = before[i - 1] * x[i - 1]
        after[-1 - i] += x[-i] * after[-i]
    return before * after


def gradient_of_maxima(ct, x):
    places = maxima(x)[1]
    columns = [oracles.nearest_scatter(0 * ct[:, k], places[:, k], ct[:, k]) for k in range(2)]
    return np.stack(columns, axis=1)


EXACT = {
    "cumsum": (oracles.nearest_running, lambda ct, _: oracles.nearest_running(ct[::-1])[::-1]),
    "cumprod": (oracles.doubling, gradient_of_products),
    "cummax": (lambda x: maxima(x)[0], gradient_of_maxima),
    # Of these numbers no logarithm is so near to the middle of two floats that float64 errs.
    "logcumsumexp": (lambda x: np.log(np.cumsum(np.exp(x.astype(np.float64)), 0)), None),
}


@pytest.mark.parametrize(
    ("op", "dtype"),
    [*((op, np.float32) for op in EXACT), ("cumsum", jnp.bfloat16), ("cummax", jnp.bfloat16)],
)
def test_portable_results_are_exact_also_in_batches_and_before_padding(op, dtype, rng):
    # Derivatives of products and logarithms take long to compile.
    shape = (300 if op in ("cumsum", "cummax") else 11, 2)
    x, weight = (spread(rng, shape, dtype) for _ in range(2))
    # The sum of the first three is just above the middle of two bfloat16, in 31 bits.
    x[:3, 0] = weight[-3:, 0] = 1, 2**-8, 2**-30
    if op == "cumprod":
        # Each step of this gradient is rounded. Of whole numbers it is exact.
        x, weight = near_one(shape, dtype), np.round(weight)

    def results(x, weight):
        run = lambda x: jax.tree.leaves(getattr(impl, op)(x, 0))[0]  # noqa: E731
        value, pullback = jax.vjp(run, x)
        return run(x), value, *pullback(weight)

    padded = [np.pad(array, [(0, 20), (0, 0)], "edge") for array in (x, weight)]
    padded[1][shape[0] :] = 0
    with impl.deterministic(profile="complete", guarantee="portable"):
        alone, value, gradient = jax.jit(results)(x, weight)
        before = jax.jit(results)(*padded)
        batch = jax.jit(jax.vmap(results, -1, -1))(x, weight)
    forward, backward = EXACT[op]
    assert_same_bits(alone, forward(x).astype(dtype))
    assert_same_bits(value, alone)
    if op == "cumprod":
        x = np.sign(x)
        with impl.deterministic(profile="complete", guarantee="portable"):
            of_signs = jax.jit(results)(x, weight)[2]
        np.testing.assert_array_equal(of_signs, backward(weight, x))
    elif backward is not None:
        assert_same_bits(gradient, backward(weight, x))
    assert_all_same_bits([part[: shape[0]] for part in before], [alone, value, gradient])
    assert_all_same_bits(batch, [alone, value, gradient])


# Values, and derivatives.


def test_dtype_in_gradients_and_from_complex_numbers():
    gradient = jax.grad(lambda x: impl.cumsum(x, 0, dtype=jnp.float32).sum())
    assert_same_bits(gradient(jnp.ones(3, jnp.bfloat16)), np.array([3, 2, 1], jnp.bfloat16))
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        got = impl.cumprod(np.array([2 + 1j, 3 - 1j], np.complex64), 0, dtype=np.float32)
    assert_same_bits(got, np.array([2, 6], np.float32))


def test_gradients_of_logcumsumexp_of_nothing_are_zero():
    # PyTorch has NaN for a term of minus infinity, if the sum is minus infinity.
    x = jnp.array([-jnp.inf, -jnp.inf, 1.0, -jnp.inf, 2.0])
    got = jax.jit(jax.grad(lambda v: impl.logcumsumexp(v, 0)[2:].sum()))(x)
    share = 1 / (1 + np.exp(1))
    np.testing.assert_allclose(got, [0, 0, 2 + share, 0, 1 - share], rtol=1e-6)


def test_gradients_of_cumprod_with_zeros_are_finite_and_right():
    x = jnp.array([2.0, 0.0, 3.0, 0.0, 5.0])

    @jax.jit
    def derivatives(x):
        weighted = lambda v: (impl.cumprod(v, 0) * jnp.arange(1.0, 6)).sum()  # noqa: E731
        return jax.grad(weighted)(x), jax.hessian(lambda v: impl.cumprod(v, 0)[4])(x)

    first, second = derivatives(x)
    assert first.tolist() == [1, 2 * (2 + 3 * 3), 0, 0, 0]
    assert second[1, 3] == second[3, 1] == 2 * 3 * 5
    assert np.count_nonzero(second) == 2


@pytest.mark.parametrize("op", EXTREMES)
def test_derivatives_leave_the_signs_of_zeros(op):
    x = jnp.array([-0.0, 0.0, -0.0, 0.0, -0.0])
    values, tangents = jax.jvp(lambda x: getattr(impl, op)(x, 0).values, (x,), (jnp.arange(5.0),))
    np.testing.assert_array_equal(np.signbit(values), np.signbit(x))
    np.testing.assert_array_equal(tangents, np.arange(5))

"""The operations of scans: associative up to rounding, and right at infinities."""

import operator

import jax.numpy as jnp
import numpy as np
import pytest

from impl._families.scan_combines import COMBINES, joined, later_extreme, split


def combined(name, *operands):
    parts = [split(jnp.asarray(x)) for x in operands]
    return joined(COMBINES[name](*parts, operator.mul))


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize(
    ("name", "expected"), [("add", np.add), ("mul", np.multiply), ("logaddexp", None)]
)
def test_numbers(name, expected, dtype):
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 20)).astype(dtype)
    if dtype is np.complex64:
        a, b = a + 1j * b, b - 1j * a
    if expected is None:
        expected = (
            np.logaddexp if dtype is np.float32 else lambda a, b: np.log(np.exp(a) + np.exp(b))
        )
    np.testing.assert_allclose(combined(name, a, b), expected(a, b), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "result"),
    [
        (np.inf, np.inf, np.inf),
        (-np.inf, -np.inf, -np.inf),
        (-np.inf, 2.0, 2.0),
        (np.inf, -np.inf, np.inf),
    ],
)
def test_logaddexp_of_infinities(a, b, result):
    assert combined("logaddexp", np.float32(a), np.float32(b)) == result
    assert combined("logaddexp", np.float32(b), np.float32(a)) == result


def test_an_exponential_of_zero_adds_nothing_whatever_its_angle():
    zero, other = np.complex64(complex(-np.inf, np.inf)), np.complex64(1 + 2j)
    assert combined("logaddexp", zero, other) == other


def test_affine_composes_the_earlier_map_first():
    first, second = (jnp.float32(2), jnp.float32(3)), (jnp.float32(5), jnp.float32(7))
    factor, term = COMBINES["affine"](first, second, operator.mul)
    assert (factor, term) == (10, 5 * 3 + 7)


def test_the_later_of_equal_extremes_wins_and_a_nan_over_numbers():
    earlier = jnp.array([1, 2, 3, np.nan, 1]), jnp.array([0, 0, 0, 0, 0])
    later = jnp.array([2, 2, 1, 5, np.nan]), jnp.array([1, 1, 1, 1, 1])
    greatest, position = later_extreme(earlier, later, by="max")
    np.testing.assert_array_equal(greatest, [2, 2, 3, np.nan, np.nan])
    assert position.tolist() == [1, 1, 0, 0, 1]
    assert later_extreme(earlier, later, by="min")[1].tolist() == [0, 1, 1, 0, 1]

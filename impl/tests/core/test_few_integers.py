"""The test of the range of a few integers, compared with the same comparison in Python."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._core import few_integers


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_the_range_is_that_of_every_number(dtype):
    rng, limits = np.random.default_rng(0), np.iinfo(dtype)
    passed = 0
    for _ in range(2000):
        end = int(rng.choice([0, 1, 2, 3, 7, 100, limits.max, limits.max + 1, 2**40]))
        low = int(rng.choice([0, -end]))
        edges = [limits.min, limits.max, low - 1, low, low + 1, -1, 0, 1, end - 1, end, end + 1]
        if rng.random() < 0.5:
            edges = [edge for edge in edges if low <= edge < end] or [low]
        values = rng.choice([edge for edge in edges if limits.min <= edge <= limits.max], 5)
        array = values.astype(dtype)
        inside = all(low <= int(value) < end for value in values)
        assert few_integers.range_test(low, end, array)(array) == inside, (low, end, array)
        passed += inside
    assert 500 < passed < 1500


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (few_integers.MOST,)])
@pytest.mark.parametrize("low", [0, -4])
def test_arrays_of_every_shape_are_read(shape, low):
    inside = jnp.full(shape, 3)
    test = few_integers.range_test(low, 4, inside)
    assert test(inside)
    for wrong in (4, low - 1):
        outside = inside.reshape(-1).at[-1].set(wrong).reshape(shape)
        assert not test(outside)
        assert not test(np.asarray(outside))


def test_values_are_those_of_a_computation_that_runs():
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 40, lambda _, x: x @ x, x)[0, :4].astype(int) + 9)
    x = jnp.zeros((500, 500))
    assert not few_integers.range_test(0, 9, slow(x))(slow(x))


@pytest.mark.parametrize(
    "array",
    [np.zeros(0, int), np.zeros(few_integers.MOST + 1, int), np.zeros(3, np.uint8), np.ones(3)],
)
def test_other_arrays_have_no_test(array):
    assert few_integers.range_test(0, 4, array) is None


def test_an_array_in_parts_does_not_pass():
    test = few_integers.range_test(0, 4, np.zeros(3, int))
    assert not test(object())
    deleted = jnp.zeros(3, int)
    deleted.delete()
    assert not test(deleted)

"""The digest of a result."""

import jax.numpy as jnp
import numpy as np
import pytest

from conformance import bits


@pytest.mark.parametrize(
    "other",
    [
        np.array([-0.0, 1.0], np.float32),
        np.array([0.0, 1.0], np.float64),
        np.array([[0.0, 1.0]], np.float32),
    ],
    ids=["sign of zero", "dtype", "shape"],
)
def test_a_digest_tells_apart_arrays_that_compare_equal(other):
    assert bits.digest(np.array([0.0, 1.0], np.float32)) != bits.digest(other)


def test_a_digest_is_of_every_part_and_of_any_kind_of_array():
    x = np.arange(3, dtype=np.float32)
    assert bits.digest((x, [x, x])) == bits.digest((x, x, x)) == bits.digest([jnp.array(x)] * 3)
    assert bits.digest((x, x)) != bits.digest(x)

"""Stand-ins for functions of ``jax.numpy``: the same results, in fewer equations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._core import lax_functions

X = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
CHOICES = {
    "arrays of one type": (X > 2, X, -X),
    "a number": (X > 2, X, 0),
    "rows": (X > 2, X[0], jnp.int32(7)),
    "a condition of one element": (jnp.bool_(True), X, X[0]),
}


@pytest.mark.parametrize("name", CHOICES)
def test_where_chooses_as_jax_numpy_does(name):
    operands = CHOICES[name]
    result, expected = lax_functions.where(*operands), jnp.where(*operands)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)
    assert "jit" not in str(jax.make_jaxpr(lax_functions.where)(*operands))


@pytest.mark.parametrize("value", [0, -1.5, True])
def test_filled_is_full_like(value):
    result, expected = lax_functions.filled(X, value), jnp.full_like(X, value)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_a_number_has_the_dtype_of_the_array():
    assert lax_functions.number(X, 3).dtype == X.dtype
    assert lax_functions.number(X, jnp.int32(3)).dtype == X.dtype

"""scatter alone; test_scatter_corner.py tests it with scatter_add and scatter_reduce."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl

complete = pytest.mark.usefixtures("complete")


#: A number, the dtype of the input, and the element that is written.
NUMBERS = [
    (2.5, np.float32, 2.5),
    (2, np.float16, 2),
    (np.float32(2.5), np.float32, 2.5),
    (2.5, jnp.bfloat16, 2.5),
    (-2.5, np.int32, -2),
    (True, np.int8, 1),
    (-1, np.uint8, 255),
    (0.5, bool, True),
    (math.inf, np.float16, math.inf),
    (1 + 2j, np.complex64, 1 + 2j),
    (2**40, np.float32, 2.0**40),
    (2j, bool, True),
]


@complete
def test_a_number_as_src():
    index = np.array([2, 1, 2])

    def forms(value, dtype, want):
        input = jnp.array([1, 0, 1], dtype)
        return [
            impl.scatter(input, 0, index, value),
            impl.scatter(input, 0, index, value=value),
            impl.scatter(input, 0, index, value=np.asarray(want, dtype)),
        ]

    results = jax.jit(lambda: [forms(*number) for number in NUMBERS])()
    for (value, dtype, want), written in zip(NUMBERS, results, strict=True):
        for got in written:
            assert got.dtype == dtype
            assert got.tolist() == [1, want, want], value
    ints = np.array([1, 0, 1], np.int32)
    assert impl.scatter(ints, 0, index, -2.5, reduce="add").tolist() == [1, -2, -3]
    assert impl.scatter(ints, 0, index, value=-2.5, reduce="multiply").tolist() == [1, 0, 4]


@complete
def test_a_number_that_is_traced():
    def function(x, v):
        return impl.scatter(x, 0, np.array([2, 1, 2]), value=v)

    assert jax.jit(function)(jnp.ones(4), 3).tolist() == [1, 3, 3, 1]
    assert jax.grad(lambda v: (function(jnp.ones(4), v) * jnp.arange(4.0)).sum())(3.0) == 3


@complete
@pytest.mark.usefixtures("lowering")
def test_the_gradient_belongs_to_the_write_that_stayed():
    index, weight = np.array([2, 0, 2, 3, 2]), np.array([1, 10, 100, 1000], np.float32)

    @jax.jit
    def gradients(x, s):
        return jax.vjp(lambda x, s: impl.scatter(x, 0, index, s), x, s)[1](jnp.asarray(weight))

    of_input, of_source = gradients(np.ones(4, np.float32), np.ones(5, np.float32))
    assert of_input.tolist() == [0, 10, 0, 0]
    assert of_source.tolist() == [0, 1, 0, 1000, 100]

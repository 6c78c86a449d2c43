"""The checks of numbers, their conversions, and the messages of their errors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._core import number_arguments


@pytest.mark.parametrize(
    ("value", "dtype", "result"),
    [
        (2.7, np.int32, 2),
        (-1, np.uint8, 255),
        (0, bool, False),
        (1.5, np.float16, 1.5),
        (2, np.complex64, 2),
        (np.int8(3), np.float32, 3),
        (jnp.int32(7), np.float32, 7),
    ],
)
def test_a_number_is_converted(value, dtype, result):
    converted = number_arguments.number_as("op", "value", value, dtype)
    assert (converted.dtype, converted.shape) == (np.dtype(dtype), ())
    assert converted == result


@pytest.mark.parametrize(
    ("check", "error", "message"),
    [
        (lambda: number_arguments.number("op", "k", "a"), TypeError, "must be Number, not str"),
        (
            lambda: number_arguments.number_as("op", "k", 300, np.uint8),
            RuntimeError,
            "to uint8 without overflow, got 300",
        ),
        (
            lambda: number_arguments.number_as("op", "k", 1j, np.float32),
            RuntimeError,
            "to float32 without overflow",
        ),
        (
            lambda: number_arguments.number_as("op", "k", np.complex64(1j), np.float32),
            RuntimeError,
            "got an array of complex64|got .*1j",
        ),
    ],
)
def test_errors_name_the_op_and_what_is_allowed(check, error, message):
    with pytest.raises(error, match=message) as caught:
        check()
    assert str(caught.value).startswith("op()")


def test_one_is_known_to_be_one():
    assert all(map(number_arguments.is_one, (1, 1.0, 1 + 0j)))
    assert not any(map(number_arguments.is_one, (2, "1", np.ones(1))))
    assert not jax.jit(lambda x: jnp.asarray(number_arguments.is_one(x)))(1)

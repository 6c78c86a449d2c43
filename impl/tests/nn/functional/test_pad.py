"""pad: values that it converts, copies of bits, and bad arguments.

Tests: impl.nn.functional._padding.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits

pad = impl.nn.functional.pad
pytestmark = pytest.mark.usefixtures("complete")

MODES = ("reflect", "replicate", "circular")


@pytest.mark.parametrize(
    ("dtype", "value", "converted"),
    [
        (np.int32, 1.7, 1),
        (np.int8, -128, -128),
        (np.uint8, 255, 255),
        (bool, 2.0, True),
        (np.float16, 1.5, 1.5),
        (jnp.bfloat16, True, 1),
        (np.complex64, np.float32(2), 2),
        (np.int32, jnp.float32(3.7), 3),
        (np.float32, np.array(2), 2),
    ],
)
def test_a_constant_is_converted_to_the_dtype_of_the_input(dtype, value, converted):
    got = pad(np.ones(1, dtype), (1, 0), value=value)
    assert got.dtype == dtype
    assert got.tolist() == np.array([converted, 1], dtype).tolist()


def test_a_value_may_be_traced_and_has_no_derivative():
    def call(value):
        return pad(jnp.ones(3), (2, 1), value=value)

    assert jax.jit(call)(jnp.float32(4)).tolist() == [4, 4, 1, 1, 1, 4]
    assert jax.vmap(call)(jnp.arange(2.0))[:, 0].tolist() == [0, 1]
    assert jax.grad(lambda value: call(value).sum())(1.0) == 0


DTYPES = [
    np.float16,
    jnp.bfloat16,
    np.float32,
    np.int8,
    np.uint8,
    np.int16,
    np.int32,
    np.uint32,
    np.complex64,
]


@pytest.mark.parametrize("mode", MODES)
def test_bits_are_copied(mode):
    """The elements are NaNs of all kinds, subnormals and the greatest integers."""
    patterns = np.random.default_rng(0).integers(0, 256, 2 * 3 * 5 * 8, np.uint8)
    dtypes = [*DTYPES, bool] if mode == "circular" else DTYPES
    arrays = []
    for dtype in dtypes:
        size = np.dtype(dtype).itemsize
        raw = patterns % 2 == 1 if dtype is bool else patterns[: 30 * size].view(dtype)
        arrays.append(raw[:30].reshape(2, 3, 5))
    positions = np.arange(30, dtype=np.int32).reshape(2, 3, 5)
    program = jax.jit(lambda arrays: [pad(x[None], (2, 3, -1, 2), mode)[0] for x in arrays])
    *results, copied = program([*arrays, positions])
    for x, out in zip(arrays, results, strict=True):
        want = x.reshape(-1)[copied].view(np.uint8)
        assert_same_bits(np.asarray(out).view(np.uint8), want)

"""pad: values that it converts, copies of bits, and bad arguments.

Tests: impl.nn.functional._padding.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import ones
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.refusals import Call, bad_arguments

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


L, HW, DHW = ones(1, 2, 4), ones(1, 2, 3, 4), ones(1, 2, 2, 3, 4)
#: input, positional arguments, options, exception, fragment of the message
BAD: list[Call] = [
    (L, (1,), TypeError, "'pad' must be tuple of ints, not int"),
    (L, ("11",), TypeError, "'pad' must be tuple of ints, not str"),
    (L, ((1.0, 1),), TypeError, "'pad[0]' must be int, not float"),
    (L, ((True, 1),), TypeError, "'pad[0]' must be int, not bool"),
    (L, ((1,),), RuntimeError, "divisible by 2, but got [1]"),
    (L, ((1,), "reflect"), RuntimeError, "divisible by 2"),
    (L, ((1,) * 8,), RuntimeError, "padding length 8 and input of dimension 3"),
    (L, ((1,) * 8, "circular"), RuntimeError, "padding length 8"),
    (np.float32(1), ((1, 1),), RuntimeError, "input of dimension 0"),
    (L, ((1, 1), "mirror"), NotImplementedError, "'circular', but got 'mirror'"),
    (L, ((1, 1), None), TypeError, "'mode' must be str, not NoneType"),
    (L, ((1, 1),), {"value": "0"}, TypeError, "'value' must be Number, not str"),
    (L, ((1, 1),), {"value": 1j}, TypeError, "'value' must be float, not complex"),
    (L, ((1, 1), "reflect", 1.0), RuntimeError, "'reflect' doesn't take in value"),
    (L.astype(np.int8), ((1, 1),), {"value": 128}, RuntimeError, "to int8 without overflow"),
    (L.astype(np.uint8), ((1, 1),), {"value": -1}, RuntimeError, "to uint8 without overflow"),
    (L.astype(int), ((1, 1),), {"value": float("nan")}, RuntimeError, "without overflow"),
    (L.astype(np.float16), ((1, 1),), {"value": 1e6}, RuntimeError, "to float16"),
    (L, ((-3, -2),), RuntimeError, "(-3, -2) of dimension 2 with size 4"),
    (L, ((-5, 6),), RuntimeError, "removes more than there is"),
    *[
        (*call, {}, error, message)
        for mode in MODES
        for call, error, message in (
            ((L, ((), mode)), NotImplementedError, "shape [1, 2, 4] and a pad of length 0"),
            ((L[0, 0], ((1, 1), mode)), NotImplementedError, "shape [4]"),
            ((HW, ((1, 1), mode)), NotImplementedError, "shape [1, 2, 3, 4]"),
            ((HW[0, 0], ((1,) * 4, mode)), NotImplementedError, "pad of length 4"),
            ((DHW, ((1,) * 4, mode)), NotImplementedError, "pad of length 4"),
            ((ones(1, 1, 1, 1, 1, 1), ((0,) * 8, mode)), NotImplementedError, "length 8"),
            ((L, ((-3, -2), mode)), RuntimeError, "too small, for the calculated output size"),
            ((HW, ((1, 1, -2, -2), mode)), RuntimeError, "[3, 4] is too small"),
        )
    ],
    *[
        (*call, {}, error, message)
        for mode in ("reflect", "replicate")
        for call, error, message in (
            ((L > 0, ((1, 1), mode)), NotImplementedError, "not implemented for bool"),
            ((L[:, :0], ((1, 1), mode)), RuntimeError, "but got: [1, 0, 4]"),
            ((L[:, :, :0], ((1, 1), mode)), RuntimeError, "but got: [1, 2, 0]"),
            ((L[0, :0], ((1, 1), mode)), RuntimeError, "but got: [0, 4]"),
            ((L, ((-2, -2), mode)), RuntimeError, "is [0]"),
        )
    ],
    (L, ((4, 0), "reflect"), RuntimeError, "padding (4, 0) of size 4"),
    (L, ((0, 4), "reflect"), RuntimeError, "padding (0, 4) of size 4"),
    (HW, ((1, 1, 3, 1), "reflect"), RuntimeError, "padding (3, 1) of size 3"),
    (DHW, ((1, 1, 1, 1, 1, 2), "reflect"), RuntimeError, "padding (1, 2) of size 2"),
    (L, ((5, 0), "circular"), RuntimeError, "more than once: (5, 0) of size 4"),
    (HW, ((0, 0, 0, 4), "circular"), RuntimeError, "more than once: (0, 4) of size 3"),
    (L[:, :, :0], ((1, 0), "circular"), RuntimeError, "of size 0"),
]
#: Arguments with which PyTorch reads uninitialized memory, or for which it has another exception.
UNCHECKED: list[Call] = [
    ([1.0], ((1, 1),), TypeError, "'input' must be"),
    (L, ((-3, 3), "circular"), RuntimeError, "more than once: (-3, 3) of size 4"),
    (L, ((3, -2), "circular"), RuntimeError, "more than once: (3, -2) of size 4"),
]
ALL, OWN = ([((x, *given), *rest) for x, given, *rest in calls] for calls in (BAD, UNCHECKED))
TestBadArguments = bad_arguments(ALL, OWN, "pad")

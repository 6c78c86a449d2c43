"""index_select: values, bits of its gradient, bad arguments, and indices that are out of range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import ONE, SCALAR, SHORT, SQUARE, V, at
from impl.tests.ops._scatters import SHAPES, contributions, drawn
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import small, with_length
from impl.tests.support.programs import run_together
from impl.tests.support.refusals import BadArguments, Call
from impl.tests.support.sums import in_order
from impl.tests.support.values import assert_reference_is_pytorch, compute

complete = pytest.mark.usefixtures("complete")


def select(x, i):
    return impl.index_select(x, 0, i)


def reference(input, dim, index):
    out = np.take(np.atleast_1d(input), index, dim)
    return out.reshape(with_length(input.shape, dim, len(index)))


def cases():
    for shape, dim, count in SHAPES:
        input, _, _, index = drawn(shape, dim, count)
        yield f"{shape}, dim {dim}", ((input, dim, index), {})


def assert_reads(calls):
    for name, got in compute(impl.index_select, calls).items():
        assert_same_bits(got, reference(*calls[name][0]), name)


@complete
def test_values():
    assert_reads(dict(cases()))


def test_the_mode_off():
    assert_reads({name: case for name, case in cases() if name.startswith("(2, 3, 4), dim 1")})


def test_the_reference_is_pytorch(torch):
    assert_reference_is_pytorch(torch, torch.index_select, reference, dict(cases()))


NO_INDEX = np.zeros(0, np.int64)


@complete
def test_empty_arrays():
    x = np.ones((3, 2), np.float32)
    assert impl.index_select(x, 0, NO_INDEX).shape == (0, 2)
    assert impl.index_select(x[:, :0], 0, at(1, 1)).shape == (2, 0)
    gradient = jax.grad(lambda x: impl.index_select(x, 0, NO_INDEX).sum())(x)
    assert gradient.tolist() == np.zeros((3, 2)).tolist()


@complete
def test_dtypes():
    dtypes = [np.float16, jnp.bfloat16, np.int8, np.int32, np.uint32, bool, np.complex64]
    inputs = {dtype.__name__: small((3, 2), dtype, 0, 4) for dtype in dtypes}
    calls = {name: (lambda x: select(x, at(2, 0, 2, 1)), x) for name, x in inputs.items()}
    for name, got in run_together(calls).items():
        assert_same_bits(got, inputs[name][[2, 0, 2, 1]], name)


def test_x64():
    with jax.enable_x64(True):
        assert select(np.ones((3, 2)), np.array([1], np.int32)).dtype == np.float64


@complete
@pytest.mark.usefixtures("lowering")
def test_bits_of_the_gradient():
    initial, index, weight = contributions(5, 3072, 3)
    few, zeros = np.array([0, 0, 2]), np.full(3, -0.0, np.float32)
    results = run_together(
        {
            "sums": (
                jax.grad(lambda x, i, w: (select(x, i) * w).sum()),
                initial,
                index,
                weight,
            ),
            "zeros": (lambda w: jax.vjp(lambda x: select(x, few), w)[1](w)[0], zeros),
        }
    )
    assert_same_bits(results["sums"], in_order(np.zeros_like(initial), index, weight))
    # A constant initial zero is added: 0 + -0 is 0.
    assert_same_bits(results["zeros"], np.zeros(3, np.float32))


# Bad arguments, and indices that are out of range.

CALLS: list[Call] = [
    ("index_select", (V, 1, ONE), {}, IndexError, "but got 1"),
    ("index_select", (V, 1.0, ONE), {}, TypeError, "'dim' must be int"),
    ("index_select", (V, 0, [0]), {}, TypeError, "'index' must be"),
    ("index_select", (V, 0, SHORT), {}, RuntimeError, "for index but got: int16"),
    ("index_select", (V, 0, SQUARE), {}, IndexError, "to be a vector"),
    ("index_select", (V, 0, at(0, 3)), {}, IndexError, "index 3 is out of bounds"),
    ("index_select", (V, 0, at(-1)), {}, IndexError, "index -1 is out of bounds"),
    ("index_select", (SCALAR, 0, at(0, 0)), {}, RuntimeError, "only 1 value, got 2"),
    ("index_select", (SCALAR, 0, at(1)), {}, IndexError, "out of bounds"),
]


class TestBadArguments(BadArguments):
    calls = CALLS

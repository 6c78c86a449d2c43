"""gather: values, bits of its gradient, bad arguments, and indices that are out of range.

Tests: impl._primitives.gather.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import ONE, POINT, SCALAR, SHORT, SQUARE, M, V, at
from impl.tests.ops._scatters import SHAPES, contributions, drawn
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import small
from impl.tests.support.programs import run_together
from impl.tests.support.references import gathered
from impl.tests.support.refusals import BadArguments, Call
from impl.tests.support.sums import in_order
from impl.tests.support.values import assert_reference_is_pytorch, compute

complete = pytest.mark.usefixtures("complete")


def cases():
    for shape, dim, count in SHAPES:
        input, _, index, _ = drawn(shape, dim, count)
        yield f"{shape}, dim {dim}", ((input, dim, index), {})
    rng = np.random.default_rng(0)
    for dim in (0, 1):
        input, index = rng.standard_normal((4, 5)).astype(np.float32), rng.integers(0, 4, (2, 3))
        yield f"an index smaller than the input, dim {dim}", ((input, dim, index), {})


def assert_reads(calls):
    for name, got in compute(impl.gather, calls).items():
        assert_same_bits(got, gathered(*calls[name][0]), name)


@complete
def test_values():
    assert_reads(dict(cases()))


def test_the_mode_off():
    assert_reads({name: case for name, case in cases() if name.startswith("(2, 3, 4), dim 1")})


def test_the_reference_is_pytorch(torch):
    assert_reference_is_pytorch(torch, torch.gather, gathered, dict(cases()))


@complete
def test_a_number_stands_for_an_array_of_one_element():
    for input, index in itertools.product([(), (1,)], [(), (1,)]):
        got = impl.gather(np.ones(input), 0, np.zeros(index, int))
        assert got.shape == index
        assert got.tolist() == np.ones(index).tolist()


NO_INDEX = np.zeros(0, np.int64)


@complete
def test_empty_arrays():
    x = np.ones((3, 2), np.float32)
    assert impl.gather(x, 0, NO_INDEX).shape == (0,)
    assert impl.gather(x, 0, np.zeros((0, 2), int)).shape == (0, 2)
    gradient = jax.grad(lambda x: impl.gather(x, 0, np.zeros((0, 2), int)).sum())(x)
    assert gradient.tolist() == np.zeros((3, 2)).tolist()


@complete
def test_dtypes():
    index = np.array([[2, 1], [0, 2], [2, 0], [1, 2]])
    dtypes = [np.float16, jnp.bfloat16, np.int8, np.int32, np.uint32, bool, np.complex64]
    inputs = {dtype.__name__: small((3, 2), dtype, 0, 4) for dtype in dtypes}
    calls = {name: (lambda x: impl.gather(x, 0, index), x) for name, x in inputs.items()}
    for name, got in run_together(calls).items():
        assert_same_bits(got, gathered(inputs[name], 0, index), name)


@complete
def test_x64():
    with jax.enable_x64(True):
        x = np.random.default_rng(0).standard_normal((3, 2))
        index = np.array([[2, 1], [0, 2], [2, 0]])
        assert_same_bits(impl.gather(x, 0, index), gathered(x, 0, index))


@complete
def test_integers_are_differentiated_through():
    index = np.array([[2, 2, 2], [0, 1, 0], [2, 0, 2], [1, 1, 1], [2, 2, 0]])

    def function(x, i):
        counts = impl.bincount(i, minlength=3)
        best = impl.kthvalue(i, 1).indices
        return (impl.gather(x, 0, index) * impl.cumsum(counts, 0)[2]).sum() + best

    gradient = jax.grad(function)(np.ones((3, 3), np.float32), np.array([2, 0, 2, 1, 2]))
    want = np.zeros((3, 3), np.float32)
    for row in index:
        want[row, [0, 1, 2]] += 5
    assert_same_bits(gradient, want)


@complete
@pytest.mark.usefixtures("lowering")
def test_bits_of_the_gradient():
    initial, index, weight = contributions(3, 1030, 2, np.float16)
    x, weight = initial[:, :1], weight[:, :1]
    pullback = jax.jit(lambda x, w: jax.vjp(lambda x: impl.gather(x, 1, index[None]), x)[1](w)[0])
    want = in_order(np.zeros_like(x), index, weight)
    assert_same_bits(pullback(x.T, weight.T), want.T)


# Bad arguments, and indices that are out of range.

CALLS: list[Call] = [
    ("gather", (V, 2, ONE), {}, IndexError, "but got 2"),
    ("gather", (V, None, ONE), {}, TypeError, "'dim' must be int, not NoneType"),
    ("gather", ([1.0], 0, ONE), {}, TypeError, "'input' must be"),
    ("gather", (V, 0, SHORT), {}, RuntimeError, "for index but got: int16"),
    ("gather", (M, 0, ONE), {}, RuntimeError, "as many dimensions"),
    ("gather", (M, 0, POINT), {}, RuntimeError, "as many dimensions"),
    ("gather", (M, 1, POINT), {}, RuntimeError, "as many dimensions"),
    ("gather", (SCALAR, 0, SQUARE), {}, RuntimeError, "as many dimensions"),
    ("gather", (M, 0, np.zeros((1, 3), int)), {}, RuntimeError, "index [1, 3] to be no larger"),
    ("gather", (V, 0, at(0, 3)), {}, RuntimeError, "index 3 is out of bounds"),
    ("gather", (V, 0, at(-1)), {}, RuntimeError, "position [0]"),
    ("gather", (V[:0], 0, ONE), {}, RuntimeError, "none is allowed"),
]


class TestBadArguments(BadArguments):
    calls = CALLS


def test_a_known_index_is_checked_under_jit_too():
    with pytest.raises(RuntimeError, match="index 3 is out of bounds"):
        jax.jit(lambda x: impl.gather(x, 0, at(3)))(V)

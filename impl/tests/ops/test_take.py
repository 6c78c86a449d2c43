"""take: values, bad arguments, and indices that are out of range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import V, at
from impl.tests.ops._indices import NO_INDEX, X
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.programs import run_together
from impl.tests.support.refusals import BadArguments, Call
from impl.tests.support.values import assert_reference_is_pytorch, compute

complete = pytest.mark.usefixtures("complete")


def reference(x, index):
    return x.reshape(-1)[index]


def cases():
    rng = np.random.default_rng(0)
    indices = [np.array(0), NO_INDEX, np.array([[0, -1], [-1, 0]])]
    for shape in [(), (5,), (2, 1, 2, 3, 2)]:
        x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
        for index in indices:
            yield f"{shape} at {index.shape}", ((x, index), {})
    yield "many", ((X, rng.integers(-120, 120, (3, 4))), {})


@complete
def test_values():
    calls = dict(cases())
    for name, got in compute(impl.take, calls).items():
        assert_same_bits(got, reference(*calls[name][0]), name)


def test_the_mode_off():
    index = np.array([[0, -1], [-1, 0]])
    assert_same_bits(jax.jit(impl.take)(X, index), reference(X, index))


def test_the_reference_is_pytorch(torch):
    assert_reference_is_pytorch(torch, torch.take, reference, dict(cases()))


@complete
def test_empty_arrays():
    assert impl.take(X[:0], NO_INDEX.reshape(2, 0)).shape == (2, 0)


@complete
def test_dtypes():
    index = np.array([2, 0, -1])
    dtypes = [np.float16, jnp.bfloat16, np.int8, np.uint32, bool, np.complex64]
    arrays = {d.__name__: (np.arange(6).reshape(3, 2) % 4).astype(d) for d in dtypes}
    results = run_together({name: (lambda x: impl.take(x, index), x) for name, x in arrays.items()})
    for name, got in results.items():
        assert_same_bits(got, reference(arrays[name], index), name)


def test_x64():
    x, index = np.random.default_rng(0).standard_normal((4, 3)), np.array([3, -4, 3])
    with jax.enable_x64(True):
        assert_same_bits(jax.jit(impl.take)(x, index), reference(x, index))


CALLS: list[Call] = [
    ("take", (V, at(3)), {}, IndexError, "index 3 is out of bounds for an input of 3 elements"),
    ("take", (V, at(0, -4)), {}, IndexError, "at position [1]"),
    ("take", (V[:0], at(0)), {}, IndexError, "none is allowed"),
    ("take", (V, at(0.0)), {}, RuntimeError, "for index but got: float64"),
    ("take", (V, at(True)), {}, RuntimeError, "for index but got: bool"),
    ("take", (V, [0]), {}, TypeError, "'index' must be"),
    ("take", ([0.0], at(0)), {}, TypeError, "'input' must be"),
]


class TestBadArguments(BadArguments):
    calls = CALLS

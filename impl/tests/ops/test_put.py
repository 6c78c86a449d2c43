"""put: values, bits, gradients, bad arguments, and indices that are out of range."""

import jax
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import V, at, ones
from impl.tests.ops._indices import (
    IN_RANGE,
    INDEX,
    MANY,
    NO_INDEX,
    SIZE,
    WRAPPED,
    X,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import spread
from impl.tests.support.programs import run_together
from impl.tests.support.references import written
from impl.tests.support.refusals import BadArguments, Call
from impl.tests.support.sums import in_order
from impl.tests.support.values import assert_reference_is_pytorch, compute
from spec import oracles

complete = pytest.mark.usefixtures("complete")
both_kinds = pytest.mark.parametrize("accumulate", [False, True], ids=["write", "add"])


def reference(x, index, source, accumulate):
    return written(x.reshape(-1), index, source, accumulate=accumulate).reshape(x.shape)


def cases():
    rng = np.random.default_rng(0)
    indices = [np.array(0), NO_INDEX, np.array([[0, -1], [-1, 0]], np.int32)]
    for accumulate in (False, True):
        for shape in [(), (5,), (2, 1, 2, 3, 2)]:
            x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
            for index in indices:
                # A source of any shape.
                source = np.arange(1, index.size + 1, dtype=np.float32)
                name = f"{shape} at {index.shape}, accumulate={accumulate}"
                yield name, ((x, index, source, accumulate), {})
    flat, source = rng.integers(-120, 120, (3, 4)), rng.integers(-9, 9, (4, 3)).astype(np.float32)
    yield "many", ((X, flat, source, True), {})


@complete
def test_values():
    calls = dict(cases())
    for name, got in compute(impl.put, calls).items():
        assert_same_bits(got, reference(*calls[name][0]), name)


def test_the_mode_off():
    arguments = X, np.array([[0, -1], [-1, 0]]), np.arange(4, dtype=np.float32)
    got = jax.jit(lambda *a: impl.put(*a, accumulate=True))(*arguments)
    assert_same_bits(got, reference(*arguments, accumulate=True))


def test_the_reference_is_pytorch(torch):
    # PyTorch wants an index and a source of int64 and of one number of elements.
    def put(x, index, source, accumulate):
        return x.put(index.long(), source, accumulate)

    assert_reference_is_pytorch(torch, put, reference, dict(cases()))


@complete
def test_empty_arrays():
    assert impl.put(X[:0], NO_INDEX, X[:0].reshape(-1)).shape == (0, 3, 4, 5)


def test_x64():
    x = np.random.default_rng(0).standard_normal((4, 3))
    with jax.enable_x64(True):
        got = jax.jit(lambda x: impl.put(x, np.zeros(3, int), x[0], True))(x)
        assert got.dtype == np.float64
        np.testing.assert_allclose(got[0, 0], x[0, 0] + x[0].sum(), rtol=1e-13)


@complete
@both_kinds
@pytest.mark.usefixtures("lowering")
def test_bits(accumulate):
    oracle, rng = in_order if accumulate else oracles.last_write, np.random.default_rng(0)
    x, values = spread(rng, (2, 3, 2)), spread(rng, len(MANY))
    want = oracle(x.reshape(-1), MANY % x.size, values).reshape(x.shape)
    got = jax.jit(lambda x, v: impl.put(x, MANY, v, accumulate))(x, values)
    assert_same_bits(got, want)


def test_facts():
    with impl.testing.questions() as asked:
        impl.put(np.ones(3), np.arange(2), np.ones(2), unique_indices=True)
    ((question),) = asked
    facts = {"unique_indices": True, "accumulate": False}
    assert {name: question.facts[name] for name in facts} == facts


CALLS: list[Call] = [
    ("put", (V, at(3), ones(1)), {}, IndexError, "for an input of 3 elements"),
    ("put", (V, at(-4), ones(1)), {}, IndexError, "allowed are -3 to 2"),
    ("put", (V[:0], at(0), ones(1)), {}, IndexError, "none is allowed"),
    ("put", (V, at(0, 1), ones(1)), {}, IndexError, "got 1 and 2"),
    ("put", (V, at(0), ones(1, dtype=np.int32)), {}, RuntimeError, "and source (int32)"),
    ("put", (V, at(0.0), ones(1)), {}, RuntimeError, "but got: float64"),
    ("put", (V, at(0), 1.0), {}, TypeError, "'source' must be"),
    ("put", (V, at(0), ones(1), None), {}, TypeError, "'accumulate' must be bool"),
]
UNLIKE_TORCH: list[Call] = [
    ("put", (V, at(0), ones(1)), {"unique_indices": None}, TypeError, "unique_indices"),
]
TORCH_FUNCTIONS = {"put": lambda x, *arguments: x.put(*arguments)}


class TestBadArguments(BadArguments):
    calls = CALLS
    unlike_torch = UNLIKE_TORCH
    torch_functions = TORCH_FUNCTIONS


@pytest.mark.usefixtures("path")
def test_writes_out_of_range_are_dropped():
    source = np.arange(1, len(INDEX) + 1, dtype=np.float32)
    x = np.full(SIZE, 100, np.float32)
    # The path decides which of several writes stays, so all of them write one value.
    results = run_together(
        {
            "add": (lambda x, i, s: impl.put(x, i, s, True), x, INDEX, source),
            "write": (impl.put, x, INDEX, np.full_like(source, 7)),
            "no elements": (impl.put, V[:0], at(0, -1), ones(2)),
        }
    )
    want = x.copy()
    np.add.at(want, WRAPPED[IN_RANGE], source[IN_RANGE])
    assert_same_bits(results["add"], want)
    want = x.copy()
    want[WRAPPED[IN_RANGE]] = 7
    assert_same_bits(results["write"], want)
    assert results["no elements"].shape == (0,)

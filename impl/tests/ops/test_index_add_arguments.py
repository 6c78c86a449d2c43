"""Bad arguments of index_add, and indices that are out of range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import FLOATS, ONE, SHORT, SQUARE, M, V, at, ones
from impl.tests.ops._scatters import IN_RANGE, INDEX, SIZE, WIDE
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.programs import run_together
from impl.tests.support.refusals import BadArguments, Call

complete = pytest.mark.usefixtures("complete")


def add(x, i, s):
    return impl.index_add(x, 0, i, s)


CALLS: list[Call] = [
    ("index_add", (V, 1, ONE, ones(1)), {}, IndexError, "range of [-1, 0], but got 1"),
    ("index_add", (V, -2, ONE, ones(1)), {}, IndexError, "but got -2"),
    ("index_add", (V, 0.0, ONE, ones(1)), {}, TypeError, "'dim' must be int, not float"),
    ("index_add", (V, True, ONE, ones(1)), {}, TypeError, "'dim' must be int, not bool"),
    ("index_add", ([0.0], 0, ONE, ones(1)), {}, TypeError, "'input' must be"),
    ("index_add", (V, 0, [0], ones(1)), {}, TypeError, "'index' must be"),
    ("index_add", (V, 0, ONE, [1.0]), {}, TypeError, "'source' must be"),
    ("index_add", (V, 0, SHORT, ones(1)), {}, RuntimeError, "int32/int64 for index but got: int16"),
    ("index_add", (V, 0, FLOATS, ones(1)), {}, RuntimeError, "for index but got: float32"),
    ("index_add", (V, 0, SQUARE, ones(1)), {}, IndexError, "to be a vector, but got dim: 2"),
    ("index_add", (M, 0, at(0, 3), ones(2, 2)), {}, RuntimeError, "3 is out of bounds"),
    ("index_add", (M, 0, at(-1), ones(1, 2)), {}, RuntimeError, "-1 is out of bounds"),
    ("index_add", (M, 1, at(2), ones(3, 1)), {}, RuntimeError, "dimension 1 with size 2"),
    ("index_add", (V, 0, ONE, ones(1, dtype=np.float16)), {}, RuntimeError, "float32) and source"),
    ("index_add", (M, 0, ONE, ones(1, 3)), {}, RuntimeError, "source.shape = [1, 3]"),
    ("index_add", (M, 0, ONE, ones(1)), {}, RuntimeError, "source.shape = [1]"),
    ("index_add", (M, 0, at(0, 1), ones(1, 2)), {}, RuntimeError, "Number of indices (2)"),
    ("index_add", (V, 0, ONE, ones(1)), {"alpha": "2"}, TypeError, "'alpha' must be Number"),
    ("index_add", (V, 0, ONE, ones(1)), {"alpha": 2j}, RuntimeError, "alpha"),
]
UNLIKE_TORCH: list[Call] = [
    # An IndexError in PyTorch, which has a RuntimeError for arrays of more dimensions.
    ("index_add", (V, 0, at(0, 3), ones(2)), {}, RuntimeError, "3 is out of bounds"),
    ("index_add", (V, 0, ONE, ones(1)), {"unique_indices": 1}, TypeError, "unique_indices"),
]


class TestBadArguments(BadArguments):
    calls = CALLS
    unlike_torch = UNLIKE_TORCH


@pytest.mark.usefixtures("path")
def test_updates_out_of_range_are_dropped():
    source = np.arange(1, 21, dtype=np.float32).reshape(10, 2)
    initial = np.full((SIZE, 2), 100, np.float32)
    want = initial.copy()
    np.add.at(want, INDEX[IN_RANGE], source[IN_RANGE])
    counts = np.array([1, 1, 0, 2, 0])
    ones = np.ones(len(INDEX))
    results = run_together(
        {
            "floats": (add, initial, INDEX, source),
            "int32": (add, np.zeros(SIZE, np.int32), INDEX, ones.astype(np.int32)),
            "bool": (add, np.zeros(SIZE, bool), INDEX, ones.astype(bool)),
            "no elements": (add, initial[:0], np.array([0, 1]), source[:2]),
        }
    )
    assert_same_bits(results["floats"], want)
    assert_same_bits(results["int32"], counts.astype(np.int32))
    assert_same_bits(results["bool"], counts.astype(bool))
    assert results["no elements"].shape == (0, 2)


def test_atomic_kernels_drop_what_is_out_of_range():
    source = np.arange(1, 21, dtype=np.float32).reshape(10, 2)
    want = np.zeros((SIZE, 2), np.float32)
    np.add.at(want, INDEX[IN_RANGE], source[IN_RANGE])
    with impl.testing.emulate("cuda"):
        assert_same_bits(jax.jit(add)(np.zeros_like(want), INDEX, source), want)


@complete
def test_gradients_of_dropped_updates_are_zero():
    def loss(s, i):
        return (impl.index_add(jnp.zeros(SIZE), 0, i, s) * jnp.arange(1.0, 6.0)).sum()

    got = np.asarray(jax.jit(jax.grad(loss))(np.ones(len(INDEX), np.float32), INDEX))
    assert got[IN_RANGE].tolist() == [4, 1, 4, 2]
    assert not got[~IN_RANGE].any()


@pytest.mark.usefixtures("path")
def test_a_wide_index_is_not_narrowed_first():
    with jax.enable_x64(True):
        assert jax.jit(add)(np.zeros(3), WIDE, np.ones(3)).tolist() == [0, 1, 0]

"""index_copy: bits, gradients, bad arguments, and indices that are out of range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import ONE, PAIR, SCALAR, M, S, V, at
from impl.tests.ops._scatters import (
    IN_RANGE,
    INDEX,
    SIZE,
    WIDE,
    assert_unique_indices_need_no_order,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.lowerings import LOWERINGS
from impl.tests.support.refusals import BadArguments, Call

complete = pytest.mark.usefixtures("complete")


def copy(x, i, s):
    return impl.index_copy(x, 0, i, s)


@complete
@pytest.mark.parametrize("name", ["native", "seed 1"])
def test_slices_without_updates_keep_their_bits(name):
    initial = np.array([-0.0, 0, np.nan, 7], np.float32)
    initial[2:3] = np.array([0x7FC12345], np.uint32).view(np.float32)
    source = np.array([1, 2, 3], np.float32)
    with LOWERINGS[name]():
        got = jax.jit(lambda x, s: copy(x, np.array([3, 3, 3]), s))(initial, source)
    assert_same_bits(got[:3], initial[:3])


@complete
def test_unique_indices_need_no_order():
    source = np.array([[2.0], [3], [4]], np.float32)
    assert_unique_indices_need_no_order(
        lambda x, **options: impl.index_copy(x, 0, at(2, 0, 3), source, **options),
        np.ones((4, 1), np.float32),
        [3, 1, 2, 4],
        writes=True,
    )


@complete
@pytest.mark.usefixtures("lowering")
def test_the_gradient_belongs_to_the_write_that_stayed():
    index, weight = np.array([2, 0, 2, 3, 2]), np.array([1, 10, 100, 1000], np.float32)

    @jax.jit
    def gradients(x, s):
        return jax.vjp(lambda x, s: copy(x, index, s), x, s)[1](jnp.asarray(weight))

    of_input, of_source = gradients(np.ones(4, np.float32), np.ones(5, np.float32))
    assert of_input.tolist() == [0, 10, 0, 0]
    assert of_source.tolist() == [0, 1, 0, 1000, 100]


# Bad arguments, and indices that are out of range.

I = ONE  # noqa: E741
CALLS: list[Call] = [
    ("index_copy", (V, 0, at(0, 3), PAIR[0]), {}, IndexError, "index 3 is out of bounds"),
    ("index_copy", (M, 0, at(-1), PAIR[:1]), {}, IndexError, "index -1 is out of bounds"),
    ("index_copy", (V, 0, I[None], S), {}, IndexError, "to be a vector"),
    ("index_copy", (V, 0, I.astype(np.int16), S), {}, RuntimeError, "but got: int16"),
    ("index_copy", (V, 0, I, S.astype(np.float16)), {}, RuntimeError, "float32 and float16"),
    ("index_copy", (V, 0, at(0, 1), S), {}, IndexError, "Number of indices (2)"),
    ("index_copy", (V, 0, at(0, 1), SCALAR), {}, IndexError, "one element (got 2)"),
    ("index_copy", (M, 0, I, S), {}, IndexError, "dimensionality must match"),
    ("index_copy", (M, 0, I, SCALAR), {}, RuntimeError, "same slice shapes"),
    ("index_copy", (M, 1, I, S[None]), {}, RuntimeError, "source.shape = [1, 1]"),
    ("index_copy", (V, 0, I, [1.0]), {}, TypeError, "'source' must be"),
]
UNLIKE_TORCH: list[Call] = [
    ("index_copy", (V, 0, I, S), {"unique_indices": 1}, TypeError, "unique_indices"),
]


class TestBadArguments(BadArguments):
    calls = CALLS
    unlike_torch = UNLIKE_TORCH


@pytest.mark.usefixtures("path")
def test_updates_out_of_range_are_dropped():
    source = np.arange(1, 21, dtype=np.float32).reshape(10, 2)
    initial = np.zeros((SIZE, 2), np.float32)
    for program in (jax.jit(copy), jax.jit(lambda x, i, s: impl.index_copy(x.T, 1, i, s.T).T)):
        want = program(initial, INDEX[IN_RANGE], source[IN_RANGE])
        assert_same_bits(program(initial, INDEX, source), want)


def test_atomic_kernels_drop_what_is_out_of_range():
    source = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
    want = np.zeros((SIZE, 2), np.float32)
    want[[0, 2]] = source[[1, 3]]
    with impl.testing.emulate("cuda"):
        got = jax.jit(copy)(np.zeros_like(want), at(-1, 0, SIZE, 2).astype(np.int32), source)
    assert_same_bits(got, want)


@complete
def test_gradients_of_dropped_updates_are_zero():
    source = np.arange(1, 21, dtype=np.float32).reshape(10, 2)

    @jax.jit
    def gradients(i, s):
        outs, pullback = jax.vjp(lambda x, s: copy(x, i, s), jnp.ones((SIZE, 2)), s)
        return pullback(jnp.ones_like(outs))

    of_input, of_source = gradients(INDEX, source)
    assert not np.asarray(of_source)[~IN_RANGE].any()
    want = gradients(INDEX[IN_RANGE], source[IN_RANGE])
    assert_same_bits(of_input, want[0])
    assert_same_bits(of_source[IN_RANGE], want[1])


@complete
@pytest.mark.parametrize("name", ["native", "seed 1"])
def test_a_wide_index_is_not_narrowed_first(name):
    source = np.array([[8.0, 8], [2, 2], [8, 8]])
    with LOWERINGS[name](), jax.enable_x64(True):
        got = jax.jit(copy)(np.ones((3, 2)), WIDE, source)
    assert got.tolist() == [[1, 1], [2, 2], [1, 1]]

"""take: values, bad arguments, and indices that are out of range."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import V, at
from impl.tests.ops._indices import IN_RANGE, INDEX, NO_INDEX, SIZE, WIDE, WRAPPED, X
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


def test_more_elements_than_an_index_counts():
    big = jax.ShapeDtypeStruct((2**16, 2**16), np.int8)
    index = jax.ShapeDtypeStruct((2,), np.int32)
    with pytest.raises(NotImplementedError, match="cannot count 4294967296 elements"):
        jax.eval_shape(impl.take, big, index)
    with jax.enable_x64(True):
        assert jax.eval_shape(impl.take, big, index).shape == (2,)


@complete
def test_reads_out_of_range_give_the_fill_value():
    fills = {np.float32: np.nan, jnp.bfloat16: np.nan, np.int32: -(2**31), np.uint8: 255}
    calls, wanted = {}, {}
    for dtype, fill in {**fills, bool: True}.items():
        x = (np.arange(SIZE) % 2).astype(dtype)
        want = np.full(len(INDEX), fill, dtype)
        want[IN_RANGE] = x[WRAPPED[IN_RANGE]]
        calls[dtype.__name__], wanted[dtype.__name__] = (impl.take, x, INDEX), want
    calls["no elements"] = impl.take, V[:0], at(0, -1)
    wanted["no elements"] = np.full(2, np.nan, np.float32)
    for name, got in run_together(calls).items():
        assert got.dtype == wanted[name].dtype
        np.testing.assert_array_equal(
            got.astype(np.float32), wanted[name].astype(np.float32), err_msg=name
        )


@pytest.mark.usefixtures("path")
def test_gradients_of_reads_out_of_range_are_dropped():
    weight = np.arange(1, len(INDEX) + 1, dtype=np.float32)
    want = np.zeros(SIZE, np.float32)
    np.add.at(want, WRAPPED[IN_RANGE], weight[IN_RANGE])

    @jax.jit
    def gradient(x, i, w):
        return jax.vjp(lambda x: impl.take(x, i), x)[1](w)[0]

    assert_same_bits(gradient(np.ones(SIZE, np.float32), INDEX, weight), want)


def test_a_wide_index_is_not_narrowed_first():
    with jax.enable_x64(True):
        got = jax.jit(impl.take)(np.zeros(3), WIDE)
        assert np.isnan(got).tolist() == [True, False, True, True]
    with pytest.raises(IndexError, match="index 4294967297 is out of bounds"):
        impl.take(V, WIDE)

"""Ops that read or write by an index: dtypes, and indices out of range."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._bad_values import V, at, ones
from impl.tests.ops._indices import (
    IN_RANGE,
    INDEX,
    SIZE,
    WIDE,
    WRAPPED,
    assert_reads_out_of_range_are_filled,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.programs import run_together

complete = pytest.mark.usefixtures("complete")

#: Reads of rows of an array of two columns, and which elements of INDEX are in range.
READS = {
    "gather": (lambda x, i: impl.gather(x.T, 1, i[None].repeat(2, 0)).T, IN_RANGE & (INDEX >= 0)),
    "index_select": (lambda x, i: impl.index_select(x, 0, i), IN_RANGE & (INDEX >= 0)),
    "take": (lambda x, i: jnp.stack([impl.take(column, i) for column in x.T], 1), IN_RANGE),
}
#: Writes of numbers to elements of a vector.
WRITES = {
    "index_put": lambda x, i, s, accumulate=False: impl.index_put(x, (i,), s, accumulate),
    "put": impl.put,
}
FILLS = {np.float32: np.nan, jnp.bfloat16: np.nan, np.int32: -(2**31), np.uint8: 255, bool: True}


@complete
def test_reads_out_of_range_give_the_fill_value():
    calls, wanted = {}, {}
    for op, (read, in_range) in READS.items():
        for dtype, fill in FILLS.items():
            x = (np.arange(2 * SIZE).reshape(SIZE, 2) % 2).astype(dtype)
            want = np.full((len(INDEX), 2), fill, dtype)
            want[in_range] = x[WRAPPED[in_range]]
            calls[op, dtype.__name__], wanted[op, dtype.__name__] = (read, x, INDEX), want
        calls[op, "no elements"] = read, ones(0, 2), at(0, 1)
        wanted[op, "no elements"] = np.full((2, 2), np.nan, np.float32)
    names = {str(name): name for name in calls}
    results = run_together({name: calls[key] for name, key in names.items()})
    for name, got in results.items():
        want = wanted[names[name]]
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32), err_msg=name)


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("op", READS)
def test_gradients_of_reads_out_of_range_are_dropped(op):
    read, in_range = READS[op]
    assert_reads_out_of_range_are_filled([read], in_range)


def test_a_wide_index_is_not_narrowed_first():
    with jax.enable_x64(True):
        reads, writes = jax.jit(
            lambda rows, x, i: (
                [read(rows, i) for read, _ in READS.values()],
                [write(x, i, ones(4), add) for write in WRITES.values() for add in (False, True)],
            )
        )(ones(3, 2), np.zeros(3, np.float32), WIDE)
    for got in reads:
        assert np.isnan(got[:, 0]).tolist() == [True, False, True, True]
    for got in writes:
        assert got.tolist() == [0, 1, 0]
    for read, _ in READS.values():
        with pytest.raises((IndexError, RuntimeError), match="index 4294967297 is out of bounds"):
            read(ones(3, 2), WIDE)


@pytest.mark.parametrize(
    "call",
    [
        impl.take,
        lambda x, i: impl.put(x, i, x[0, :2])[0, :2],
        lambda x, i: impl.index_put(x, (i, i), x[0, :2])[0, :2],
    ],
    ids=["take", "put", "index_put"],
)
def test_more_elements_than_an_index_counts(call):
    big = jax.ShapeDtypeStruct((2**16, 2**16), np.int8)
    index = jax.ShapeDtypeStruct((2,), np.int32)
    with pytest.raises(NotImplementedError, match="cannot count 4294967296 elements"):
        jax.eval_shape(call, big, index)
    with jax.enable_x64(True):
        assert jax.eval_shape(call, big, index).shape == (2,)


@complete
@pytest.mark.parametrize("op", WRITES)
def test_dtypes_of_writes(op):
    calls, wanted = {}, {}
    for dtype in [np.float16, jnp.bfloat16, np.int8, np.uint32, bool, np.complex64]:
        x, two, name = (np.arange(6) % 4).astype(dtype), np.ones(2, dtype), np.dtype(dtype).name
        calls[f"{name}, write"] = lambda x: WRITES[op](x, at(2, -1), x[:2]), x
        wanted[f"{name}, write"] = x[[0, 1, 0, 3, 4, 1]]
        calls[f"{name}, add"] = lambda x, s: WRITES[op](x, at(5, -1), s, True), x, two
        wanted[f"{name}, add"] = x.copy()
        wanted[f"{name}, add"][5] += two[0] + two[1]
    for name, got in run_together(calls).items():
        assert_same_bits(got, wanted[name], name)


@complete
def test_the_gradient_of_a_write_is_that_of_the_one_that_stays():
    index, weight = np.array([1, 2, -2, 1]), np.array([10.0, 20.0, 30.0], np.float32)

    def loss(write, x, s):
        return (write(x, index, s) * weight).sum()

    for write in WRITES.values():
        gradients = jax.grad(functools.partial(loss, write), (0, 1))(V, ones(4))
        assert [gradient.tolist() for gradient in gradients] == [[10, 0, 0], [0, 30, 0, 20]]

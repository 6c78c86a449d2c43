"""Ops that read or write by an index: their arguments, and indices out of range.

Tests: impl.ops._indexing, impl.ops._reads.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._indices import (
    IN_RANGE,
    INDEX,
    NO_INDEX,
    SIZE,
    WIDE,
    WRAPPED,
    V,
    assert_reads_out_of_range_are_filled,
    at,
    ones,
)
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.programs import run_together
from spec import oracles

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


def test_a_known_index_is_checked_under_jit_too():
    with pytest.raises(RuntimeError, match="index 3 is out of bounds"):
        jax.jit(lambda x: impl.gather(x, 0, at(3)))(V)


@pytest.mark.usefixtures("path")
def test_reads_out_of_range_give_the_fill_value_and_no_gradient():
    assert_reads_out_of_range_are_filled(
        [
            lambda x, index: impl.take_along_dim(x, index[:, None], 0),
            lambda x, index: impl.take_along_dim(x.T[None], index[None, None], -1)[0].T,
        ]
    )


def test_a_wide_index_is_not_narrowed_first_of_take_along_dim():
    with jax.enable_x64(True):
        got = jax.jit(lambda x, i: impl.take_along_dim(x, i, 0))(np.zeros(3), WIDE)
        assert np.isnan(got).tolist() == [True, False, True, True]


def test_under_jit_an_axis_without_elements():
    # No index can be in range, and still the program is traced: the value may never be read.
    got = jax.jit(lambda x, i: impl.take_along_dim(x, i, 0))(V[:0], at(0, -1))
    assert np.isnan(got).tolist() == [True, True]


def test_facts():
    with impl.testing.questions() as asked:
        impl.put(np.ones(3), np.arange(2), np.ones(2), unique_indices=True)
    ((question),) = asked
    facts = {"unique_indices": True, "accumulate": False}
    assert {name: question.facts[name] for name in facts} == facts


@pytest.mark.usefixtures("path")
def test_writes_out_of_range_are_dropped():
    source = np.arange(1, len(INDEX) + 1, dtype=np.float32)
    x = np.full(SIZE, 100, np.float32)
    # The path decides which of several writes stays, so all of them write one value.
    results = run_together(
        {
            "add": (lambda x, i, s: impl.put(x, i, s, True), x, INDEX, source),
            "write": (impl.put, x, INDEX, np.full_like(source, 7)),
            "fill": (lambda x, i: impl.index_fill(x, 0, i, 7), x, INDEX),
            "no elements": (impl.put, V[:0], at(0, -1), ones(2)),
        }
    )
    want = x.copy()
    np.add.at(want, WRAPPED[IN_RANGE], source[IN_RANGE])
    assert_same_bits(results["add"], want)
    want = x.copy()
    want[WRAPPED[IN_RANGE]] = 7
    assert_same_bits(results["write"], want)
    assert_same_bits(results["fill"], want)
    assert results["no elements"].shape == (0,)


#: Reads of a vector by a vector of indices, whose gradients are sums by index.
SUMMED = {
    "gather": lambda x, i: impl.gather(x, 0, i),
    "index_select": lambda x, i: impl.index_select(x, 0, i),
    "take": impl.take,
    "take_along_dim": lambda x, i: impl.take_along_dim(x, i, 0),
    "getitem": impl.getitem,
    "embedding": lambda x, i: impl.nn.functional.embedding(i, x[:, None])[:, 0],
    "repeat_interleave": lambda x, i: impl.repeat_interleave(
        x, jnp.bincount(i, length=4), 0, output_size=60
    )[jnp.argsort(jnp.argsort(i))],
}


@pytest.mark.parametrize("dtype", [np.float32, jnp.bfloat16])
def test_gradients_of_reads_are_exact_under_portable(dtype):
    rng = np.random.default_rng(5)
    index = rng.integers(1, 4, (2, 60))
    # Terms of many sizes: a sum that rounds on the way has other bits.
    dots = rng.normal(size=(2, 60)) * 2.0 ** rng.integers(-20, 20, (2, 60))
    # In float32 this sum is rounded to the middle of two numbers of bfloat16.
    index[:, :3], dots[:, :3] = 0, [1, 2**-8, 2**-30]
    dots = dots.astype(dtype)
    sums = map(functools.partial(oracles.nearest_scatter, np.zeros(4, dtype)), index, dots)

    def gradients(index, dots):
        x = jnp.zeros(4, dtype)
        of = {name: jax.vjp(lambda x, f=f: f(x, index), x)[1] for name, f in SUMMED.items()}
        return {name: pullback(dots)[0] for name, pullback in of.items()}

    with impl.deterministic(guarantee="portable"):
        results = jax.jit(jax.vmap(gradients))(index.astype(np.int32), dots)
    want = np.array(list(sums))
    for name, got in results.items():
        assert_same_bits(got, want, name)


# repeat_interleave.


@complete
def test_positions_of_repetitions():
    repeats = np.array([1, 0, 2], np.int32)
    assert impl.repeat_interleave(repeats).tolist() == [0, 2, 2]
    assert impl.repeat_interleave(repeats, output_size=3).dtype == np.int32
    assert impl.repeat_interleave(NO_INDEX).shape == (0,)
    # Too short, and too long: past the last position.
    for size, want in [(2, [0, 2]), (5, [0, 2, 2, 3, 3])]:
        got = jax.jit(lambda r, size=size: impl.repeat_interleave(r, output_size=size))(repeats)
        assert got.tolist() == want


def test_repetitions_of_float64():
    x, repeats = np.random.default_rng(0).standard_normal((3, 2)), np.array([7, 0, 7])
    with jax.enable_x64(True):
        got = jax.jit(lambda x, r: impl.repeat_interleave(x, r, 0, output_size=14))(x, repeats)
        assert_same_bits(got, np.repeat(x, repeats, 0))
        assert impl.repeat_interleave(repeats).dtype == np.int64


def test_known_numbers_are_checked_under_jit_too():
    with pytest.raises(RuntimeError, match="sum of repeats"):
        jax.jit(lambda x: impl.repeat_interleave(x, 2, output_size=5))(V)


def test_under_jit_the_size_is_needed():
    with pytest.raises(TypeError, match="pass output_size="):
        jax.jit(impl.repeat_interleave)(V, at(1, 2, 1))


@complete
def test_repetitions_beyond_the_sum_read_the_fill_value():
    repeats, x = np.array([1, 0, 2]), np.array([1, 2, 3], np.float32)

    @jax.jit
    def calls(x, r):
        repeat = lambda x, r, n: impl.repeat_interleave(x, r, output_size=n)  # noqa: E731
        longer = jax.grad(lambda x: jnp.nansum(repeat(x, r, 5)))(x)
        # A negative number counts as none.
        negative = repeat(x, r - np.array([0, 4, 0]), 3)
        return repeat(x, r, 2), repeat(x, r, 5), longer, negative

    short, long, gradient, negative = calls(x, repeats)
    assert short.tolist() == [1, 3]
    np.testing.assert_array_equal(long, [1, 3, 3, np.nan, np.nan])
    assert gradient.tolist() == [1, 0, 2]
    assert negative.tolist() == [1, 3, 3]


def test_unknown_repeats_may_add_up_to_more_than_an_int32_holds():
    x, repeats = np.arange(40_000, dtype=np.int32), np.full(40_000, 120_000, np.int32)
    repeats[0] = 2
    repeat = jax.jit(functools.partial(impl.repeat_interleave, output_size=120_000))
    assert_same_bits(repeat(x, repeats), np.repeat(x[:2], [2, 119_998]))

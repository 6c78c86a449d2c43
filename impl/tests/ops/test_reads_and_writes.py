"""Ops that read or write by an index: indices out of range, and repetitions.

Tests: impl.ops._indexing, impl.ops._reads.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.ops._indices import IN_RANGE, INDEX, INSIDE, SIZE, WIDE, WRAPPED, V
from impl.tests.support.bits import assert_all_same_bits, assert_same_bits

complete = pytest.mark.usefixtures("complete")


def by_columns(op, *arrays):
    """Calls an op of vectors for each column of arrays."""
    return jnp.stack([op(*columns) for columns in zip(*(a.T for a in arrays), strict=True)], 1)


#: Reads of rows of an array of two columns, and which elements of INDEX are in range.
READS = {
    "gather": (lambda x, i: impl.gather(x.T, 1, i[None].repeat(2, 0)).T, INSIDE),
    "index_select": (lambda x, i: impl.index_select(x, 0, i), INSIDE),
    "embedding": (lambda x, i: impl.nn.functional.embedding(i, x), INSIDE),
    "take": (lambda x, i: by_columns(lambda x: impl.take(x, i), x), IN_RANGE),
    "take_along_dim": (lambda x, i: impl.take_along_dim(x, i[:, None], 0), IN_RANGE),
    "take_along_dim, columns": (
        lambda x, i: impl.take_along_dim(x.T[None], i[None, None], -1)[0].T,
        IN_RANGE,
    ),
    "getitem": (impl.getitem, IN_RANGE),
    "getitem, columns": (lambda x, i: impl.getitem(x.T, (slice(None), i)).T, IN_RANGE),
    "getitem, elements": (lambda x, i: impl.getitem(x, (i[:, None], jnp.arange(2))), IN_RANGE),
    "getitem, slices": (
        lambda x, i: impl.getitem(x, (i[:, None], slice(None), None))[:, 0, :, 0],
        IN_RANGE,
    ),
}
#: Writes of rows of two columns.
WRITES = {
    "index_put": lambda x, i, v, add: impl.index_put(x, (i,), v, add),
    "columns": lambda x, i, v, add: impl.index_put(x.T, (None, i), v.T, add).T,
    "elements": lambda x, i, v, add: impl.index_put(x, (i[:, None], jnp.arange(2)), v, add),
    "put": lambda x, i, v, add: by_columns(lambda x, v: impl.put(x, i, v, add), x, v),
}
FILLS = {np.float32: np.nan, jnp.bfloat16: np.nan, np.int32: -(2**31), np.uint8: 255, bool: True}
X = np.arange(2 * SIZE, dtype=np.float32).reshape(SIZE, 2)
NUMBERS = np.arange(1, 2 * len(INDEX) + 1, dtype=np.float32).reshape(-1, 2)


@complete
def test_reads_out_of_range_give_the_fill_value():
    @jax.jit
    def reads(arrays, i):
        return [[read(x, i) for read, _ in READS.values()] for x in arrays]

    arrays = [(X % 2).astype(dtype) for dtype in FILLS]
    for x, fill, results in zip(arrays, FILLS.values(), reads(arrays, INDEX), strict=True):
        for (name, (_, in_range)), got in zip(READS.items(), results, strict=True):
            want = np.full((len(INDEX), 2), fill, x.dtype)
            want[in_range] = x[WRAPPED[in_range]]
            np.testing.assert_array_equal(
                got.astype(np.float32), want.astype(np.float32), err_msg=f"{name} {x.dtype}"
            )
            assert got.dtype == x.dtype


@pytest.mark.usefixtures("path")
def test_gradients_of_reads_out_of_range_are_dropped():
    @jax.jit
    def gradients(x, i, weight):
        return [jax.vjp(lambda x, f=f: f(x, i), x)[1](weight)[0] for f, _ in READS.values()]

    wanted = []
    for _, in_range in READS.values():
        wanted.append(np.zeros_like(X))
        np.add.at(wanted[-1], WRAPPED[in_range], NUMBERS[in_range])
    assert_all_same_bits(gradients(X, INDEX, NUMBERS), wanted)


@pytest.mark.usefixtures("path")
def test_writes_out_of_range_are_dropped():
    @jax.jit
    def writes(x, i, v):
        # The path decides which of several writes stays, so all of them write one value.
        sevens = jnp.full_like(v, 7)
        written = [write(x, i, sevens, False) for write in WRITES.values()]
        added = [write(x, i, v, True) for write in WRITES.values()]
        return added, [*written, impl.index_fill(x, 0, i, 7)]

    sums, constants = X.copy(), X.copy()
    np.add.at(sums, WRAPPED[IN_RANGE], NUMBERS[IN_RANGE])
    constants[WRAPPED[IN_RANGE]] = 7
    added, written = writes(X, INDEX, NUMBERS)
    assert_all_same_bits(added, [sums] * len(added))
    assert_all_same_bits(written, [constants] * len(written))


def test_under_jit_an_axis_without_elements():
    # No index can be in range, and still the program is traced: the value may never be read.
    @jax.jit
    def calls(x, i, v):
        return (
            [read(x, i) for read, _ in READS.values()],
            [write(x, i, v, add) for write in WRITES.values() for add in (False, True)],
        )

    reads, writes = calls(X[:0], np.array([0, -1]), X[:2])
    assert all(np.isnan(got).all() and got.shape == (2, 2) for got in reads)
    assert all(got.shape == (0, 2) for got in writes)


def test_a_wide_index_is_not_narrowed_first():
    with jax.enable_x64(True):
        reads, writes = jax.jit(
            lambda x, i, v: (
                [read(x, i) for read, _ in READS.values()],
                [write(0 * x, i, v, add) for write in WRITES.values() for add in (False, True)],
            )
        )(np.ones((3, 2), np.float32), WIDE, np.ones((4, 2), np.float32))
    for got in reads:
        assert np.isnan(got[:, 0]).tolist() == [True, False, True, True]
    for got in writes:
        assert got.tolist() == [[0, 0], [1, 1], [0, 0]]
    for read, _ in READS.values():
        with pytest.raises((IndexError, RuntimeError), match="index 4294967297 is out of bounds"):
            read(np.ones((3, 2), np.float32), WIDE)


@pytest.mark.parametrize("name", READS)
def test_a_known_index_is_checked_under_jit_too(name):
    with pytest.raises((IndexError, RuntimeError), match="index 3 is out of bounds"):
        jax.jit(lambda x: READS[name][0](x, np.array([3])))(X[:3])


@complete
def test_integers_are_differentiated_through():
    index = np.array([[2, 2, 2], [0, 1, 0], [2, 0, 2], [1, 1, 1], [2, 2, 0]])

    def function(x, i):
        counts = impl.bincount(i, minlength=3)
        best = impl.kthvalue(i, 1).indices
        lowest = impl.scatter_reduce(i, 0, i, i, "amin", include_self=False)
        mean = impl.index_reduce(i, 0, i, i, "mean", include_self=False)
        factor = (impl.cumsum(counts, 0) + lowest[:3] + mean[:3])[2]
        return (impl.gather(x, 0, index) * factor).sum() + best

    gradient = jax.grad(function)(np.ones((3, 3), np.float32), np.array([2, 0, 2, 1, 2]))
    want = np.zeros((3, 3), np.float32)
    for row in index:
        want[row, [0, 1, 2]] += 9
    assert_same_bits(gradient, want)


# repeat_interleave.


@complete
def test_positions_of_repetitions():
    repeats = np.array([1, 0, 2], np.int32)
    assert impl.repeat_interleave(repeats).tolist() == [0, 2, 2]
    assert impl.repeat_interleave(repeats, output_size=3).dtype == np.int32
    assert impl.repeat_interleave(repeats[:0]).shape == (0,)
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
        jax.jit(impl.repeat_interleave)(V, np.array([1, 2, 1]))


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

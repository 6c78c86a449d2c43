"""Indexing with bad arguments, and with what is out of range where values are not known."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests._support import assert_same_bits

V = np.zeros(3, np.float32)
M = np.zeros((3, 2), np.float32)
SCALAR = np.array(5, np.float32)
POINT = np.array(0)


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def at(*values):
    return np.array(values)


TALL = ones(4, dtype=bool)
COLUMN = np.zeros((3, 1), int)

#: op, positional arguments, keywords, exception, fragment of the message
BAD = [
    ("getitem", (M, 3), {}, IndexError, "index 3 is out of bounds for dimension 0 with size 3"),
    ("getitem", (M, -4), {}, IndexError, "index -4 is out of bounds"),
    ("getitem", (M, (0, 2)), {}, IndexError, "for dimension 1 with size 2"),
    ("getitem", (M, at(0, 3)), {}, IndexError, "at position [1] of argument 'indices'"),
    ("getitem", (M, (at(0), at(-3))), {}, IndexError, "of argument 'indices[1]'; allowed are -2"),
    ("getitem", (M, (0, 0, 0)), {}, IndexError, "array of dimension 2 (got 3)"),
    ("getitem", (M, (0, M > 0)), {}, IndexError, "(got 3)"),
    ("getitem", (SCALAR, slice(None)), {}, IndexError, "array of dimension 0"),
    ("getitem", (SCALAR, 0), {}, IndexError, "0"),
    ("getitem", (M, 1.0), {}, IndexError, "of type float; allowed are ints"),
    ("getitem", (M, {0}), {}, IndexError, "of type set"),
    ("getitem", (M, at(1.0)), {}, IndexError, "of float64; allowed are"),
    ("getitem", (M, np.float32(1)), {}, IndexError, "float32"),
    ("getitem", (M, np.zeros(1, np.int16)), {}, IndexError, "int16"),
    ("getitem", (M, ones(1, dtype=np.complex64)), {}, IndexError, "complex64"),
    ("getitem", (M, (at(0, 1), at(0, 1, 1))), {}, IndexError, "with shapes [2], [3]"),
    ("getitem", (M, TALL), {}, IndexError, "mask [4] does not match"),
    ("getitem", (M, (slice(None), M > 0)), {}, IndexError, "(got 3)"),
    ("getitem", (M[:0], at(0)), {}, IndexError, "none is allowed"),
    ("getitem", (M, slice(None, None, -1)), {}, ValueError, "greater than zero"),
    ("getitem", (M, slice(None, None, 0)), {}, ValueError, "zero"),
    ("getitem", (M, slice(0.5, 1)), {}, TypeError, "slice(0.5, 1, None)"),
    ("getitem", (M, ([[0, 1], [1]], 0)), {}, ValueError, "indices[0]"),
    ("index_put", (V, at(0), ones(1)), {}, TypeError, "must be tuple of arrays, not ndarray"),
    ("index_put", (V, (0,), ones(1)), {}, TypeError, "'indices[0]'"),
    ("index_put", (V, ([0],), ones(1)), {}, TypeError, "not list"),
    ("index_put", (V, (slice(1),), ones(1)), {}, TypeError, "not slice"),
    ("index_put", (V, (), ones(1)), {}, RuntimeError, "at least one array"),
    ("index_put", (V, (at(0), at(0)), ones(1)), {}, IndexError, "dimension 1 (got 2)"),
    ("index_put", (V, (at(0),), 1.0), {}, TypeError, "'values' must be"),
    ("index_put", (V, (at(0),), ones(1, dtype=np.float16)), {}, RuntimeError, "values (float16)"),
    ("index_put", (V, (at(0, 1),), ones(3)), {}, RuntimeError, "values of shape [3] cannot"),
    ("index_put", (V, (at(0, 1),), ones(1, 2)), {}, RuntimeError, "to the indexed shape [2]"),
    ("index_put", (M, (POINT,), ones(1, 2)), {}, RuntimeError, "to the indexed shape [2]"),
    ("index_put", (V, (V > -1,), ones(2)), {}, RuntimeError, "to the indexed shape [3]"),
    ("index_put", (V, (at(3),), ones(1)), {}, IndexError, "index 3 is out of bounds"),
    ("index_put", (V, (at(0, -4),), ones(2)), {"accumulate": True}, IndexError, "position [1]"),
    ("index_put", (V, (np.zeros(1, np.int16),), ones(1)), {}, IndexError, "of int16"),
    ("index_put", (V, (at(0.0),), ones(1)), {}, IndexError, "of float64"),
    ("index_put", (V, (TALL,), ones(1)), {}, IndexError, "mask [4]"),
    ("index_put", (M, (at(0, 1), at(0, 1, 1)), ones(1)), {}, IndexError, "shapes [2], [3]"),
    ("index_put", (V[:0], (at(0),), ones(1)), {}, IndexError, "size 0"),
    ("index_put", (SCALAR, (POINT,), ones(1)), {}, IndexError, "dimension 0"),
    ("index_put", (V, (at(0),), ones(1), 1), {}, TypeError, "'accumulate' must be bool, not int"),
    ("take", (V, at(3)), {}, IndexError, "index 3 is out of bounds for an input of 3 elements"),
    ("take", (V, at(0, -4)), {}, IndexError, "at position [1]"),
    ("take", (V[:0], at(0)), {}, IndexError, "none is allowed"),
    ("take", (V, at(0.0)), {}, RuntimeError, "for index but got: float64"),
    ("take", (V, at(True)), {}, RuntimeError, "for index but got: bool"),
    ("take", (V, [0]), {}, TypeError, "'index' must be"),
    ("take", ([0.0], at(0)), {}, TypeError, "'input' must be"),
    ("put", (V, at(3), ones(1)), {}, IndexError, "for an input of 3 elements"),
    ("put", (V, at(-4), ones(1)), {}, IndexError, "allowed are -3 to 2"),
    ("put", (V[:0], at(0), ones(1)), {}, IndexError, "none is allowed"),
    ("put", (V, at(0, 1), ones(1)), {}, IndexError, "got 1 and 2"),
    ("put", (V, at(0), ones(1, dtype=np.int32)), {}, RuntimeError, "and source (int32)"),
    ("put", (V, at(0.0), ones(1)), {}, RuntimeError, "but got: float64"),
    ("put", (V, at(0), 1.0), {}, TypeError, "'source' must be"),
    ("put", (V, at(0), ones(1), None), {}, TypeError, "'accumulate' must be bool"),
    ("take_along_dim", (M, COLUMN, 2), {}, IndexError, "but got 2"),
    ("take_along_dim", (M, COLUMN, 1.0), {}, TypeError, "'dim' must be int, not float"),
    ("take_along_dim", (SCALAR, POINT, 0), {}, IndexError, "Dimension specified as 0"),
    ("take_along_dim", (M, at(0), 0), {}, RuntimeError, "same number of dimensions, but got 2"),
    ("take_along_dim", (M, COLUMN[:2], 1), {}, RuntimeError, "(2) at non-singleton dimension 0"),
    ("take_along_dim", (V, at(3)), {}, RuntimeError, "index 3 is out of bounds for an input of 3"),
    ("take_along_dim", (V, at(-1)), {}, RuntimeError, "allowed are 0 to 2"),
    ("take_along_dim", (V, at(0.0)), {}, RuntimeError, "int32/int64 for indices but got: float64"),
    ("take_along_dim", (V, [0]), {}, TypeError, "'indices' must be"),
    ("repeat_interleave", (V, -1), {}, RuntimeError, "repeats must be non-negative, but got -1"),
    ("repeat_interleave", (V, at(1, -2, 1)), {}, RuntimeError, "got -2 at position 1"),
    ("repeat_interleave", (V, at(1, 2)), {}, RuntimeError, "shape [2] and 3 along dimension 0"),
    ("repeat_interleave", (V, at(1, 2, 0)[None]), {}, RuntimeError, "shape [1, 3]"),
    ("repeat_interleave", (V, at(1.0)), {}, NotImplementedError, "float64"),
    ("repeat_interleave", (V, at(True)), {}, NotImplementedError, "bool"),
    ("repeat_interleave", (V, 1.0), {}, TypeError, "not float"),
    ("repeat_interleave", (V, True), {}, TypeError, "not bool"),
    ("repeat_interleave", (V, [1, 2, 0]), {}, TypeError, "not list"),
    ("repeat_interleave", ([1.0], 2), {}, TypeError, "'input' must be"),
    ("repeat_interleave", (V, 2, 1), {}, IndexError, "but got 1"),
    ("repeat_interleave", (SCALAR, 2, 0), {}, IndexError, "Dimension"),
    ("repeat_interleave", (V, 2), {"output_size": 5}, RuntimeError, "sum of repeats, 6, but got 5"),
    ("repeat_interleave", (V, at(2)), {"output_size": 7}, RuntimeError, "but got 7"),
    ("repeat_interleave", (V, at(1, 2, 0)), {"output_size": -3}, RuntimeError, "got -3"),
    ("repeat_interleave", (V, 2), {"output_size": 6.0}, TypeError, "'output_size' must be int"),
    ("repeat_interleave", (V,), {}, NotImplementedError, "float32"),
    ("repeat_interleave", (at(1, 2)[None],), {}, RuntimeError, "got shape [1, 2]"),
    ("repeat_interleave", (at(1, -1),), {}, RuntimeError, "-1 at position 1"),
    ("repeat_interleave", (at(1, 2),), {"dim": 0}, TypeError, "needs argument 'repeats'"),
]

#: As above, where PyTorch has no such argument, or does something else.
OWN = [
    # PyTorch takes numbers of a list for ints.
    ("getitem", (M, [0.5]), {}, IndexError, "float64"),
    ("getitem", (M, "a"), {}, IndexError, "str"),
    # Nothing is read, and so PyTorch does not look.
    ("getitem", (M[:0], (slice(None), at(2))), {}, IndexError, "dimension 1 with size 2"),
    ("index_put", (V, (None,), ones(1)), {}, RuntimeError, "at least one array"),
    # PyTorch fills all of it, or fails where there is more than one value.
    ("index_put", (V, (np.array(True),), ones(1)), {}, RuntimeError, "without dimensions"),
    # What is too large wraps around.
    ("take_along_dim", (M, COLUMN + 2, 1), {}, RuntimeError, "index 2 is out of bounds"),
    ("take_along_dim", (M, COLUMN - 3, 1), {}, RuntimeError, "allowed are -2 to 1"),
    ("index_put", (V, (at(0),), ones(1)), {"unique_indices": 1}, TypeError, "unique_indices"),
    ("put", (V, at(0), ones(1)), {"unique_indices": None}, TypeError, "unique_indices"),
]


@pytest.mark.parametrize(
    ("op", "arguments", "options", "error", "fragment"),
    BAD + OWN,
    ids=[f"{bad[0]}-{bad[-1]}" for bad in BAD + OWN],
)
def test_bad_arguments(op, arguments, options, error, fragment):
    for mode in (False, True):
        with (
            impl.deterministic(mode, profile="complete"),
            pytest.raises(error, match=re.escape(fragment)) as raised,
        ):
            getattr(impl, op)(*arguments, **options)
        assert type(raised.value) is error
        assert str(raised.value).startswith(f"{op}(): ")


@pytest.mark.parametrize(
    ("op", "arguments", "options", "error"),
    [bad[:-1] for bad in BAD],
    ids=[f"{bad[0]}-{bad[-1]}" for bad in BAD],
)
def test_torch_raises_the_same(op, arguments, options, error):
    torch = pytest.importorskip("torch")

    def convert(value):
        if isinstance(value, tuple | list):
            return type(value)(map(convert, value))
        arrays = np.ndarray | np.floating
        return torch.from_numpy(np.array(value)) if isinstance(value, arrays) else value

    function = {
        "getitem": lambda x, i: x[i],
        "put": torch.Tensor.put,
    }.get(op) or getattr(torch, op)
    with pytest.raises(error) as raised:
        function(*map(convert, arguments), **options)
    assert type(raised.value) is error


def test_what_is_known_is_checked_under_jit_too():
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        jax.jit(lambda x: impl.getitem(x, at(3)))(V)
    with pytest.raises(IndexError, match="index -4 is out of bounds"):
        jax.jit(lambda x: impl.getitem(x, -4))(V)
    with pytest.raises(RuntimeError, match="sum of repeats"):
        jax.jit(lambda x: impl.repeat_interleave(x, 2, output_size=5))(V)


def test_what_depends_on_values_is_refused_under_jit():
    masked = jax.jit(impl.getitem)
    with pytest.raises(TypeError, match=r"mask whose values are not known under jit.*nonzero"):
        masked(V, V > 0)
    with pytest.raises(TypeError, match="not known under jit"):
        masked(V, np.array(True))
    put = jax.jit(
        lambda x, m, v, accumulate: impl.index_put(x, (m,), v, accumulate), static_argnums=3
    )
    for values, accumulate in [(ones(1), True), (ones(3), False)]:
        with pytest.raises(TypeError, match=r"'indices\[0\]' is a mask .* not known under jit"):
            put(V, V > 0, values, accumulate)
    with pytest.raises(IndexError, match="mask"):
        put(V, TALL, ones(1), False)
    with pytest.raises(RuntimeError, match="indexed shape"):
        put(V, V > 0, ones(1, 1), False)
    with pytest.raises(TypeError, match="pass output_size="):
        jax.jit(impl.repeat_interleave)(V, at(1, 2, 1))
    with pytest.raises(TypeError, match="parts must be ints that are known"):
        jax.jit(lambda x, i: impl.getitem(x, slice(i, None)))(V, 1)


@pytest.mark.parametrize(
    "call",
    [
        impl.take,
        lambda x, i: impl.put(x, i, x[0, :2])[0, :2],
        lambda x, i: impl.getitem(x, (i, i)),
        lambda x, i: impl.index_put(x, (i, i), x[0, :2])[0, :2],
    ],
    ids=["take", "put", "getitem", "index_put"],
)
def test_more_elements_than_an_index_counts(call):
    big = jax.ShapeDtypeStruct((2**16, 2**16), np.int8)
    index = jax.ShapeDtypeStruct((2,), np.int32)
    with pytest.raises(NotImplementedError, match="cannot count 4294967296 elements"):
        jax.eval_shape(call, big, index)
    with jax.enable_x64(True):
        assert jax.eval_shape(call, big, index).shape == (2,)
    # Rows are counted by themselves.
    assert jax.eval_shape(impl.getitem, big, index).shape == (2, 2**16)


# Under jit, where values are unknown.

SIZE = 5
INDEX = np.array(
    [3, -1, 0, SIZE, 3, SIZE + 7, -SIZE, -SIZE - 1, 2**31 - 1, -(2**31), 1, -SIZE - 3], np.int32
)
KEPT = (INDEX >= -SIZE) & (INDEX < SIZE)
WRAPPED = np.where(INDEX < 0, INDEX + SIZE, INDEX)


@pytest.mark.usefixtures("path")
def test_reads_out_of_range_give_the_fill_value_and_no_gradient():
    x = np.arange(2 * SIZE, dtype=np.float32).reshape(SIZE, 2)
    weight = np.arange(1, 2 * len(INDEX) + 1, dtype=np.float32).reshape(-1, 2)
    rows = np.full((len(INDEX), 2), np.nan, np.float32)
    rows[KEPT] = x[WRAPPED[KEPT]]
    gradient = np.zeros_like(x)
    np.add.at(gradient, WRAPPED[KEPT], weight[KEPT])

    @jax.jit
    def reads(x, i, w):
        # The same rows by every way of reading them.
        calls = [
            lambda x: impl.getitem(x, i),
            lambda x: impl.getitem(x.T, (slice(None), i)).T,
            lambda x: impl.getitem(x, (i[:, None], jnp.arange(2))),
            lambda x: impl.getitem(x, (i[:, None], slice(None), None))[:, 0, :, 0],
            lambda x: jnp.stack([impl.take(x[:, c], i) for c in (0, 1)], 1),
            lambda x: impl.take_along_dim(x, i[:, None], 0),
            lambda x: impl.take_along_dim(x.T[None], i[None, None], -1)[0].T,
        ]
        return [(call(x), jax.vjp(call, x)[1](w)[0]) for call in calls]

    for out, back in reads(x, INDEX, weight):
        np.testing.assert_array_equal(out, rows)
        assert_same_bits(back, gradient)


def test_a_traced_int_reads_as_an_array_does():
    read = jax.jit(lambda x, i: impl.getitem(x, (slice(None), i)))
    x = np.arange(2 * SIZE, dtype=np.float32).reshape(2, SIZE)
    for index, kept, wrapped in zip(INDEX, KEPT, WRAPPED, strict=True):
        want = x[:, wrapped] if kept else np.full(2, np.nan)
        np.testing.assert_array_equal(read(x, index), want)


def test_traced_ints_of_other_dtypes_and_in_lists():
    x = np.arange(2 * SIZE, dtype=np.float32).reshape(2, SIZE)
    read = jax.jit(lambda x, i: impl.getitem(x, (slice(None), i)))
    np.testing.assert_array_equal(read(x, np.int8(-2)), x[:, -2])
    with pytest.raises(IndexError, match="of uint32"):
        read(x, np.uint32(1))
    listed = jax.jit(lambda x, i: impl.getitem(x, (slice(None), [i, 1, -i])))
    np.testing.assert_array_equal(listed(x, 2), x[:, [2, 1, -2]])
    np.testing.assert_array_equal(jax.jit(lambda x, i: impl.getitem(x, [i, i]))(x, 1), x[1, 1])


@pytest.mark.parametrize(
    ("dtype", "fill"), [(jnp.bfloat16, np.nan), (np.int32, -(2**31)), (np.uint8, 255), (bool, True)]
)
def test_the_fill_value(dtype, fill):
    x = (np.arange(SIZE) % 2).astype(dtype)
    want = np.full(len(INDEX), fill, dtype)
    want[KEPT] = x[WRAPPED[KEPT]]
    got = jax.jit(impl.take)(x, INDEX)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("accumulate", [False, True])
def test_writes_out_of_range_are_dropped(accumulate):
    source = np.arange(1, 2 * len(INDEX) + 1, dtype=np.float32).reshape(-1, 2)
    if not accumulate:
        source[:] = 7  # Which one stays is a matter of the path.
    x = np.full((SIZE, 2), 100, np.float32)
    want = x.copy()
    for row, value in zip(WRAPPED[KEPT], source[KEPT], strict=True):
        want[row] = want[row] + value if accumulate else value

    @jax.jit
    def writes(x, i, s):
        def put(x, *indices_and_values):
            return impl.index_put(x, *indices_and_values, accumulate)

        column = jnp.arange(2)
        return [
            put(x, (i,), s),
            put(x.T, (None, i), s.T).T,
            put(x, (i[:, None], column), s),
            jnp.stack([impl.put(x[:, c], i, s[:, c], accumulate) for c in (0, 1)], 1),
        ]

    for out in writes(x, INDEX, source):
        assert_same_bits(out, want)


def test_two_indices_out_of_range_do_not_make_one_in_range():
    # Flattened without a check, (1, -4) of [3, 3] would be (0, 0), and (0, 3) would be (1, 0).
    pairs = np.array([[1, -4], [0, 3], [3, 0], [-4, 1], [2, 2]])
    got = jax.jit(lambda x, i, j: impl.getitem(x, (i, j)))(ones(3, 3), *pairs.T)
    assert np.isnan(got).tolist() == [True, True, True, True, False]
    got = jax.jit(lambda x, i, j: impl.index_put(x, (i, j), ones(1)))(np.zeros((3, 3)), *pairs.T)
    assert np.argwhere(got).tolist() == [[2, 2]]


def test_repetitions_beyond_the_sum_read_the_fill_value():
    repeats = np.array([1, 0, 2])
    call = jax.jit(lambda x, r, n: impl.repeat_interleave(x, r, output_size=n), static_argnums=2)
    x = np.array([1, 2, 3], np.float32)
    assert call(x, repeats, 2).tolist() == [1, 3]
    np.testing.assert_array_equal(call(x, repeats, 5), [1, 3, 3, np.nan, np.nan])
    gradient = jax.grad(lambda x: jnp.nansum(call(x, repeats, 5)))(x)
    assert gradient.tolist() == [1, 0, 2]
    # A negative number counts as none.
    assert call(x, repeats - np.array([0, 4, 0]), 3).tolist() == [1, 3, 3]


WIDE = np.array([2**32 + 1, 1, -(2**32), -(2**32) - 1])


def test_a_wide_index_is_not_narrowed_first():
    with jax.enable_x64(True):
        for read in (
            impl.getitem,
            impl.take,
            lambda x, i: impl.take_along_dim(x, i, 0),
            lambda x, i: impl.getitem(x[:, None], (i, i * 0)),
        ):
            got = jax.jit(read)(np.zeros(3), WIDE)
            assert np.isnan(got).tolist() == [True, False, True, True]
        for accumulate in (False, True):
            for write in (
                lambda x, i, a=accumulate: impl.put(x, i, np.ones(4), a),
                lambda x, i, a=accumulate: impl.index_put(x, (i,), np.ones(()), a),
            ):
                assert jax.jit(write)(np.zeros(3), WIDE).tolist() == [0, 1, 0]
    for read in (impl.getitem, impl.take):
        with pytest.raises(IndexError, match="index 4294967297 is out of bounds"):
            read(V, WIDE)


def test_under_jit_an_axis_without_elements():
    # What no index can meet is no reason to refuse to trace: a value may never be asked for.
    index = at(0, -1)
    for read in (impl.getitem, impl.take, lambda x, i: impl.take_along_dim(x, i, 0)):
        assert np.isnan(jax.jit(read)(V[:0], index)).tolist() == [True, True]
    assert jax.jit(lambda x, i: impl.put(x, i, ones(2)))(V[:0], index).shape == (0,)
    got = jax.jit(lambda x, i: impl.index_put(x, (i,), ones(2, 2), accumulate=True))(M[:0], index)
    assert got.shape == (0, 2)

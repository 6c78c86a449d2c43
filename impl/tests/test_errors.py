"""Bad arguments: PyTorch's exceptions where values are known, dropped where they are not."""

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
ONE = np.zeros(1, np.int64)
POINT = np.array(0)


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


def at(*values):
    return np.array(values)


COMPLEX = ones(2, dtype=np.complex64)
SHORT = np.zeros(1, np.int16)
FLOATS = np.zeros(1, np.float32)
SQUARE = np.zeros((1, 1), np.int64)

#: op, positional arguments, keywords, exception, fragment of the message
BAD = [
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
    ("scatter_add", (V, 1, ONE, ones(1)), {}, IndexError, "range of [-1, 0], but got 1"),
    ("scatter_add", (V, "0", ONE, ones(1)), {}, TypeError, "'dim' must be int, not str"),
    ("scatter_add", (V, 0, 0, ones(1)), {}, TypeError, "'index' must be"),
    ("scatter_add", (V, 0, SHORT, ones(1)), {}, RuntimeError, "for index but got: int16"),
    ("scatter_add", (V, 0, ONE, ones(1, dtype=np.int32)), {}, RuntimeError, "float32 and int32"),
    ("scatter_add", (M, 0, ONE, ones(1)), {}, RuntimeError, "as many dimensions"),
    ("scatter_add", (M, 0, POINT, ones(1, 1)), {}, RuntimeError, "as many dimensions"),
    (
        "scatter_add",
        (M, 0, np.zeros((2, 2), int), ones(1, 2)),
        {},
        RuntimeError,
        "index [2, 2] to be no larger than src [1, 2]",
    ),
    (
        "scatter_add",
        (M, 0, np.zeros((2, 3), int), ones(2, 3)),
        {},
        RuntimeError,
        "no larger than input [3, 2] apart from dimension 0",
    ),
    ("scatter_add", (V, 0, at(1, 3), ones(2)), {}, RuntimeError, "index 3 is out of bounds"),
    ("scatter_add", (V, 0, at(-1), ones(1)), {}, RuntimeError, "index -1 is out of bounds"),
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
    ("index_select", (V, 1, ONE), {}, IndexError, "but got 1"),
    ("index_select", (V, 1.0, ONE), {}, TypeError, "'dim' must be int"),
    ("index_select", (V, 0, [0]), {}, TypeError, "'index' must be"),
    ("index_select", (V, 0, SHORT), {}, RuntimeError, "for index but got: int16"),
    ("index_select", (V, 0, SQUARE), {}, IndexError, "to be a vector"),
    ("index_select", (V, 0, at(0, 3)), {}, IndexError, "index 3 is out of bounds"),
    ("index_select", (V, 0, at(-1)), {}, IndexError, "index -1 is out of bounds"),
    ("index_select", (SCALAR, 0, at(0, 0)), {}, RuntimeError, "only 1 value, got 2"),
    ("index_select", (SCALAR, 0, at(1)), {}, IndexError, "out of bounds"),
    ("bincount", (at(-1, 2),), {}, RuntimeError, "got -1 at position 0"),
    ("bincount", (V,), {}, NotImplementedError, "float32"),
    ("bincount", (np.zeros(2, bool),), {}, NotImplementedError, "bool"),
    ("bincount", (SQUARE,), {}, RuntimeError, "got shape [1, 1]"),
    ("bincount", (POINT,), {}, RuntimeError, "got shape []"),
    ("bincount", ([1],), {}, TypeError, "'input' must be"),
    ("bincount", (at(1),), {"minlength": -1}, RuntimeError, "minlength should be >= 0"),
    ("bincount", (at(1),), {"minlength": 1.5}, TypeError, "'minlength' must be int, not float"),
    ("bincount", (at(1, 2), ones(3)), {}, RuntimeError, "shapes [3] and [2]"),
    ("bincount", (at(1), [1.0]), {}, TypeError, "'weights' must be"),
    ("cumsum", (V, 1), {}, IndexError, "but got 1"),
    ("cumsum", (V, 1.0), {}, TypeError, "'dim' must be int, not float"),
    ("cumsum", ([1.0], 0), {}, TypeError, "'input' must be"),
    ("cumsum", (SCALAR, -2), {}, IndexError, "but got -2"),
    ("kthvalue", (V, 0), {}, RuntimeError, "got 0, allowed are 1 to 3"),
    ("kthvalue", (V, 4), {}, RuntimeError, "got 4, allowed are 1 to 3"),
    ("kthvalue", (V, 1.0), {}, TypeError, "'k' must be int, not float"),
    ("kthvalue", (V, True), {}, TypeError, "'k' must be int, not bool"),
    ("kthvalue", (V, 1, 1), {}, IndexError, "but got 1"),
    ("kthvalue", ([1.0], 1), {}, TypeError, "'input' must be"),
    ("kthvalue", (ones(2, dtype=bool), 1), {}, NotImplementedError, "bool"),
    ("kthvalue", (COMPLEX, 1), {}, NotImplementedError, "complex64"),
    ("kthvalue", (V[:0], 1), {}, IndexError, "dim 0 to have non-zero size"),
    ("kthvalue", (np.zeros((2, 0, 3)), 1, 1), {}, IndexError, "dim 1 to have non-zero size"),
]

#: As above, where PyTorch has no such argument, or does something else.
OWN = [
    # An IndexError in PyTorch, which has a RuntimeError for arrays of more dimensions.
    ("index_add", (V, 0, at(0, 3), ones(2)), {}, RuntimeError, "3 is out of bounds"),
    # An IndexError about the dimension in PyTorch.
    ("scatter_add", (M, 0, SQUARE, ones(1)), {}, RuntimeError, "as many dimensions as 'src'"),
    # PyTorch converts with a warning.
    ("bincount", (at(1, 2), COMPLEX), {}, TypeError, "'weights' must be real, not complex64"),
    ("bincount", (at(1),), {"length": 1.5}, TypeError, "'length' must be int"),
    ("bincount", (at(1),), {"length": 1, "minlength": 2}, RuntimeError, "not be below minlength"),
    ("index_add", (V, 0, ONE, ones(1)), {"unique_indices": 1}, TypeError, "unique_indices"),
    ("scatter_add", (V, 0, ONE, ones(1)), {"unique_indices": None}, TypeError, "unique_indices"),
]

NAMES = [f"{bad[0]}-{bad[-1]}" for bad in BAD]


@pytest.mark.parametrize("mode", [False, True], ids=["off", "on"])
@pytest.mark.parametrize(
    ("op", "arguments", "options", "error", "fragment"),
    BAD + OWN,
    ids=NAMES + [f"{bad[0]}-own-{bad[-1]}" for bad in OWN],
)
def test_bad_arguments(op, arguments, options, error, fragment, mode):
    with (
        impl.deterministic(mode, profile="complete"),
        pytest.raises(error, match=re.escape(fragment)) as raised,
    ):
        getattr(impl, op)(*arguments, **options)
    assert type(raised.value) is error
    assert op in str(raised.value) or "not implemented" in str(raised.value)


@pytest.mark.parametrize(
    ("op", "arguments", "options", "error"), [bad[:-1] for bad in BAD], ids=NAMES
)
def test_torch_raises_the_same(op, arguments, options, error):
    torch = pytest.importorskip("torch")
    as_tensors = [torch.from_numpy(a.copy()) if isinstance(a, np.ndarray) else a for a in arguments]
    with pytest.raises(error) as raised:
        getattr(torch, op)(*as_tensors, **options)
    assert type(raised.value) is error


def test_a_known_index_is_checked_under_jit_too():
    with pytest.raises(RuntimeError, match="index 3 is out of bounds"):
        jax.jit(lambda x: impl.gather(x, 0, at(3)))(V)


def test_bincount_under_jit_needs_its_length():
    with pytest.raises(TypeError, match="pass length="):
        jax.jit(impl.bincount)(at(1, 2))


def test_a_number_beyond_32_bits_is_not_taken_for_another():
    # Without x64 JAX makes 1 of it.
    assert impl.bincount(np.array([2**32 + 1, 2]), length=4).tolist() == [0, 0, 1, 0]
    with pytest.raises(IndexError, match="index 4294967297 is out of bounds"):
        impl.index_select(V, 0, np.array([2**32 + 1]))


# Under jit, where values are unknown.

SIZE = 5
INDEX = np.array([3, -1, 0, SIZE, 3, SIZE + 7, -SIZE, 2**31 - 1, -(2**31), 1], np.int32)
KEPT = (INDEX >= 0) & (INDEX < SIZE)


@pytest.mark.usefixtures("path")
def test_updates_out_of_range_are_dropped():
    source = np.arange(1, 21, dtype=np.float32).reshape(10, 2)
    initial = np.full((SIZE, 2), 100, np.float32)
    want = initial.copy()
    np.add.at(want, INDEX[KEPT], source[KEPT])

    got = jax.jit(lambda x, i, s: impl.index_add(x, 0, i, s))(initial, INDEX, source)
    assert_same_bits(got, want)

    wide = np.stack([INDEX, INDEX], 1)
    got = jax.jit(lambda x, i, s: impl.scatter_add(x, 0, i, s))(initial, wide, source)
    assert_same_bits(got, want)
    # Along the last dimension, an overrun would land in the next row.
    got = jax.jit(lambda x, i, s: impl.scatter_add(x, 1, i, s))(initial.T, wide.T, source.T)
    assert_same_bits(got, want.T)

    got = jax.jit(lambda i, w: impl.bincount(i, w, length=SIZE))(INDEX, source[:, 0])
    assert_same_bits(got, want[:, 0] - 100)


def test_atomic_kernels_drop_what_is_out_of_range():
    source = np.arange(1, 21, dtype=np.float32).reshape(10, 2)
    added = np.zeros((SIZE, 2), np.float32)
    np.add.at(added, INDEX[KEPT], source[KEPT])
    few = np.array([-1, 0, SIZE, 2], np.int32)
    written = np.zeros((SIZE, 2), np.float32)
    written[[0, 2]] = source[[1, 3]]
    with impl.testing.emulate("cuda"):
        add = jax.jit(lambda x, i, s: impl.index_add(x, 0, i, s))
        copy = jax.jit(lambda x, i, s: impl.index_copy(x, 0, i, s))
        initial = np.zeros((SIZE, 2), np.float32)
        assert_same_bits(add(initial, INDEX, source), added)
        assert_same_bits(copy(initial, few, source[:4]), written)


@pytest.mark.parametrize("path", ["off", "seed 1"], indirect=True)
@pytest.mark.parametrize("dtype", [np.int32, bool])
@pytest.mark.usefixtures("path")
def test_updates_of_integers_out_of_range_are_dropped(dtype):
    got = jax.jit(lambda x, i, s: impl.index_add(x, 0, i, s))(
        np.zeros(SIZE, dtype), INDEX, np.ones(len(INDEX), dtype)
    )
    assert_same_bits(got, np.array([1, 1, 0, 2, 0], dtype))


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        (np.float32, np.nan),
        (jnp.bfloat16, np.nan),
        (np.int32, np.iinfo(np.int32).min),
        (np.uint8, 255),
        (bool, True),
    ],
)
def test_reads_out_of_range_give_the_fill_value(dtype, fill):
    input = (np.arange(2 * SIZE).reshape(SIZE, 2) % 2).astype(dtype)
    want = np.full((len(INDEX), 2), fill, dtype)
    want[KEPT] = input[INDEX[KEPT]]
    got = jax.jit(lambda x, i: impl.index_select(x, 0, i))(input, INDEX)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))
    wide = np.stack([INDEX, INDEX])
    got = jax.jit(lambda x, i: impl.gather(x, 1, i))(input.T, wide)
    np.testing.assert_array_equal(got.astype(np.float32), want.T.astype(np.float32))


@pytest.mark.usefixtures("path")
def test_gradients_of_reads_out_of_range_are_dropped():
    weight = np.arange(1, 21, dtype=np.float32).reshape(10, 2)
    want = np.zeros((SIZE, 2), np.float32)
    np.add.at(want, INDEX[KEPT], weight[KEPT])

    def gradient(read, x, i, w):
        return jax.jit(jax.grad(lambda x, i: jnp.where(w > 0, read(x, i) * w, 0).sum()))(x, i)

    x = np.ones((SIZE, 2), np.float32)
    assert_same_bits(gradient(lambda x, i: impl.index_select(x, 0, i), x, INDEX, weight), want)
    got = gradient(lambda x, i: impl.gather(x, 1, i), x.T, np.stack([INDEX, INDEX]), weight.T)
    assert_same_bits(got, want.T)


def test_gradients_of_dropped_updates_are_zero():
    def loss(s, i):
        return (impl.index_add(jnp.zeros(SIZE), 0, i, s) * jnp.arange(1.0, 6.0)).sum()

    got = np.asarray(jax.jit(jax.grad(loss))(jnp.ones(len(INDEX)), INDEX))
    assert got[KEPT].tolist() == [4, 1, 4, 2]
    assert not got[~KEPT].any()


WIDE = np.array([2**32 + 1, 1, -(2**32)])


@pytest.mark.usefixtures("path")
def test_a_wide_index_is_not_narrowed_first():
    add = jax.jit(lambda x, i, s: impl.index_add(x, 0, i, s))
    scatter = jax.jit(lambda x, i, s: impl.scatter_add(x, 0, i, s))
    with jax.enable_x64(True):
        assert add(np.zeros(3), WIDE, np.ones(3)).tolist() == [0, 1, 0]
        wide = np.stack([WIDE, WIDE], 1)
        got = scatter(np.zeros((3, 2)), wide, np.ones((3, 2)))
        assert got.tolist() == [[0, 0], [1, 1], [0, 0]]


@pytest.mark.parametrize("op", [impl.index_select, impl.gather])
def test_a_wide_index_reads_the_fill_value(op):
    with jax.enable_x64(True):
        got = jax.jit(lambda x, i: op(x, 0, i))(np.zeros(3), WIDE)
        assert np.isnan(got).tolist() == [True, False, True]


@pytest.mark.parametrize("op", [impl.index_select, impl.gather])
def test_under_jit_an_axis_without_elements_reads_the_fill_value(op):
    # What no index can meet is no reason to refuse to trace: a value may never be asked for.
    got = jax.jit(lambda x, i: op(x, 0, i))(V[:0], at(0, 1))
    assert np.isnan(got).tolist() == [True, True]


@pytest.mark.usefixtures("path")
def test_under_jit_an_axis_without_elements_drops_updates():
    got = jax.jit(lambda x, i, s: impl.index_add(x, 0, i, s))(M[:0], at(0, 1), ones(2, 2))
    assert got.shape == (0, 2)

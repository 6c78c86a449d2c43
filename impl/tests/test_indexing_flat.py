"""take, put, take_along_dim and repeat_interleave: values; and the dtypes of all of indexing."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl

pytestmark = pytest.mark.usefixtures("complete")

X = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
NO_INDEX = np.zeros(0, int)
SHAPES = [(), (5,), (2, 1, 2, 3, 2)]
INDICES = [np.array(0), NO_INDEX, np.array([[0, -1], [-1, 0]])]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_take_and_put(shape):
    x = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    for index in INDICES:
        got = impl.take(x, index)
        assert got.shape == index.shape
        np.testing.assert_array_equal(got, x.reshape(-1)[index])
        for accumulate in (False, True):
            # The shape of the source says nothing.
            source = np.arange(1, index.size + 1, dtype=np.float32)
            want = x.copy().reshape(-1)
            for place, value in zip(index.reshape(-1), source, strict=True):
                want[place] = want[place] + value if accumulate else value
            got = impl.put(x, index.astype(np.int32), source, accumulate)
            np.testing.assert_array_equal(got, want.reshape(shape))


def test_take_and_put_of_nothing():
    assert impl.take(X[:0], NO_INDEX.reshape(2, 0)).shape == (2, 0)
    assert impl.put(X[:0], NO_INDEX, X[:0].reshape(-1)).shape == (0, 3, 4, 5)


@pytest.mark.parametrize(("dim", "length"), [(0, 7), (1, 1), (-2, 7), (-1, 7)])
def test_take_along_dim(dim, length):
    rng = np.random.default_rng(0)
    size = X.shape[dim]
    shape = list(X.shape)
    shape[dim] = length
    for kept in ([0, 1, 2, 3], [dim % 4], [dim % 4, 3]):
        own = [n if axis in kept else 1 for axis, n in enumerate(shape)]
        index = rng.integers(-size, size, own)
        got = impl.take_along_dim(X, index, dim)
        want = np.take_along_axis(X, np.broadcast_to(index, shape), dim)
        np.testing.assert_array_equal(got, want)


def test_take_along_dim_repeats_input():
    rng = np.random.default_rng(0)
    for shape, dim in [((2, 1, 4, 1), 2), ((1, 3, 1, 5), 1), ((1, 1, 1, 1), 0)]:
        x = rng.integers(-9, 9, shape).astype(np.float32)
        index = rng.integers(-shape[dim], shape[dim], (2, 3, 4, 5))
        full = np.broadcast_to(x, [n if a == dim else m for a, (n, m) in
                                   enumerate(zip(shape, (2, 3, 4, 5), strict=True))])  # fmt: skip
        want = np.take_along_axis(full, index, dim)
        weight = rng.integers(-9, 9, index.shape).astype(np.float32)
        got, pullback = jax.vjp(lambda x, i=index, d=dim: impl.take_along_dim(x, i, d), x)
        np.testing.assert_array_equal(got, want)
        gradient = np.zeros(full.shape, np.float32)
        grid = list(np.indices(index.shape))
        grid[dim] = index
        np.add.at(gradient, tuple(grid), weight)
        axes = tuple(a for a in range(4) if a != dim and shape[a] == 1)
        np.testing.assert_array_equal(
            pullback(jnp.asarray(weight))[0], gradient.sum(axes, keepdims=True)
        )


def test_take_along_dim_of_all_elements():
    index = np.array([[0, 119], [7, 7]])
    assert impl.take_along_dim(X, index).tolist() == [0, 119, 7, 7]
    assert impl.take_along_dim(np.float32(3), np.array(0)).tolist() == [3]
    assert impl.take_along_dim(X, index[:0]).shape == (0,)
    assert impl.take_along_dim(X[:0], np.zeros((1, 3, 1, 5), int), 2).shape == (0, 3, 1, 5)
    assert impl.take_along_dim(X, np.zeros((2, 3, 0, 1), int), 2).shape == (2, 3, 0, 5)


@pytest.mark.parametrize("repeats", [0, np.int64(2), np.array(2), np.array([2])], ids=repr)
@pytest.mark.parametrize("dim", [None, -1])
def test_repeat_interleave_of_all_alike(repeats, dim):
    want = np.repeat(X, int(np.max(repeats)), dim)
    np.testing.assert_array_equal(impl.repeat_interleave(X, repeats, dim), want)
    size = want.size if dim is None else want.shape[dim]
    np.testing.assert_array_equal(impl.repeat_interleave(X, repeats, dim, output_size=size), want)
    if isinstance(repeats, np.ndarray):
        call = functools.partial(impl.repeat_interleave, dim=dim, output_size=size)
        np.testing.assert_array_equal(jax.jit(call)(X, repeats), want)


def test_repeat_interleave():
    repeats = np.array([2, 0, 3, 1])
    want = np.repeat(X, repeats, 2)
    np.testing.assert_array_equal(impl.repeat_interleave(X, repeats, 2), want)
    np.testing.assert_array_equal(impl.repeat_interleave(X, repeats, -2, output_size=6), want)
    call = jax.jit(lambda x, r: impl.repeat_interleave(x, r, 2, output_size=6))
    np.testing.assert_array_equal(call(X, repeats), want)
    every = np.arange(120) % 3
    np.testing.assert_array_equal(impl.repeat_interleave(X, every), np.repeat(X, every))
    assert impl.repeat_interleave(np.float32(3), 2).tolist() == [3, 3]
    assert impl.repeat_interleave(X[:0], np.array([2]), 0).shape == (0, 3, 4, 5)
    assert impl.repeat_interleave(X, 0, 1).shape == (2, 0, 4, 5)


def test_repeat_interleave_of_positions():
    repeats = np.array([1, 0, 2], np.int32)
    assert impl.repeat_interleave(repeats).tolist() == [0, 2, 2]
    assert impl.repeat_interleave(repeats, output_size=3).dtype == np.int32
    assert impl.repeat_interleave(NO_INDEX).shape == (0,)
    # Too short, and too long: past the last position.
    for size, want in [(2, [0, 2]), (5, [0, 2, 2, 3, 3])]:
        got = jax.jit(lambda r, size=size: impl.repeat_interleave(r, output_size=size))(repeats)
        assert got.tolist() == want


@pytest.mark.parametrize(
    "dtype", [np.float16, jnp.bfloat16, np.int8, np.uint32, bool, np.complex64],
    ids=lambda d: d.__name__,
)  # fmt: skip
def test_dtypes(dtype):
    x = (np.arange(6).reshape(3, 2) % 4).astype(dtype)
    index = np.array([2, 0, -1])

    def check(got, want):
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, want)

    check(impl.getitem(x, (index, 1)), x[index, 1])
    check(impl.take(x, index), x.reshape(-1)[index])
    check(impl.take_along_dim(x, index[:, None], 0), x[index])
    check(impl.repeat_interleave(x, 2, 0), np.repeat(x, 2, 0))
    written = x.copy()
    written[1:] = x[0]
    check(impl.index_put(x, (np.array([1, -1]),), x[0]), written)
    check(impl.put(x, np.arange(2, 6), np.resize(x[0], 4)), written)
    one = np.ones((), dtype)
    added = x.copy()
    added[2] += one + one
    check(impl.index_put(x, (index[[0, 2]],), one, accumulate=True), added)
    check(impl.put(x, np.array([4, 5, 4, 5]), np.full(4, one), True), added)


def test_x64():
    with jax.enable_x64(True):
        x = np.random.default_rng(0).standard_normal((4, 3))
        index = np.array([3, -4, 3])

        @jax.jit
        def calls(x, i):
            return [
                impl.getitem(x, i),
                impl.getitem(x, (i, i % 3)),
                impl.take(x, i),
                impl.take_along_dim(x, i[:, None], 0),
                impl.put(x, i * 0, x[0], True)[0, 0],
                impl.index_put(x, (i[:1],), x[0])[3],
                impl.repeat_interleave(x[:3], i + 4, 0, output_size=14)[::7],
            ]

        wanted = [
            x[index],
            x[index, index % 3],
            x.reshape(-1)[index],
            x[index],
            x[0, 0] + x[0].sum(),
            x[0],
            x[[0, 2]],
        ]
        for got, want in zip(calls(x, index), wanted, strict=True):
            assert got.dtype == np.float64
            np.testing.assert_allclose(got, want, rtol=1e-13)
        assert impl.getitem(x, index).dtype == np.float64
        assert impl.repeat_interleave(index + 4).dtype == np.int64


def test_torch_agrees():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    flat, index = rng.integers(-120, 120, (3, 4)), rng.integers(-3, 3, (2, 7, 1, 5))
    source, repeats = rng.integers(-9, 9, (4, 3)).astype(np.float32), np.array([2, 0, 3])
    for op, *arguments in [
        ("take", X, flat),
        ("put", X, flat, source, True),
        ("take_along_dim", X, index, 1),
        ("take_along_dim", X[:1], index[:, :, :, :1], -3),
        ("take_along_dim", X, abs(flat)),
        ("repeat_interleave", X, repeats, 1),
        ("repeat_interleave", X, 2),
        ("repeat_interleave", repeats),
    ]:
        tensors = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
        want = getattr(torch.Tensor if op == "put" else torch, op)(*tensors).numpy()
        got = getattr(impl, op)(*arguments)
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want, err_msg=op)


def test_the_mode_off():
    with impl.deterministic(False):
        test_take_along_dim(-1, 7)

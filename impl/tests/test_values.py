"""Every op against NumPy in float64, and against PyTorch."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl

PLACES = [
    ((), 0),
    ((), -1),
    ((5,), 0),
    ((5,), -1),
    ((3, 4), 0),
    ((3, 4), -1),
    ((3, 4), -2),
    ((2, 3, 4), 0),
    ((2, 3, 4), 1),
    ((2, 3, 4), -1),
    ((2, 3, 2, 4), -3),
    ((2, 3, 2, 4), 2),
]
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


@pytest.fixture(autouse=True)
def ordered():
    """The mode on, under the profile in which every op is ordered."""
    impl.use_deterministic_algorithms(True, profile="complete")


def random(shape):
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


# References. A 0-d array stands for one of a single element.


def index_add(input, dim, index, source, alpha=1):
    out = np.atleast_1d(input).astype(np.result_type(input, np.float64)).copy()
    moved = np.moveaxis(out, dim, 0)
    np.add.at(moved, np.atleast_1d(index), alpha * np.moveaxis(np.atleast_1d(source), dim, 0))
    return out.reshape(input.shape)


def scatter_add(input, dim, index, src):
    out = np.atleast_1d(input).astype(np.result_type(input, np.float64)).copy()
    src, index = np.atleast_1d(src), np.atleast_1d(index)
    for place in np.ndindex(index.shape):
        target = list(place)
        target[dim] = index[place]
        out[tuple(target)] += src[place]
    return out.reshape(input.shape)


def gather(input, dim, index):
    out = np.empty(index.shape, input.dtype)
    for place in np.ndindex(index.shape):
        target = list(place) or [0]
        target[dim] = index[place]
        out[place] = np.atleast_1d(input)[tuple(target)]
    return out


def kthvalue(input, k, dim):
    order = np.argsort(np.atleast_1d(input), dim, kind="stable")
    indices = np.take(order, k - 1, dim)
    values = np.take(np.sort(np.atleast_1d(input), dim), k - 1, dim)
    return (a.reshape(input.shape[:0] if input.ndim < 2 else a.shape) for a in (values, indices))


def with_length(shape, dim, length):
    changed = list(shape)
    if shape:
        changed[dim] = length
    return tuple(changed)


def test_the_mode_off():
    with impl.deterministic(False):
        test_shapes_and_dimensions((2, 3, 4), 1)


@pytest.mark.parametrize(("shape", "dim"), PLACES)
def test_shapes_and_dimensions(shape, dim):
    rng = np.random.default_rng(0)
    input, size = random(shape), shape[dim] if shape else 1
    count = 6 if shape else 1
    source = random(with_length(shape, dim, count))
    index = rng.integers(0, size, count)

    got = impl.index_add(input, dim, index, source)
    np.testing.assert_allclose(got, index_add(input, dim, index, source), **CLOSE)

    got = impl.index_select(input, dim, index)
    want = np.take(np.atleast_1d(input), index, dim).reshape(with_length(shape, dim, count))
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)

    places = rng.integers(0, size, source.shape)
    got = impl.scatter_add(input, dim, places, source)
    np.testing.assert_allclose(got, scatter_add(input, dim, places, source), **CLOSE)
    np.testing.assert_array_equal(impl.gather(input, dim, places), gather(input, dim, places))

    got = impl.cumsum(input, dim)
    assert got.shape == shape
    want = np.cumsum(np.atleast_1d(input).astype(np.float64), dim).reshape(shape)
    np.testing.assert_allclose(got, want, **CLOSE)

    k = (size + 2) // 2
    got = impl.kthvalue(input, k, dim)
    for own, wanted in zip(got, kthvalue(input, k, dim), strict=True):
        np.testing.assert_array_equal(own, wanted)
    kept = impl.kthvalue(input, k, dim, keepdim=True)
    assert kept.values.shape == kept.indices.shape == with_length(shape, dim, 1)
    np.testing.assert_array_equal(kept.values.reshape(got.values.shape), got.values)


@pytest.mark.parametrize("dim", [0, 1])
def test_an_index_smaller_than_input_and_src(dim):
    rng = np.random.default_rng(0)
    input, src = random((4, 5)), random((3, 4))
    index = rng.integers(0, 4, (2, 3))
    got = impl.scatter_add(input, dim, index, src)
    np.testing.assert_allclose(got, scatter_add(input, dim, index, src), **CLOSE)
    np.testing.assert_array_equal(impl.gather(input, dim, index), gather(input, dim, index))


@pytest.mark.parametrize(
    ("input", "index", "src"), list(itertools.product([(), (1,)], [(), (1,)], [(), (1,)]))
)
def test_a_number_stands_for_an_array_of_one_element(input, index, src):
    got = impl.scatter_add(np.ones(input), 0, np.zeros(index, int), np.full(src, 2.0))
    assert got.shape == input
    assert got.tolist() == np.full(input, 3.0).tolist()
    got = impl.gather(np.ones(input), 0, np.zeros(index, int))
    assert got.shape == index
    assert got.tolist() == np.ones(index).tolist()


def test_a_number_as_index_takes_one_element_of_src_alone():
    got = impl.scatter_add(np.zeros(3), 0, np.array(1), np.array([2.0, 7.0]))
    assert got.tolist() == [0, 2, 0]


EMPTY = np.zeros(0, np.int64)


@pytest.mark.parametrize(
    ("call", "want"),
    [
        (lambda: impl.index_add(np.ones(3), 0, EMPTY, np.ones(0)), np.ones(3)),
        (lambda: impl.index_add(np.ones((3, 2)), 1, EMPTY, np.ones((3, 0))), np.ones((3, 2))),
        (lambda: impl.index_add(np.ones((0, 2)), 1, EMPTY, np.ones((0, 0))), 0),
        (lambda: impl.index_add(np.ones((2, 0)), 0, np.array([1]), np.ones((1, 0))), 0),
        (lambda: impl.scatter_add(np.ones((3, 2)), 0, EMPTY, np.ones(4)), np.ones((3, 2))),
        (lambda: impl.scatter_add(np.ones((2, 0)), 0, np.zeros((1, 0), int), np.ones((1, 0))), 0),
        (lambda: impl.gather(np.ones((3, 2)), 0, EMPTY), np.ones(0)),
        (lambda: impl.gather(np.ones((3, 2)), 0, np.zeros((0, 2), int)), np.ones((0, 2))),
        (lambda: impl.index_select(np.ones((3, 2)), 0, EMPTY), np.ones((0, 2))),
        (lambda: impl.index_select(np.ones((3, 0)), 0, np.array([1, 1])), np.ones((2, 0))),
        (lambda: impl.cumsum(np.ones((0, 3)), 0), np.ones((0, 3))),
        (lambda: impl.cumsum(np.ones((3, 0)), 0), np.ones((3, 0))),
        (lambda: impl.kthvalue(np.ones((0, 3)), 1, 1).values, np.ones(0)),
        (lambda: impl.kthvalue(np.ones((0, 3)), 1, 1, True).indices, np.ones((0, 1))),
        (lambda: impl.bincount(EMPTY), np.ones(0)),
        (lambda: impl.bincount(EMPTY, np.ones(0, np.float32), 2), np.zeros(2)),
        (lambda: impl.bincount(np.array([1, 3]), length=0), np.ones(0)),
    ],
)
def test_empty_arrays(call, want):
    got = call()
    if isinstance(want, int):
        assert got.size == want
    else:
        assert got.shape == want.shape
        np.testing.assert_array_equal(got, want)


def test_gradients_of_empty_arrays():
    def loss(x):
        taken = (
            impl.gather(x, 0, np.zeros((0, 2), int)).sum() + impl.index_select(x, 0, EMPTY).sum()
        )
        return taken + impl.scatter_add(x, 0, EMPTY, x).sum() + impl.cumsum(x[:0], 0).sum()

    assert jax.grad(loss)(jnp.ones((3, 2))).tolist() == np.ones((3, 2)).tolist()


NUMBERS = [np.float16, jnp.bfloat16, np.int8, np.int32, np.uint32]
INDEX = np.array([2, 0, 2, 1])


def exact(shape, dtype, seed):
    """Small integers: their sums are exact in every dtype."""
    value = np.random.default_rng(seed).integers(0, 5, shape)
    if np.dtype(dtype).kind == "c":
        value = value + 1j * value[::-1]
    return value.astype(dtype)


@pytest.mark.parametrize("dtype", [*NUMBERS, bool, np.complex64], ids=lambda d: d.__name__)
def test_dtypes(dtype):
    input, source = exact((3, 2), dtype, 0), exact((4, 2), dtype, 1)
    wide = np.complex128 if dtype is np.complex64 else np.float64

    def check(got, want):
        assert isinstance(got, jax.Array)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, want.astype(dtype))

    want = index_add(input.astype(wide), 0, INDEX, source.astype(wide))
    check(impl.index_add(input, 0, INDEX, source), want)
    check(impl.index_add(input, 0, INDEX.astype(np.int32), source), want)
    places = np.stack([INDEX, INDEX[::-1]], 1)
    want = scatter_add(input.astype(wide), 0, places, source.astype(wide))
    check(impl.scatter_add(input, 0, places, source), want)
    check(impl.gather(input, 0, places), gather(input, 0, places))
    check(impl.index_select(input, 0, INDEX), input[INDEX])
    if dtype is not bool:
        check(impl.cumsum(source, 0, dtype=dtype), np.cumsum(source.astype(wide), 0))
    if dtype in NUMBERS:
        check(impl.kthvalue(source, 2, 0).values, np.sort(source.astype(wide), 0)[1])
        assert impl.kthvalue(source, 2, 0).indices.dtype == np.int32


@pytest.mark.parametrize(
    ("dtype", "out"),
    [
        (np.float16, np.float16),
        (jnp.bfloat16, jnp.bfloat16),
        (np.int8, np.int32),
        (bool, np.int32),
        (np.uint8, np.int32),
    ],
)
def test_the_dtype_of_cumsum(dtype, out):
    got = impl.cumsum(np.ones(300, dtype), 0)
    assert got.dtype == out
    np.testing.assert_array_equal(got, np.arange(1, 301).astype(out))
    assert impl.cumsum(np.ones(3, dtype), 0, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize(
    ("weights", "out"),
    [
        (None, np.int32),
        (np.float16, np.float32),
        (np.float32, np.float32),
        (np.int32, np.float32),
        (bool, np.float32),
    ],
)
def test_the_dtype_of_bincount(weights, out):
    for dtype in (np.uint8, np.int16, np.int32):
        amounts = None if weights is None else np.array([1, 0, 1, 1], weights)
        got = impl.bincount(np.array([3, 1, 3, 0], dtype), amounts, 6)
        assert got.dtype == out
        want = [1, 1, 0, 2, 0, 0] if weights is None else [1, 0, 0, 2, 0, 0]
        assert got.tolist() == want


def test_the_length_of_bincount():
    assert impl.bincount(np.array([1, 4, 1])).tolist() == [0, 2, 0, 0, 1]
    assert impl.bincount(np.array([1, 4, 1]), minlength=2).shape == (5,)
    assert impl.bincount(np.array([1, 4, 1]), minlength=7).shape == (7,)
    assert impl.bincount(np.array([1, 4, 1]), length=3).tolist() == [0, 2, 0]
    assert jax.jit(lambda x: impl.bincount(x, length=6))(np.array([1, 4])).tolist() == [
        0, 1, 0, 0, 1, 0,
    ]  # fmt: skip


def test_integers_wrap_around():
    got = impl.index_add(np.array([100], np.int8), 0, np.zeros(2, int), np.full(2, 100, np.int8))
    assert got.tolist() == [44]
    got = impl.cumsum(np.array([2**31 - 1, 1], np.int32), 0, dtype=np.int32)
    assert got.tolist() == [2**31 - 1, -(2**31)]


@pytest.mark.parametrize(("dtype", "alpha"), [(np.int32, 3), (np.float16, 0.5), (np.float32, 2)])
def test_alpha(dtype, alpha):
    input, source = exact((3, 2), dtype, 0), exact((4, 2), dtype, 1)
    want = index_add(input, 0, INDEX, source, alpha).astype(dtype)
    for given in (alpha, np.asarray(alpha), jnp.asarray(alpha)):
        np.testing.assert_array_equal(impl.index_add(input, 0, INDEX, source, alpha=given), want)
    traced = jax.jit(lambda a: impl.index_add(input, 0, INDEX, source, alpha=a))(alpha)
    np.testing.assert_array_equal(traced, want)


def test_alpha_of_complex_numbers():
    got = impl.index_add(
        np.zeros(1, np.complex64), 0, np.zeros(2, int), np.ones(2, np.complex64), alpha=1 + 2j
    )
    assert got.tolist() == [2 + 4j]


def test_kthvalue_orders_nans_last_and_takes_zeros_for_equal():
    values = np.array([np.nan, 1.0, -np.inf, 0.0, -0.0, np.inf, -np.nan, -1.0], np.float32)
    indices = [int(impl.kthvalue(values, k).indices) for k in range(1, 9)]
    assert indices == [2, 7, 3, 3, 1, 5, 0, 0]
    assert np.isnan(impl.kthvalue(values, 7).values)


def test_kthvalue_of_the_largest_integers():
    for dtype in (np.int8, np.uint8, np.int32, np.uint32):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        values = np.array([high, 1, low, high - 1], dtype)
        got = [impl.kthvalue(values, k) for k in (1, 2, 3, 4)]
        assert [int(g.values) for g in got] == [low, 1, high - 1, high]
        assert [int(g.indices) for g in got] == [2, 1, 3, 0]


def test_x64():
    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        input, source = rng.standard_normal((3, 2)), rng.standard_normal((2000, 2))
        index = rng.integers(0, 3, 2000)
        tight = {"rtol": 1e-13, "atol": 1e-13}

        got = impl.index_add(input, 0, index, source, alpha=0.1)
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, index_add(input, 0, index, source, 0.1), **tight)
        places = np.stack([index, index], 1)
        got = impl.scatter_add(input, 0, places, source)
        np.testing.assert_allclose(got, scatter_add(input, 0, places, source), **tight)
        np.testing.assert_array_equal(impl.gather(input, 0, places), gather(input, 0, places))
        np.testing.assert_allclose(impl.cumsum(source, 0), np.cumsum(source, 0), **tight)
        got = impl.bincount(index, source[:, 0])
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, np.bincount(index, source[:, 0]), **tight)
        assert impl.bincount(index).dtype == np.int64
        assert impl.bincount(index, np.ones(2000, np.float16)).dtype == np.float64
        assert impl.cumsum(np.array([2**31 - 1, 1], np.int32), 0).tolist() == [2**31 - 1, 2**31]
        got = impl.kthvalue(source, 1000, 0)
        assert (got.values.dtype, got.indices.dtype) == (np.float64, np.int64)
        np.testing.assert_array_equal(got.values, np.sort(source, 0)[999])
        wide = np.array([2**62, -(2**62), 5])
        assert impl.kthvalue(wide, 3).values == 2**62
        assert impl.index_add(wide, 0, np.array([2, 2]), wide[:2] + 1).tolist() == [*wide[:2], 7]
        assert impl.index_select(input, 0, np.array([1], np.int32)).dtype == np.float64


def test_torch_agrees():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    for dim in (0, 1, -1):
        input = rng.standard_normal((4, 3, 5)).astype(np.float32)
        source = rng.standard_normal(with_length(input.shape, dim, 7)).astype(np.float32)
        index = rng.integers(0, input.shape[dim], 7)
        places = rng.integers(0, input.shape[dim], [min(s, 4) for s in source.shape])
        calls = [
            ("index_add", (input, dim, index, source), {"alpha": -1.5}),
            ("scatter_add", (input, dim, places, source), {}),
            ("gather", (input, dim, places[:4, :3, :4]), {}),
            ("index_select", (input, dim, index), {}),
            ("cumsum", (input, dim), {}),
        ]
        for op, arguments, options in calls:
            tensors = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
            want = getattr(torch, op)(*tensors, **options).numpy()
            got = getattr(impl, op)(*arguments, **options)
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, err_msg=op, **CLOSE)
        for got, want in zip(
            impl.kthvalue(input, 2, dim, True),
            torch.kthvalue(torch.from_numpy(input), 2, dim, True),
            strict=True,
        ):
            np.testing.assert_array_equal(got, want.numpy())
    numbers = rng.integers(0, 9, 50)
    weights = rng.standard_normal(50).astype(np.float32)
    want = torch.bincount(torch.from_numpy(numbers), torch.from_numpy(weights), 12).numpy()
    got = impl.bincount(numbers, weights, 12)
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got, want, **CLOSE)

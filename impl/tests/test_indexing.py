"""getitem and index_put: what expressions mean."""

import random

import jax
import numpy as np
import pytest

import impl

pytestmark = pytest.mark.usefixtures("complete")

X = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
A, B, C = np.array([0, 1]), np.array([[0], [1], [-1]]), np.array([1, 1, -2, 0])
ONE = np.array(1)
MASK = np.random.default_rng(0).random((3, 4)) < 0.5
NO_INDEX = np.zeros(0, int)

#: Expressions that NumPy reads as PyTorch does.
AS_NUMPY = [
    1,
    -1,
    np.int64(1),
    ONE,
    slice(None),
    slice(5, 9),
    slice(-2, None),
    slice(1, 0),
    (),
    ...,
    None,
    (0, 1, 2, 3),
    (..., 1),
    (slice(None, None, 2), None, -1, ..., slice(1, None, 3)),
    True,
    False,
    (slice(None), True),
    np.True_,
    np.array(False),
    A,
    C.astype(np.int32) % 2,
    [1, 0, 1],
    [],
    range(2),
    NO_INDEX,
    (A, C[:2]),
    (slice(None), B, A),
    (slice(None), B, slice(None), A),
    (slice(None), C[:2], slice(2), None, A),
    (A, ..., A),
    (..., C, 1),
    (0, A, A),
    ([0, 1], slice(None), [[1], [2]]),
    (slice(None), (0, 2)),
    (slice(None), [True, False, True]),
    (slice(None), MASK),
    (slice(None), MASK, np.array([1])),
    (..., X[0, 0] % 3 > 1),
    (True, A),
    np.ones((2, 3, 4, 5), bool),
    X > 50,
]

#: Expressions that it does not, and what they are.
NOT_AS_NUMPY = [
    # A list of anything but numbers is a tuple.
    ([A, C[:2]], X[A, C[:2]]),
    ([None, A], X[None, A]),
    ([[0, 1], [1, 2]], X[[0, 1], [1, 2]]),
    ([slice(None), 0], X[:, 0]),
    # Ints are gone before arrays are placed.
    ((0, slice(None), C), X[0][:, C]),
    ((ONE, slice(None), C), X[1][:, C]),
    ((A, 0, slice(None), A), X[:, 0][A, :, A]),
    ((slice(None), 0, C), X[:, 0][:, C]),
    # uint8 is a mask.
    ((slice(None), np.array([0, 1, 1], np.uint8)), X[:, [1, 2]]),
    (np.uint8(1), X[1]),
    (np.array(1, np.uint8), X[None]),
    # Further ellipses stand for nothing.
    ((..., A, ...), X[..., A]),
    ((0, ..., 1, ...), X[0, ..., 1]),
]


def ids(expression):
    return str(expression)[:40].replace("\n", "")


@pytest.mark.parametrize("expression", AS_NUMPY, ids=ids)
def test_expressions_as_numpy_reads_them(expression):
    got = impl.getitem(X, expression)
    want = X[expression]
    assert isinstance(got, jax.Array)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("expression", "want"), NOT_AS_NUMPY, ids=ids)
def test_expressions_as_numpy_does_not_read_them(expression, want):
    got = impl.getitem(X, expression)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def test_expressions_for_other_shapes():
    number = np.float32(3)
    assert impl.getitem(number, ()) == 3
    assert impl.getitem(number, ...) == 3
    for expression in (None, True, np.True_):
        assert impl.getitem(number, expression).tolist() == [3]
    assert impl.getitem(number, np.False_).shape == (0,)
    empty = np.zeros((0, 3), np.float32)
    assert impl.getitem(empty, NO_INDEX).shape == (0, 3)
    assert impl.getitem(empty, (slice(None), A)).shape == (0, 2)
    assert impl.getitem(empty, slice(1, 5)).shape == (0, 3)
    five = np.arange(32.0).reshape(2, 2, 2, 2, 2)
    np.testing.assert_array_equal(impl.getitem(five, (..., A, A[::-1])), five[..., A, A[::-1]])


POOL = [
    0,
    -1,
    slice(None),
    slice(0, 9, 2),
    None,
    ...,
    True,
    False,
    A,
    B % 2,
    np.array([-1, 0]),
    ONE,
    np.array(-2),
    [0, 1],
    np.array([0], np.int32),
]


def expressions(pool, count, seed, longest=5):
    rng = random.Random(seed)
    for _ in range(count):
        yield tuple(rng.choice(pool) for _ in range(rng.randint(1, longest)))


def as_torch(torch, entry):
    return torch.from_numpy(entry.copy()) if isinstance(entry, np.ndarray) else entry


def test_torch_reads_expressions_alike():
    torch = pytest.importorskip("torch")
    tensor, right, wrong = torch.from_numpy(X), 0, 0
    for expression in expressions(POOL, 50, seed=0):
        if sum(entry is ... for entry in expression) > 1:
            continue  # PyTorch takes only some of these.
        try:
            want = tensor[tuple(as_torch(torch, entry) for entry in expression)].numpy()
        except IndexError:
            wrong += 1
            with pytest.raises(IndexError):
                impl.getitem(X, expression)
            continue
        right += 1
        got = impl.getitem(X, expression)
        assert got.shape == want.shape, expression
        np.testing.assert_array_equal(got, want, err_msg=str(expression))
    assert right > 30
    assert wrong > 2


def split(expression):
    """The arrays of an expression, and a function that puts others in their place."""
    arrays = [entry for entry in expression if isinstance(entry, np.ndarray)]

    def rebuild(others):
        rest = iter(others)
        return tuple(next(rest) if isinstance(e, np.ndarray) else e for e in expression)

    return arrays, rebuild


def test_traced_arrays_read_the_same_and_gradients_add_up():
    rng, tried = np.random.default_rng(0), 0
    for expression in expressions([e for e in POOL if e is not ...], 14, seed=1, longest=4):
        arrays, rebuild = split(expression)
        try:
            # Where each element comes from.
            flat = np.asarray(impl.getitem(np.arange(X.size).reshape(X.shape), expression))
        except IndexError:
            continue
        tried += bool(arrays)
        weight = rng.integers(-9, 9, flat.shape).astype(np.float32)

        @jax.jit
        def both(x, arrays, weight, rebuild=rebuild):
            out, pullback = jax.vjp(lambda x: impl.getitem(x, rebuild(arrays)), x)
            return out, pullback(weight)[0]

        out, gradient = both(X, arrays, weight)
        np.testing.assert_array_equal(out, X.reshape(-1)[flat])
        want = np.zeros(X.size, np.float32)
        np.add.at(want, flat, weight)
        np.testing.assert_array_equal(gradient, want.reshape(X.shape), err_msg=str(expression))
    assert tried > 5


#: Indices of index_put, and the same for NumPy.
WRITES = [
    ((C % 2,), (C % 2,)),
    ([A, C[:2]], (A, C[:2])),
    ((None, C), (slice(None), C)),
    ((A, None, C[:2]), (A, slice(None), C[:2])),
    ((None, B, A), (slice(None), B, A)),
    ((None, B, None, A), (slice(None), B, slice(None), A)),
    ((ONE,), (ONE,)),
    ((A, None, ONE), (A, slice(None), ONE)),
    ((None, MASK), (slice(None), MASK)),
    ((None, None, None, np.array([1, 0, 0, 1, 0], np.uint8)), (..., [0, 3])),
    ((X > 50,), (X > 50,)),
    ((NO_INDEX,), (NO_INDEX,)),
    ((A, A, A, A), (A, A, A, A)),
]


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize(("indices", "expression"), WRITES, ids=ids)
def test_index_put(indices, expression, accumulate):
    places = np.arange(X.size).reshape(X.shape)[expression]
    rng = np.random.default_rng(0)
    for shape in {places.shape, places.shape[-1:], ()}:
        values = rng.integers(-9, 9, shape).astype(np.float32)
        want = X.copy().reshape(-1)
        spread = np.broadcast_to(values, places.shape).reshape(-1)
        for place, value in zip(places.reshape(-1), spread, strict=True):
            want[place] = want[place] + value if accumulate else value
        got = impl.index_put(X, indices, values, accumulate)
        np.testing.assert_array_equal(got, want.reshape(X.shape))


def test_torch_puts_alike():
    torch = pytest.importorskip("torch")
    pool, rng = [A, B % 2, ONE, np.array([1, 0]), None], np.random.default_rng(0)
    for place, indices in enumerate(expressions(pool, 14, seed=2, longest=4)):
        if all(index is None for index in indices):
            continue
        # Only PyTorch's own operator takes None.
        tensors = [as_torch(torch, index) for index in indices]
        shape = torch.ops.aten.index(torch.from_numpy(X), tensors).shape
        values = rng.integers(-9, 9, shape).astype(np.float32)
        arguments = (torch.from_numpy(X), tensors, torch.from_numpy(values), bool(place % 2))
        want = torch.ops.aten.index_put(*arguments).numpy()
        got = impl.index_put(X, indices, values, bool(place % 2))
        np.testing.assert_array_equal(got, want, err_msg=str(indices))


@pytest.mark.parametrize("dim", [None, 1])
def test_index_put_of_one_value_by_a_traced_mask(dim):
    # PyTorch allows any mask; here the number of places must not matter.
    mask, indices = (X > 50, lambda m: (m,)) if dim is None else (MASK, lambda m: (None, m))
    put = jax.jit(lambda x, m, v: impl.index_put(x, indices(m), v))
    want = X.copy()
    want[mask if dim is None else (slice(None), mask)] = -1
    np.testing.assert_array_equal(put(X, mask, np.float32(-1)), want)
    np.testing.assert_array_equal(put(X, mask.astype(np.uint8), np.array([-1], np.float32)), want)
    gradient = jax.grad(lambda x, v: put(x, mask, v).sum(), (0, 1))(X, np.float32(2))
    np.testing.assert_array_equal(gradient[0], want != -1)
    assert gradient[1] == (want == -1).sum()


def test_the_mode_off():
    with impl.deterministic(False):
        test_index_put(*WRITES[3], accumulate=True)
        test_expressions_as_numpy_reads_them((A, ..., A))

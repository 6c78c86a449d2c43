"""max_unpool1d, max_unpool2d and max_unpool3d."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import normal
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.refusals import BadArgumentsOfFunctional, Call
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

#: For each op: the shape of the input, the arguments after indices, and the spatial sizes.
CALLS = {
    "max_unpool1d": [
        ((2, 3, 4), (2, 2, 0, (2, 3, 9)), (9,)),
        ((0, 3, 4), (2, None), (8,)),
    ],
    "max_unpool2d": [((2, 2, 3, 2), (2,), (6, 4))],
    "max_unpool3d": [((2, 2, 3, 2, 2), (2,), (6, 4, 4))],
}


def drawn_indices(shape, size):
    """Returns indices with many equal ones in each channel."""
    rng = np.random.default_rng(shape)
    length, total = int(np.prod(shape[-len(size) :])), int(np.prod(size))
    rows = [rng.integers(0, total // 2, length) for _ in range(int(np.prod(shape[: -len(size)])))]
    return np.reshape(rows, shape).astype(np.int64)


def unpooled(x, indices, size):
    """Returns the reference, and which elements of ``x`` are the last write to their index."""
    lengths = x.shape[-len(size) :]
    out, stays = [], []
    for row, of_row in zip(x.reshape(-1, *lengths), indices.reshape(-1, *lengths), strict=True):
        index, empty = of_row.reshape(-1), np.zeros(int(np.prod(size)), x.dtype)
        out.append(oracles.last_write(empty, index, row.reshape(-1)))
        writer = oracles.last_write(np.full(empty.shape, -1), index, np.arange(index.size))
        stays.append(writer[index] == np.arange(index.size))
    shape = (*x.shape[: -len(size)], *size)
    return np.reshape(out, shape).astype(x.dtype), np.reshape(stays, x.shape)


def results_and_gradients(op):
    """Returns a compiled function of inputs, indices and cotangents of all calls of an op."""

    @jax.jit
    def run(inputs, indices, cotangents):
        rows = []
        for x, index, cotangent, call in zip(inputs, indices, cotangents, CALLS[op], strict=True):
            function = lambda x, i=index, rest=call[1]: getattr(F, op)(x, i, *rest)  # noqa: E731
            out, pullback = jax.vjp(function, x)
            rows.append((out, pullback(cotangent)[0]))
        return rows

    return run


@pytest.mark.parametrize("op", CALLS)
def test_the_last_write_stays_and_has_the_gradient(op):
    run = results_and_gradients(op)
    inputs = [normal(shape) for shape, *_ in CALLS[op]]
    cotangents = [
        normal((*x.shape[: -len(size)], *size))
        for x, (*_, size) in zip(inputs, CALLS[op], strict=True)
    ]

    indices = [drawn_indices(shape, size) for shape, _, size in CALLS[op]]
    results = run(inputs, indices, cotangents)
    for (out, gradient), x, index, cotangent, (shape, _, size) in zip(
        results, inputs, indices, cotangents, CALLS[op], strict=True
    ):
        want, stays = unpooled(x, index, size)
        assert_same_bits(out, want)
        batch = np.indices(shape)[: -len(size)].reshape(len(shape) - len(size), -1)
        flat = cotangent.reshape(*shape[: -len(size)], int(np.prod(size)))
        of_elements = flat[(*batch, index.reshape(-1))].reshape(shape)
        assert_same_bits(gradient, np.where(stays, of_elements, np.float32(0)))


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float64], ids=lambda d: d.__name__)
def test_dtypes_of_max_unpool1d(dtype):
    x = normal((2, 4), dtype=dtype)
    indices = np.array([[0, 3, 3, 7], [1, 1, 1, 1]], np.int32)
    with jax.enable_x64(dtype is np.float64):
        got = jax.jit(lambda x: F.max_unpool1d(x, indices, 2))(x)
        assert_same_bits(got, unpooled(x, indices, (8,))[0])


OUT_OF_RANGE = np.array([[[3, -1, 0, 8], [12, 3, 2**31 - 1, -(2**31)]]], np.int32)
X = normal((1, 2, 4))


@pytest.mark.usefixtures("path")
def test_max_unpool1d_drops_writes_out_of_range_under_jit():
    @jax.jit
    def run(x, indices):
        return (
            F.max_unpool1d(x, indices, 2),
            jax.grad(lambda x: (F.max_unpool1d(x, indices, 2) * 3).sum())(x),
        )

    want = np.zeros((1, 2, 8), np.float32)
    want[0, 0, [3, 0]], want[0, 1, 3] = X[0, 0, [0, 2]], X[0, 1, 1]
    out, gradient = run(X, OUT_OF_RANGE)
    assert_same_bits(out, want)
    assert gradient.tolist() == [[[3, 0, 3, 0], [0, 3, 0, 0]]]


def test_the_gradient_of_max_unpool1d_raises_without_its_forward_pass():
    # The compiler removes the forward pass, because the gradient does not need its result.
    gradient = jax.jit(jax.grad(lambda x, i: F.max_unpool1d(x, i, 2).sum()))
    with impl.deterministic(profile="torch-2.12"), pytest.raises(RuntimeError, match="max_unpool"):
        gradient(X, np.zeros(X.shape, np.int32))


I = np.zeros(X.shape, np.int64)  # noqa: E741
PLANE, VOLUME = X.reshape(1, 2, 2, 2), X.reshape(1, 1, 2, 2, 2)
P, Q = I.reshape(PLANE.shape), I.reshape(VOLUME.shape)

#: op, positional arguments, exception, fragment of the message
BAD: list[Call] = [
    ("max_unpool1d", (X, I + 8, 2), RuntimeError, "index 8 is out of bounds for a result of size"),
    ("max_unpool1d", (X, I - 1, 2), RuntimeError, "position [0, 0, 0] of argument 'indices'"),
    ("max_unpool2d", (PLANE, P + 16, 2), RuntimeError, "a result of size 4x4"),
    ("max_unpool3d", (VOLUME, Q + 64, 2), RuntimeError, "a result of size 4x4x4"),
    ("max_unpool1d", (X, I.astype(np.int16), 2), RuntimeError, "for indices but got: int16"),
    ("max_unpool1d", (X, X, 2), RuntimeError, "for indices but got: float32"),
    ("max_unpool1d", (X.astype(int), I, 2), NotImplementedError, "int32 in argument 'input'"),
    ("max_unpool2d", (PLANE.astype(bool), P, 2), NotImplementedError, "bool in argument 'input'"),
    ("max_unpool1d", (X[None], I[None], 2), RuntimeError, "got shape [1, 1, 2, 4]"),
    ("max_unpool2d", (PLANE[0, 0], P[0, 0], 2), RuntimeError, "3d or 4d array"),
    ("max_unpool3d", (VOLUME[0, 0], Q[0, 0], 2), RuntimeError, "4d or 5d array"),
    ("max_unpool1d", (X, I[:, :, 1:], 2), RuntimeError, "([1, 2, 4]) but got indices with shape"),
    ("max_unpool1d", (X[:, :0], I[:, :0], 2), RuntimeError, "non-batch dimensions"),
    ("max_unpool3d", (VOLUME, Q, 2, 0), RuntimeError, "strides should be greater than zero"),
    ("max_unpool2d", (PLANE, P, (2,)), RuntimeError, "must be an int or 2 of them, but got 1"),
    ("max_unpool1d", (X, I, 2.0), TypeError, "'kernel_size' must be int, not float"),
    ("max_unpool1d", (X, I, None), TypeError, "'kernel_size' must be int, not NoneType"),
    ("max_unpool1d", (X, I, "2"), TypeError, "'kernel_size' must be int, not str"),
    ("max_unpool1d", (X, I, 2, 2, 0, 9), TypeError, "'output_size' must be a tuple of ints"),
    ("max_unpool1d", (X, I, 2, 2, 0, (9.0,)), TypeError, "'output_size[0]' must be int"),
    ("max_unpool1d", (X, I, 2, 2, 0, (10,)), ValueError, "must be between 6 and 10"),
    ("max_unpool1d", (X, I, 2, 2, 0, (6,)), ValueError, 'invalid output_size "(6,)"'),
    ("max_unpool2d", (PLANE, P, 2, 2, 0, (4, 6)), ValueError, "(dim 1 must be between 2 and 6)"),
    ("max_unpool1d", (X, I, 2, 2, 0, (1, 8)), ValueError, "containing 1 or 3 elements"),
    ("max_unpool1d", (X, I, 2, 2, 10), ValueError, "non-negative spatial dimensions"),
]

#: Arguments for which PyTorch does something else.
OWN: list[Call] = [
    ("max_unpool1d", ([1.0], I, 2), TypeError, "'input' must be"),
    ("max_unpool1d", (X, [0], 2), TypeError, "'indices' must be"),
    ("max_unpool1d", (X, I, 8, 0), RuntimeError, "strides should be greater than zero"),
    ("max_unpool1d", (X, I, 2, (2, 2)), RuntimeError, "'stride' must be an int or 1 of them"),
]


class TestBadArguments(BadArgumentsOfFunctional):
    calls = BAD
    unlike_torch = OWN


def test_unique_indices_of_max_unpool1d_must_be_a_bool():
    with pytest.raises(TypeError, match="'unique_indices' must be bool"):
        F.max_unpool1d(X, I, 2, unique_indices=1)
    indices = np.arange(8).reshape(X.shape)
    got = F.max_unpool1d(X, indices, 2, unique_indices=True)
    assert_same_bits(got, unpooled(X, indices, (8,))[0])

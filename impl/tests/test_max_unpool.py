"""The three max_unpools: values, bad arguments, transformations, bits."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import impl
from impl.tests._support import assert_same_bits
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

RNG = np.random.default_rng(0)


#: Name, shape of input, other arguments, and the lengths of the result.
UNPOOLS = [
    ("max_unpool1d", (2, 3, 4), (2,), (8,)),
    ("max_unpool1d", (3, 4), ((3,), 2, 1), (7,)),
    ("max_unpool1d", (3, 4), (3, 2, 1, (8,)), (8,)),
    ("max_unpool1d", (2, 3, 4), (2, 2, 0, (2, 3, 9)), (9,)),
    ("max_unpool1d", (0, 3, 4), (2, None), (8,)),
    ("max_unpool2d", (2, 2, 3, 2), (2,), (6, 4)),
    ("max_unpool2d", (2, 3, 2), ((2, 3), (2, 1), (0, 1)), (6, 2)),
    ("max_unpool2d", (2, 2, 3, 2), ([2, 3], 2, 0, [5, 6]), (5, 6)),
    ("max_unpool3d", (2, 2, 3, 2, 2), (2,), (6, 4, 4)),
    ("max_unpool3d", (2, 3, 2, 2), ((2, 3, 1), (1, 2, 3), 0, (2, 2, 4, 5, 4)), (4, 5, 4)),
]


def places(shape, size, *, unique):
    """Indices of each channel, no two the same, or many."""
    length, total = int(np.prod(shape[-len(size) :])), int(np.prod(size))
    rows = [
        RNG.permutation(total)[:length] if unique else RNG.integers(0, total // 2, length)
        for _ in range(int(np.prod(shape[: -len(size)])))
    ]
    return np.reshape(rows, shape).astype(np.int64)


def unpooled(x, indices, size):
    """The last write, channel by channel; and which elements of ``x`` stayed."""
    lengths = x.shape[-len(size) :]
    out, shares = [], []
    for row, of_row in zip(x.reshape(-1, *lengths), indices.reshape(-1, *lengths), strict=True):
        at, empty = of_row.reshape(-1), np.zeros(int(np.prod(size)), x.dtype)
        out.append(oracles.last_write(empty, at, row.reshape(-1)))
        writer = oracles.last_write(np.full(empty.shape, -1), at, np.arange(at.size))
        shares.append(writer[at] == np.arange(at.size))
    shape = (*x.shape[: -len(size)], *size)
    return np.reshape(out, shape).astype(x.dtype), np.reshape(shares, x.shape)


@pytest.mark.parametrize("case", UNPOOLS, ids=lambda case: f"{case[0]}-{case[1]}")
def test_unpooling(case):
    name, shape, arguments, size = case
    x = RNG.standard_normal(shape).astype(np.float32)
    indices = places(shape, size, unique=False)
    want, stayed = unpooled(x, indices, size)
    got, pullback = jax.vjp(lambda x: getattr(F, name)(x, indices, *arguments), x)
    assert_same_bits(got, want)
    ct = RNG.standard_normal(want.shape).astype(np.float32)
    position = np.indices(shape)[: -len(size)].reshape(len(shape) - len(size), -1)
    flat = ct.reshape(*shape[: -len(size)], int(np.prod(size)))
    read = flat[(*position, indices.reshape(-1))].reshape(shape)
    of_x = pullback(jnp.asarray(ct))[0]
    assert_same_bits(of_x, np.where(stayed, read, np.float32(0)))

    torch = pytest.importorskip("torch")
    # There each has the gradient that is read from its place, whether it stayed or not.
    indices = places(shape, size, unique=True)
    tensor = torch.from_numpy(x).requires_grad_(True)
    out = getattr(torch.nn.functional, name)(tensor, torch.from_numpy(indices), *arguments)
    got, pullback = jax.vjp(lambda x: getattr(F, name)(x, indices, *arguments), x)
    assert_same_bits(got, out.detach().numpy())
    want = torch.autograd.grad(out, tensor, torch.from_numpy(ct))[0].numpy()
    assert_same_bits(pullback(jnp.asarray(ct))[0], want)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float64], ids=lambda d: d.__name__)
def test_dtypes_of_unpooling(dtype):
    x = RNG.standard_normal((2, 4)).astype(dtype)
    indices = np.array([[0, 3, 3, 7], [1, 1, 1, 1]], np.int32)
    with jax.enable_x64(dtype is np.float64):
        got = F.max_unpool1d(x, indices, 2)
        assert_same_bits(got, unpooled(x, indices, (8,))[0])


WILD = np.array([[[3, -1, 0, 8], [12, 3, 2**31 - 1, -(2**31)]]], np.int32)
X = RNG.standard_normal((1, 2, 4)).astype(np.float32)


@pytest.mark.usefixtures("path")
def test_writes_out_of_range_are_dropped():
    want = np.zeros((1, 2, 8), np.float32)
    want[0, 0, [3, 0]], want[0, 1, 3] = X[0, 0, [0, 2]], X[0, 1, 1]
    call = jax.jit(lambda x, i: F.max_unpool1d(x, i, 2))
    assert_same_bits(call(X, WILD), want)
    gradient = jax.jit(jax.grad(lambda x, i: (F.max_unpool1d(x, i, 2) * 3).sum()))
    assert gradient(X, WILD).tolist() == [[[3, 0, 3, 0], [0, 3, 0, 0]]]


def test_unpooling_under_transformations():
    x = RNG.standard_normal((3, 2, 4)).astype(np.float32)
    indices = RNG.integers(0, 8, (3, 2, 4))

    def call(x, i):
        return F.max_unpool1d(x, i, 2)

    want = unpooled(x, indices, (8,))[0]
    assert_same_bits(jax.vmap(call)(x, indices), want)
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    spec = PartitionSpec("d")
    mapped = jax.shard_map(call, mesh=mesh, in_specs=spec, out_specs=spec)
    assert_same_bits(jax.jit(mapped)(x, indices), want)
    out, tangent = jax.jvp(lambda x: call(x, indices), (x,), (2 * x,))
    assert_same_bits(out, want)
    assert_same_bits(tangent, 2 * want)
    loss = lambda x, i: (jax.checkpoint(call)(x, i) ** 2).sum()  # noqa: E731
    stayed = unpooled(x, indices, (8,))[1]
    assert_same_bits(jax.jit(jax.grad(loss))(x, indices), np.where(stayed, 2 * x, np.float32(0)))


def test_a_gradient_alone_is_refused_too():
    # What the forward pass returns is not needed for it, and is dropped by the compiler.
    gradient = jax.jit(jax.grad(lambda x, i: F.max_unpool1d(x, i, 2).sum()))
    with impl.deterministic(profile="torch-2.12"), pytest.raises(RuntimeError, match="max_unpool"):
        gradient(X, np.zeros(X.shape, np.int32))


I = np.zeros(X.shape, np.int64)  # noqa: E741
PLANE, VOLUME = X.reshape(1, 2, 2, 2), X.reshape(1, 1, 2, 2, 2)
P, Q = I.reshape(PLANE.shape), I.reshape(VOLUME.shape)

#: op, positional arguments, exception, fragment of the message
BAD: list[tuple[Any, ...]] = [
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

#: As above, where PyTorch does something else.
OWN: list[tuple[Any, ...]] = [
    ("max_unpool1d", ([1.0], I, 2), TypeError, "'input' must be"),
    ("max_unpool1d", (X, [0], 2), TypeError, "'indices' must be"),
    ("max_unpool1d", (X, I, 8, 0), RuntimeError, "strides should be greater than zero"),
    ("max_unpool1d", (X, I, 2, (2, 2)), RuntimeError, "'stride' must be an int or 1 of them"),
]
NAMES = [f"{bad[0]}-{bad[-1]}" for bad in BAD + OWN]


@pytest.mark.parametrize(("op", "arguments", "error", "fragment"), BAD + OWN, ids=NAMES)
def test_bad_arguments_of_unpooling(op, arguments, error, fragment):
    with pytest.raises(error, match=re.escape(fragment)) as raised:
        getattr(F, op)(*arguments)
    assert type(raised.value) is error
    assert f"{op}(): " in str(raised.value)
    if NAMES.index(f"{op}-{fragment}") < len(BAD):
        torch = pytest.importorskip("torch")
        tensors = [torch.from_numpy(a) if isinstance(a, np.ndarray) else a for a in arguments]
        with pytest.raises(error) as raised:
            getattr(torch.nn.functional, op)(*tensors)
        assert type(raised.value) is error


def test_unique_indices_must_be_a_bool():
    with pytest.raises(TypeError, match="'unique_indices' must be bool"):
        F.max_unpool1d(X, I, 2, unique_indices=1)
    indices = np.arange(8).reshape(X.shape)
    got = F.max_unpool1d(X, indices, 2, unique_indices=True)
    assert_same_bits(got, unpooled(X, indices, (8,))[0])

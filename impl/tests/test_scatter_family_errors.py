"""scatter, scatter_reduce, index_reduce, index_copy: bad arguments, and what is out of range."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests._support import assert_same_bits

pytestmark = pytest.mark.usefixtures("complete")

V = np.zeros(3, np.float32)
M = np.zeros((3, 2), np.float32)
I = np.zeros(1, np.int64)  # noqa: E741
S = np.ones(1, np.float32)
SCALAR = np.array(5, np.float32)
PAIR = np.ones((2, 2), np.float32)


def at(*values):
    return np.array(values)


#: op, positional arguments, keywords, exception, fragment of the message
BAD = [
    ("scatter", (V, 1, I, S), {}, IndexError, "range of [-1, 0], but got 1"),
    ("scatter", (V, 0.0, I, S), {}, TypeError, "'dim' must be int, not float"),
    ("scatter", (V, 0, [0], S), {}, TypeError, "'index' must be"),
    ("scatter", (V, 0, [0], 2), {}, TypeError, "'index' must be"),
    ("scatter", (V, 0, I, [1.0]), {}, TypeError, "'src' must be"),
    ("scatter", (V, 0, I, "1"), {}, TypeError, "'src' must be"),
    ("scatter", (V, 0, I), {}, TypeError, "but got neither"),
    ("scatter", (V, 0, I, S), {"value": 1}, TypeError, "but got both"),
    ("scatter", (V, 0, I), {"value": S}, TypeError, "'value' must be Number"),
    ("scatter", (V, 0, I.astype(np.int16), S), {}, RuntimeError, "for index but got: int16"),
    ("scatter", (V, 0, I.astype(np.int16), 2), {}, RuntimeError, "for index but got: int16"),
    ("scatter", (V, 0, I, S.astype(np.float16)), {}, RuntimeError, "float32 and float16"),
    ("scatter", (V, 0, I, S), {"reduce": "sum"}, RuntimeError, "'add', 'multiply', but got 'sum'"),
    ("scatter", (V, 0, I, S), {"reduce": 3}, TypeError, "'reduce' must be str, not int"),
    ("scatter", (V, 0, at(1, 3), PAIR[0]), {}, RuntimeError, "index 3 is out of bounds"),
    ("scatter", (V, 0, at(-1), S), {}, RuntimeError, "index -1 is out of bounds"),
    ("scatter", (V, 0, at(-1), 2), {}, RuntimeError, "position [0] of argument 'index'"),
    ("scatter", (M, 0, I, S), {}, RuntimeError, "as many dimensions"),
    ("scatter", (M, 0, I, 2), {}, RuntimeError, "as many dimensions"),
    ("scatter", (V, 0, at(0, 1), S), {}, RuntimeError, "no larger than src [1]"),
    ("scatter", (V, 0, I, 2j), {}, RuntimeError, "cannot be converted to float32"),
    ("scatter", (V, 0, I, 1e39), {}, RuntimeError, "without overflow, got 1e+39"),
    ("scatter", (V.astype(np.int8), 0, I, 128), {}, RuntimeError, "converted to int8"),
    ("scatter", (V.astype(np.int8), 0, I, math.nan), {}, RuntimeError, "got nan"),
    ("scatter", (V.astype(np.uint8), 0, I, -1.0), {}, RuntimeError, "converted to uint8"),
    ("scatter", (V.astype(np.float16), 0, I, 7e4), {}, RuntimeError, "converted to float16"),
    ("scatter_reduce", (V, 0, I, S, "add"), {}, RuntimeError, "'amin', but got 'add'"),
    ("scatter_reduce", (V, 0, I, S, None), {}, TypeError, "'reduce' must be str, not NoneType"),
    ("scatter_reduce", (V, 0, I, S, "sum"), {"include_self": 1}, TypeError, "must be bool"),
    ("scatter_reduce", (V, 0, I, 2.0, "sum"), {}, TypeError, "'src' must be"),
    ("scatter_reduce", ([0.0], 0, I, S, "sum"), {}, TypeError, "'input' must be"),
    ("scatter_reduce", (V, 1, I, S, "sum"), {}, IndexError, "but got 1"),
    ("scatter_reduce", (V, 0, at(3), S, "mean"), {}, RuntimeError, "index 3 is out of bounds"),
    ("scatter_reduce", (V, 0, I, S.astype(int), "sum"), {}, RuntimeError, "float32 and int"),
    ("scatter_reduce", (V > 0, 0, I, S > 0, "mean"), {}, NotImplementedError, "for bool"),
    ("index_reduce", (V, 0, I, S, "sum"), {}, RuntimeError, "'prod', 'mean', 'amax', 'amin', but"),
    ("index_reduce", (V, 0, I, S, 1), {}, TypeError, "'reduce' must be str"),
    ("index_reduce", (V, 0, I, S, "mean"), {"include_self": None}, TypeError, "must be bool"),
    ("index_reduce", (V, 0, at(3), S, "mean"), {}, IndexError, "index 3 is out of bounds"),
    ("index_reduce", (M, 0, at(0, -1), PAIR, "amax"), {}, IndexError, "index -1 is out of"),
    ("index_reduce", (V, 0, I[None], S, "prod"), {}, IndexError, "to be a vector, but got dim: 2"),
    ("index_reduce", (V, 0, I, PAIR[0], "prod"), {}, RuntimeError, "Number of indices (1)"),
    ("index_reduce", (M, 0, I, S, "prod"), {}, RuntimeError, "source.shape = [1]"),
    ("index_reduce", (V, 0, I, S.astype(np.int32), "prod"), {}, RuntimeError, "the same dtype"),
    ("index_copy", (V, 0, at(0, 3), PAIR[0]), {}, IndexError, "index 3 is out of bounds"),
    ("index_copy", (M, 0, at(-1), PAIR[:1]), {}, IndexError, "index -1 is out of bounds"),
    ("index_copy", (V, 0, I[None], S), {}, IndexError, "to be a vector"),
    ("index_copy", (V, 0, I.astype(np.int16), S), {}, RuntimeError, "but got: int16"),
    ("index_copy", (V, 0, I, S.astype(np.float16)), {}, RuntimeError, "float32 and float16"),
    ("index_copy", (V, 0, at(0, 1), S), {}, IndexError, "Number of indices (2)"),
    ("index_copy", (V, 0, at(0, 1), SCALAR), {}, IndexError, "one element (got 2)"),
    ("index_copy", (M, 0, I, S), {}, IndexError, "dimensionality must match"),
    ("index_copy", (M, 0, I, SCALAR), {}, RuntimeError, "same slice shapes"),
    ("index_copy", (M, 1, I, S[None]), {}, RuntimeError, "source.shape = [1, 1]"),
    ("index_copy", (V, 0, I, [1.0]), {}, TypeError, "'source' must be"),
]

#: As above, where PyTorch has no such argument, or does something else.
OWN = [
    ("scatter", (V, 0, I, S), {"unique_indices": 1}, TypeError, "unique_indices"),
    ("scatter_reduce", (V, 0, I, S, "sum"), {"unique_indices": 1}, TypeError, "unique_indices"),
    ("index_reduce", (V, 0, I, S, "mean"), {"unique_indices": 1}, TypeError, "unique_indices"),
    ("index_copy", (V, 0, I, S), {"unique_indices": 1}, TypeError, "unique_indices"),
    # An OverflowError in PyTorch.
    ("scatter", (V.astype(np.int32), 0, I, 2**70), {}, RuntimeError, "converted to int32"),
    # PyTorch multiplies complex numbers, in whatever order.
    (
        "scatter_reduce",
        (V.astype(np.complex64), 0, I, S.astype(np.complex64), "prod"),
        {},
        NotImplementedError,
        "jax.numpy.ndarray.at[].multiply",
    ),
]

NAMES = [f"{bad[0]}-{bad[-1]}" for bad in BAD]


@pytest.mark.parametrize(
    ("op", "arguments", "options", "error", "fragment"),
    [*BAD, *OWN],
    ids=NAMES + [f"{bad[0]}-own-{bad[-1]}" for bad in OWN],
)
def test_bad_arguments(op, arguments, options, error, fragment):
    with pytest.raises(error, match=re.escape(fragment)) as raised:
        getattr(impl, op)(*arguments, **options)
    assert type(raised.value) is error
    assert f"{op}()" in str(raised.value)


@pytest.mark.parametrize(
    ("op", "arguments", "options", "error"), [bad[:-1] for bad in BAD], ids=NAMES
)
def test_torch_raises_the_same(op, arguments, options, error):
    torch = pytest.importorskip("torch", reason="the peer is not installed")

    def tensor(value):
        return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value

    options = {name: tensor(value) for name, value in options.items()}
    with pytest.raises(error) as raised:
        getattr(torch, op)(*map(tensor, arguments), **options)
    assert type(raised.value) is error


def test_bad_arguments_come_before_what_the_mode_says():
    with (
        impl.deterministic(profile="torch-2.12"),
        impl.testing.emulate("cuda"),
        pytest.raises(RuntimeError, match="index 3 is out of bounds"),
    ):
        impl.scatter_reduce(V, 0, at(3), S, "prod")


# Under jit, where values are unknown.

SIZE = 5
INDEX = np.array([3, -1, 0, SIZE, 3, SIZE + 7, -SIZE, 2**31 - 1, -(2**31), 1], np.int32)
KEPT = (INDEX >= 0) & (INDEX < SIZE)
RNG = np.random.default_rng(0)
INPUT = RNG.standard_normal((SIZE, 2)).astype(np.float32)
SOURCE = RNG.standard_normal((len(INDEX), 2)).astype(np.float32)


def every(x, i, s):
    """Calls of each kind, along both dimensions, that have an index of the shape of the source."""
    wide = jnp.stack([i, i], 1)
    reductions = [
        {"reduce": "mean", "include_self": False},
        {"reduce": "amax", "include_self": False},
        {"reduce": "prod"},
    ]
    return [
        impl.scatter(x, 0, wide, s),
        impl.scatter(x.T, 1, wide.T, s.T),
        impl.scatter(x, 0, wide, 2.0, reduce="add"),
        impl.index_copy(x.T, 1, i, s.T),
        *(impl.scatter_reduce(x.T, 1, wide.T, s.T, **options) for options in reductions),
        *(impl.index_reduce(x, 0, i, s, **options) for options in reductions),
    ]


@pytest.mark.usefixtures("path")
def test_updates_out_of_range_are_dropped():
    got = jax.jit(every)(INPUT, INDEX, SOURCE)
    want = jax.jit(every)(INPUT, INDEX[KEPT], SOURCE[KEPT])
    for own, kept in zip(got, want, strict=True):
        assert_same_bits(own, kept)
        assert np.isfinite(own).all()


def test_gradients_of_dropped_updates_are_zero():
    def gradients(i, s):
        ones = [np.ones((SIZE, 2), np.float32), np.ones((2, SIZE), np.float32)]
        outs, pullback = jax.vjp(lambda x, s: every(x, i, s), INPUT, s)
        return pullback([ones[out.shape[0] == 2] for out in outs])

    of_input, of_source = jax.jit(gradients)(INDEX, SOURCE)
    assert not np.asarray(of_source)[~KEPT].any()
    want = jax.jit(gradients)(INDEX[KEPT], SOURCE[KEPT])
    np.testing.assert_allclose(np.asarray(of_source)[KEPT], want[1], rtol=1e-5)
    np.testing.assert_allclose(of_input, want[0], rtol=1e-5)


@pytest.mark.parametrize("lowering", ["native", "seed 1"], indirect=True)
@pytest.mark.usefixtures("lowering")
def test_a_wide_index_is_not_narrowed_first():
    wide = np.array([2**32 + 1, 1, -(2**32)])
    source = np.array([[8.0, 8], [2, 2], [8, 8]])
    with jax.enable_x64(True):
        got = jax.jit(every)(np.ones((3, 2)), wide, source)
        want = jax.jit(every)(np.ones((3, 2)), wide[1:2], source[1:2])
    for own, kept in zip(got, want, strict=True):
        assert_same_bits(own, kept)

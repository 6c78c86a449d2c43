"""max_pool1d, max_pool2d and max_pool3d."""

import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from jax.test_util import check_grads

import impl
from impl.tests import _windows
from impl.tests._greatest import array, assert_pytorch_has, assert_right, equals, pooled
from impl.tests._support import DISTINCT, LOWERINGS, assert_same_bits, spread
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

#: HYPOTHESIS_PROFILE=thorough tries as many as PyTorch is compared with.
DRAWN = 120
TRIED = DRAWN if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 8
SIZES = {1: [(11,), (3,)], 2: [(7, 6), (2, 9)], 3: [(5, 4, 6), (3, 4, 3)]}


def drawn(dims):
    """Arguments of calls, as (shape, arguments after the input); some are refused."""
    rng = np.random.default_rng(dims)
    calls = []
    while len(calls) < DRAWN:
        sizes = SIZES[dims][rng.integers(2)]
        kernel, stride, dilation = (
            tuple(int(n) for n in rng.integers(1, most, dims)) for most in (5, 5, 4)
        )
        padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel)
        given = [kernel, stride if rng.integers(4) else None, padding, dilation]
        if rng.integers(3) == 0:
            given = [kernel[0], stride[0], padding[0], dilation[0]]
        calls.append(((2, 3, *sizes)[rng.integers(2) :], (*given, bool(rng.integers(2)))))
    return calls


def each(value, dims):
    return value if isinstance(value, tuple) else (value,) * dims


def reference(dims, x, kernel, stride=None, padding=0, dilation=1, ceil=False):
    """What ``pooled`` has; None where there is no room."""
    kernels, pads, apart = (each(value, dims) for value in (kernel, padding, dilation))
    steps = each(kernel if stride is None else stride, dims)
    windows = [
        _windows.fixed(n, k, s, p, ceil, d)
        for n, k, s, p, d in zip(x.shape[-dims:], kernels, steps, pads, apart, strict=True)
    ]
    return pooled(x, windows) if all(windows) else None


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_values_indices_and_gradients(dims):
    op = getattr(F, f"max_pool{dims}d")
    calls, arrays, wanted = [], [], []
    for shape, given in drawn(dims)[:TRIED]:
        x = equals(shape)
        want = reference(dims, x, *given)
        if want is None:
            with pytest.raises(RuntimeError, match="too small"):
                op(x, *given)
        else:
            calls.append(lambda x, given=given: op(x, *given, return_indices=True))
            arrays.append(x)
            wanted.append(want)
    assert_right(calls, arrays, wanted)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_reference_is_pytorch(dims):
    torch = pytest.importorskip("torch")
    op = getattr(torch.nn.functional, f"max_pool{dims}d")
    refused = compared = 0
    for shape, given in drawn(dims):
        x = equals(shape)
        want = reference(dims, x, *given)
        if want is None:
            refused += 1
            with pytest.raises(RuntimeError, match="too small"):
                op(torch.tensor(x), *given, return_indices=True)
        elif want[1].min() >= 0:  # of windows that read nothing it has places outside
            compared += 1
            assert_pytorch_has(torch, op, given, x, want)
    assert refused > 0
    assert compared > DRAWN / 2


def test_every_way_to_find_the_greatest():
    # Windows so long that they are not gone through element by element.
    x = equals((2, 3, 70))
    x[0, 0, 5:60] = -np.inf
    x[1, ::2, ::9] = np.nan
    x[1, 1, 30:] = np.where(np.arange(40) % 3, -0.0, 0.0)
    shapes = [(17, 1, 8), (40, 3, 20, 2, True), (23, 23), (70,), (20, 60, 9, 3)]
    calls = [
        (lambda x, g=given: F.max_pool1d(x, *g, return_indices=True), given) for given in shapes
    ]
    # And along a dimension that is not the last one.
    plane = [*zip(shapes[1], (1, 1, 0, 1), strict=False), True]
    calls.append((lambda x: columns(F.max_pool2d, x, plane), shapes[1]))
    wanted = [reference(1, x, *given) for _, given in calls]
    assert_right([call for call, _ in calls], [x] * len(calls), wanted)
    whole = equals((2, 3, 70), np.int16) - 3
    got = F.max_pool1d(whole, 70, return_indices=True)
    assert_same_bits(got[0], whole.max(-1, keepdims=True))
    assert_same_bits(got[1], whole.argmax(-1, keepdims=True).astype(np.int32))


def columns(op, x, given):
    """An op of planes, applied to rows as to columns."""
    out, places = op(x[..., None], *given, return_indices=True)
    return out[..., 0], places[..., 0]


def test_bits_of_a_gradient_of_many_windows():
    # More windows share an element than are written out.
    x = spread(np.random.default_rng(0), (3, 2, 120))
    ct = spread(np.random.default_rng(1), (3, 2, 120 - 79))
    ct[0, 0, 3] = ct[1, 1, 0] = -0.0
    at = pooled(x, [_windows.fixed(120, 80, 1)])[1]
    want = np.zeros_like(x)
    for lane in np.ndindex(3, 2):
        index = np.full((120, 41), -1)
        index[at[lane], np.arange(41)] = np.arange(41)
        want[lane] = oracles.window(ct[lane], index)
    got = jax.jit(lambda x, ct: jax.vjp(lambda x: F.max_pool1d(x, 80, 1), x)[1](ct)[0])(x, ct)
    turned = jax.jit(lambda x, ct: jax.vjp(lambda x: F.max_pool2d(x, (80, 1), 1), x)[1](ct)[0])(
        *(np.moveaxis(part, 0, 2)[None] for part in (x, ct))
    )
    assert_same_bits(got, want)
    assert_same_bits(np.moveaxis(turned[0], 2, 0), want)


@pytest.mark.parametrize("name", DISTINCT)
def test_where_nothing_is_shared_a_negative_zero_stays(name):
    ct = np.array([[-0.0, 0.0]], np.float32)
    with LOWERINGS[name]():
        pullback = jax.vjp(lambda x: F.max_pool1d(x, 2), np.array([[1, 2, 3, 0.0]], np.float32))[1]
        assert_same_bits(pullback(ct)[0], np.array([[0, -0.0, 0, 0]], np.float32))


def test_equals_and_nan():
    nan = np.nan
    x = np.array([[-0.0, 0.0, 0.0, -0.0, 1, nan, nan, 1, -np.inf, -np.inf]], np.float32)
    out, places = F.max_pool1d(x, 2, return_indices=True)
    assert_same_bits(out, np.array([[-0.0, 0.0, nan, nan, -np.inf]], np.float32))
    assert places.tolist() == [[0, 2, 5, 6, 8]]
    gradient = jax.grad(lambda x: F.max_pool1d(x, 2).sum())(x)
    assert gradient.tolist() == [[1, 0, 1, 0, 0, 1, 1, 0, 1, 0]]
    # In a plane the first in row-major order, though columns come first.
    plane = np.array([[[0, 1, nan], [1, 0, nan], [nan, 1, 0]]], np.float32)
    assert F.max_pool2d(plane, 2, 1, return_indices=True)[1].tolist() == [[[1, 2], [6, 5]]]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8])
def test_a_window_that_reads_nothing(dtype):
    x = np.ones((1, 2, 3), dtype)
    out, places = F.max_pool2d(x, 2, (1, 2), 1, (3, 1), return_indices=True)
    lowest = -np.inf if dtype == np.float32 else np.iinfo(dtype).min
    assert_same_bits(out, np.full((1, 1, 2), lowest, dtype))
    assert places.tolist() == [[[-1, -1]]]
    if dtype == np.float32:
        gradient = jax.grad(lambda x: F.max_pool2d(x, 2, (1, 2), 1, (3, 1)).sum())(x)
        assert_same_bits(gradient, np.zeros_like(x))


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=lambda d: d.__name__)
def test_narrow_floats_are_rounded_once(dtype):
    x = array((2, 9, 9)).astype(dtype)
    ct = array((2, 9, 8), 1).astype(dtype)

    @jax.jit
    def run(x, ct):
        out, pullback = jax.vjp(lambda x: F.max_pool2d(x, (5, 4), 1, (2, 1)), x)
        return out, pullback(ct)[0]

    wide = run(x.astype(np.float32), ct.astype(np.float32))
    for got, want in zip(run(x, ct), wide, strict=True):
        assert_same_bits(got, np.asarray(want).astype(dtype))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32"])
def test_integers(dtype):
    limits = np.iinfo(dtype)
    x = np.array([[limits.min, limits.max, 5, 7, limits.min, limits.min]], dtype)
    out, places = F.max_pool1d(x, 2, return_indices=True)
    assert_same_bits(out, np.array([[limits.max, 7, limits.min]], dtype))
    assert places.tolist() == [[1, 3, 4]]


def test_64_bits():
    with jax.enable_x64(True):
        x = np.random.default_rng(0).standard_normal((2, 5, 6))
        out, places, pullback = reference(2, x, 3, 2, 1)
        got, own, at = jax.vjp(lambda x: F.max_pool2d(x, 3, 2, 1, 1, False, True), x, has_aux=True)
        assert_same_bits(got, out)
        assert_same_bits(at, places)
        assert_same_bits(own(jnp.ones_like(got))[0], pullback(np.ones(out.shape)))
        check_grads(jax.jit(lambda x: F.max_pool2d(x, 3, 2, 1) ** 2), (x,), order=2, eps=1e-6)
        wide = np.array([[2**40, 2**40 + 1, -(2**60)]])
        assert_same_bits(F.max_pool1d(wide, 3), wide[:, 1:2])


def test_a_batch_without_examples():
    got, pullback = jax.vjp(lambda x: F.max_pool2d(x, 2), jnp.ones((0, 3, 4, 5)))
    assert got.shape == (0, 3, 2, 2)
    assert pullback(got)[0].shape == (0, 3, 4, 5)


def test_transforms_keep_the_bits():
    x, t = array((3, 2, 7, 6)), array((3, 2, 7, 6), 1)

    def op(x):
        return F.max_pool2d(x, (3, 2), (2, 1), 1)

    def loss(x, t):
        return (op(x) * op(t)).sum()

    def indices(x):
        return F.max_pool2d(x, (3, 2), (2, 1), 1, return_indices=True)[1]

    gradient = jax.jit(jax.grad(loss))(x, t)
    places = indices(x).reshape(3, 2, -1)
    tangent = jax.jit(lambda x, t: jax.jvp(op, (x,), (t,)))(x, t)[1]
    picked = np.take_along_axis(t.reshape(3, 2, -1), np.asarray(places), -1)
    assert_same_bits(tangent, picked.reshape(tangent.shape))
    mapped = jax.jit(jax.vmap(lambda x: F.max_pool2d(x, (3, 2), (2, 1), 1, 1, False, True), 1, 1))
    assert_same_bits(mapped(x)[0], op(x))
    assert_same_bits(mapped(x)[1], indices(x))
    assert_same_bits(jax.jit(jax.grad(jax.checkpoint(loss)))(x, t), gradient)
    assert_same_bits(jax.jit(jax.vmap(jax.grad(loss)))(x, t), gradient)
    mesh = Mesh(np.array(jax.devices()[:1]), ("x",))
    spec = PartitionSpec("x")
    mapped = jax.shard_map(jax.grad(loss), mesh=mesh, in_specs=(spec, spec), out_specs=spec)
    assert_same_bits(jax.jit(mapped)(x, t), gradient)


def test_a_gradient_alone_raises():
    x = jnp.ones((1, 4, 4, 4))
    with impl.deterministic(True, profile="torch-2.12"), impl.testing.emulate("cuda"):
        jax.jit(lambda x: F.max_pool3d(x, 2, return_indices=True)).lower(x)
        with pytest.raises(RuntimeError, match="max_pool3d_with_indices_backward_cuda"):
            jax.jit(jax.grad(lambda x: F.max_pool3d(x, 2).sum())).lower(x)


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


L, HW, DHW = ones(2, 3, 6), ones(3, 6, 6), ones(3, 6, 6, 6)
#: op, positional arguments, keywords, exception, fragment of the message
BAD = [
    ("max_pool1d", ([[1.0]], 1), {}, TypeError, "'input' must be"),
    ("max_pool1d", (ones(6), 2), {}, RuntimeError, "2 or 3 (batch mode) dimensions, but got"),
    ("max_pool1d", (ones(1, 1, 1, 6), 2), {}, RuntimeError, "but got shape [1, 1, 1, 6]"),
    ("max_pool2d", (ones(1, 1, 1, 6, 6), 2), {}, RuntimeError, "3 or 4 (batch mode)"),
    ("max_pool3d", (ones(6, 6, 6), 2), {}, RuntimeError, "4 or 5 (batch mode)"),
    ("max_pool1d", (ones(2, 0, 6), 2), {}, RuntimeError, "but got shape [2, 0, 6]"),
    ("max_pool2d", (ones(0, 6, 6), 2), {}, RuntimeError, "non-zero size"),
    ("max_pool3d", (ones(2, 3, 6, 0, 6), 2), {}, RuntimeError, "non-zero size"),
    ("max_pool1d", (L, 0), {}, RuntimeError, "kernel_size should be greater than zero"),
    ("max_pool2d", (HW, (2, -1)), {}, RuntimeError, "kernel_size should be greater than zero"),
    ("max_pool1d", (L, 2, 0), {}, RuntimeError, "stride should be greater than zero, but got [0]"),
    ("max_pool3d", (DHW, 2, (1, -1, 1)), {}, RuntimeError, "stride should be greater than zero"),
    ("max_pool1d", (L, 2, 1, -1), {}, RuntimeError, "padding must be non-negative, but got [-1]"),
    ("max_pool2d", (HW, 3, 1, (1, 2)), {}, RuntimeError, "at most half of kernel_size"),
    ("max_pool2d", (HW, 2, 1, 2, 3), {}, RuntimeError, "at most half of kernel_size"),
    ("max_pool2d", (HW, 2, 1, 0, 0), {}, RuntimeError, "dilation should be greater than zero"),
    ("max_pool3d", (DHW, 2, 1, 0, -1), {}, RuntimeError, "but got [-1, -1, -1]"),
    ("max_pool1d", (L, 8), {}, RuntimeError, "size 6 gives an output of size 0"),
    ("max_pool2d", (HW, 2, 1, 0, (5, 6)), {}, RuntimeError, "gives an output of size 1x0"),
    ("max_pool1d", (L, (2, 2)), {}, RuntimeError, "'kernel_size' must be an int or 1 of them"),
    ("max_pool2d", (HW, (2, 2, 2)), {}, RuntimeError, "'kernel_size' must be an int or 2 of them"),
    ("max_pool3d", (DHW, 2, (2, 2)), {}, RuntimeError, "'stride' must be an int or 3 of them"),
    ("max_pool2d", (HW, 2, 2, (0, 0, 0)), {}, RuntimeError, "'padding' must be an int or 2"),
    ("max_pool2d", (HW, 2, 2, 0, (1, 1, 1)), {}, RuntimeError, "'dilation' must be an int or 2"),
    ("max_pool1d", (L, 2.0), {}, TypeError, "'kernel_size' must be int, not float"),
    ("max_pool1d", (L, True), {}, TypeError, "'kernel_size' must be int, not bool"),
    ("max_pool2d", (HW, None), {}, TypeError, "'kernel_size' must be int, not NoneType"),
    ("max_pool2d", (HW, 2, "2"), {}, TypeError, "'stride' must be int, not str"),
    ("max_pool2d", (HW, 2, 2, 0, 1.5), {}, TypeError, "'dilation' must be int, not float"),
    ("max_pool2d", (HW, 2), {"ceil_mode": 1}, TypeError, "'ceil_mode' must be bool, not int"),
    ("max_pool2d", (HW.astype(bool), 2), {}, NotImplementedError, "not implemented for bool"),
    ("max_pool3d", (DHW.astype(np.complex64), 2), {}, NotImplementedError, "for complex64"),
]  # fmt: skip


@pytest.mark.parametrize(("op", "given", "named", "error", "fragment"), BAD)
def test_bad_arguments(op, given, named, error, fragment):
    with pytest.raises(error, match=re.escape(fragment)) as caught:
        getattr(F, op)(*given, **named)
    assert str(caught.value).startswith(f"{op}(): ")


def test_pytorch_refuses_the_same():
    torch = pytest.importorskip("torch")
    for op, given, named, error, _ in BAD:
        tensors = [torch.tensor(a) if isinstance(a, np.ndarray) else a for a in given]
        with pytest.raises(error):
            getattr(torch.nn.functional, op)(*tensors, **named)


def test_return_indices_is_a_bool():
    with pytest.raises(TypeError, match=r"^max_pool1d\(\): argument 'return_indices' must be bool"):
        F.max_pool1d(L, 2, return_indices=1)


def test_forms_of_arguments():
    x = array((3, 6, 6))
    want = F.max_pool2d(x, (2, 2), (2, 2), (0, 0), (1, 1))
    for given in [(2,), ([2],), ((2,), []), ([2, 2], (2,), [0], [1]), (np.int64(2), None)]:
        assert_same_bits(F.max_pool2d(x, *given), want)


@pytest.mark.usefixtures("lowering")
def test_a_gradient_of_minus_zero_keeps_its_sign():
    x = np.array([[[3, 1, 2, 5]]], np.float32)
    pullback = jax.vjp(lambda x: F.max_pool1d(x, 3, 1), x)[1]
    (got,) = pullback(jnp.full((1, 1, 2), -0.0))
    assert_same_bits(got, np.array([[[-0.0, 0, 0, -0.0]]], np.float32))

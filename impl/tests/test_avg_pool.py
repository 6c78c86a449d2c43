"""avg_pool1d, avg_pool2d and avg_pool3d."""

import functools
import os
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import impl
from impl.tests import _windows
from impl.tests._support import DISTINCT, LOWERINGS, assert_same_bits, spread
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
#: HYPOTHESIS_PROFILE=thorough tries as many as PyTorch is compared with.
DRAWN = 120
TRIED = DRAWN if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 14
SIZES = {1: [(11,), (3,)], 2: [(7, 6), (1, 9)], 3: [(5, 4, 6), (3, 4, 3)]}


def drawn(dims):
    """Arguments of calls, as (shape, arguments after the input); some are refused."""
    rng = np.random.default_rng(dims)
    calls = []
    while len(calls) < DRAWN:
        sizes = SIZES[dims][rng.integers(2)]
        kernel = tuple(int(k) for k in rng.integers(1, 6, dims))
        stride = tuple(int(s) for s in rng.integers(1, 5, dims))
        padding = tuple(int(rng.integers(0, k // 2 + 1)) for k in kernel)
        given = [
            kernel,
            stride if rng.integers(4) else None,
            padding,
            *map(bool, rng.integers(2, size=2)),
        ]
        if rng.integers(3) == 0:
            given[:3] = [kernel[0], stride[0], padding[0]]
        if dims > 1:
            given.append([None, None, 3, -2][rng.integers(4)])
        calls.append(((2, 3, *sizes)[rng.integers(2) :], tuple(given)))
    return calls


def each(value, dims):
    return value if isinstance(value, tuple) else (value,) * dims


def reference(dims, x, kernel, stride=None, padding=0, ceil=False, include=True, divisor=None):
    """The result and a function to the gradient; None where there is no room."""
    sizes, pads = x.shape[-dims:], each(padding, dims)
    kernels, steps = each(kernel, dims), each(kernel if stride is None else stride, dims)
    windows = [
        _windows.fixed(*along, ceil) for along in zip(sizes, kernels, steps, pads, strict=True)
    ]
    if not all(windows) or (dims == 3 and any(n < k for n, k in zip(sizes, kernels, strict=True))):
        return None
    if divisor is None:
        limits = [(-p, n + p) if include else (0, n) for n, p in zip(sizes, pads, strict=True)]
        divisor = _windows.within(windows, limits)
    return _windows.mean(x, windows, divisor)


def array(shape, seed=0):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_values_and_gradients(dims):
    op = getattr(F, f"avg_pool{dims}d")
    calls, wanted = [], []
    for shape, given in drawn(dims)[:TRIED]:
        want = reference(dims, array(shape), *given)
        if want is None:
            with pytest.raises(RuntimeError, match=r"too small|smaller than kernel_size"):
                op(array(shape), *given)
        else:
            calls.append((shape, given))
            wanted.append(want)

    # One program for all: compiling each takes longer.
    @jax.jit
    def run(arrays, cotangents):
        results = []
        for x, ct, (_, given) in zip(arrays, cotangents, calls, strict=True):
            out, pullback = jax.vjp(lambda x, given=given: op(x, *given), x)
            results.append((out, pullback(ct)[0]))
        return results

    cotangents = [array(out.shape, 1) for out, _ in wanted]
    results = run([array(shape) for shape, _ in calls], cotangents)
    for got, (out, pullback), ct, call in zip(results, wanted, cotangents, calls, strict=True):
        assert got[0].dtype == np.float32
        np.testing.assert_allclose(got[0], out, err_msg=str(call), **CLOSE)
        np.testing.assert_allclose(got[1], pullback(ct), err_msg=str(call), **CLOSE)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_the_reference_is_pytorch(dims):
    torch = pytest.importorskip("torch")
    op = getattr(torch.nn.functional, f"avg_pool{dims}d")
    refused = 0
    for shape, given in drawn(dims):
        x = torch.tensor(array(shape), requires_grad=True)
        want = reference(dims, array(shape), *given)
        if want is None:
            refused += 1
            with pytest.raises(RuntimeError, match=r"too small|smaller than kernel size"):
                op(x, *given)
            continue
        out = op(x, *given)
        np.testing.assert_allclose(out.detach(), want[0], err_msg=str((shape, given)), **CLOSE)
        ct = array(out.shape, 1)
        gradient = torch.autograd.grad(out, x, torch.tensor(ct))[0]
        np.testing.assert_allclose(gradient, want[1](ct), err_msg=str((shape, given)), **CLOSE)
    assert 0 < refused < DRAWN / 2


@pytest.mark.parametrize("name", DISTINCT)
def test_bits_of_the_sum(name):
    x = spread(np.random.default_rng(0), (2, 9, 3, 11))
    total = x
    for axis, k in ((3, 5), (2, 2), (1, 4)):
        index = np.array(_windows.fixed(x.shape[axis], k, 1))
        total = np.moveaxis(oracles.window(np.moveaxis(total, axis, 0), index), 0, axis)
    with LOWERINGS[name]():
        got = jax.jit(lambda x: F.avg_pool3d(x, (4, 2, 5), 1))(x)
    assert_same_bits(got, total * np.float32(1 / 40))


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=lambda d: d.__name__)
def test_narrow_floats_are_rounded_once(dtype):
    x = array((3, 9, 9)).astype(dtype)
    ct = array((3, 5, 4)).astype(dtype)

    @jax.jit
    def run(x, ct):
        out, pullback = jax.vjp(lambda x: F.avg_pool2d(x, (3, 4), 2, 1, False, False), x)
        return out, pullback(ct)[0]

    wide = run(x.astype(np.float32), ct.astype(np.float32))
    for got, want in zip(run(x, ct), wide, strict=True):
        assert_same_bits(got, np.asarray(want).astype(dtype))


def test_float64():
    with jax.enable_x64(True):
        x = np.random.default_rng(0).standard_normal((2, 5, 6))
        out, pullback = reference(2, x, 3, 2, 1, True, False)
        got, own = jax.vjp(lambda x: F.avg_pool2d(x, 3, 2, 1, True, False), x)
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, out, rtol=1e-14, atol=1e-14)
        np.testing.assert_allclose(own(jnp.ones_like(got))[0], pullback(np.ones(out.shape)))
        check_grads(lambda x: F.avg_pool2d(x, 3, 2, 1, False) ** 2, (x,), order=2)


def test_integers_are_divided_towards_zero():
    x = np.array([[-3, 0, 5, 2, -7, 4]], np.int32)
    assert F.avg_pool1d(x, 2).tolist() == [[-1, 3, -1]]
    assert F.avg_pool1d(x, 2, 2, 1, count_include_pad=False).tolist() == [[-3, 2, -2, 4]]
    assert F.avg_pool2d(x[None], (1, 2), divisor_override=-2).tolist() == [[[1, -3, 1]]]
    assert F.avg_pool2d(x[None], (1, 2), divisor_override=2**40).tolist() == [[[0, 0, 0]]]
    with jax.enable_x64(True):
        got = F.avg_pool1d(x.astype(np.int64) * 2**40, 2)
        assert got.dtype == np.int64
        assert got.tolist() == [[-3 * 2**39, 7 * 2**39, -3 * 2**39]]


def test_a_batch_without_examples():
    got, pullback = jax.vjp(lambda x: F.avg_pool2d(x, 2), jnp.ones((0, 3, 4, 5)))
    assert got.shape == (0, 3, 2, 2)
    assert pullback(got)[0].shape == (0, 3, 4, 5)


def test_transforms_keep_the_bits():
    x, t = array((3, 2, 7, 6)), array((3, 2, 7, 6), 1)

    def op(x):
        return F.avg_pool2d(x, (3, 2), (2, 1), 1)

    out, tangent = jax.jit(lambda x, t: jax.jvp(op, (x,), (t,)))(x, t)
    gradient = jax.jit(jax.grad(lambda x: (op(x) * op(t)).sum()))(x)
    assert_same_bits(tangent, op(t))  # linear
    assert_same_bits(jax.vmap(op, 1, 1)(x), out)
    once = jax.grad(jax.checkpoint(lambda x: (op(x) * op(t)).sum()))
    assert_same_bits(jax.jit(once)(x), gradient)
    assert_same_bits(
        jax.jit(jax.vmap(jax.grad(lambda x, t: (op(x) * op(t)).sum())))(x, t), gradient
    )


def test_a_gradient_alone_raises():
    x = jnp.ones((1, 4, 4, 4))
    with impl.deterministic(True, profile="torch-2.12"), impl.testing.emulate("cuda"):
        op = functools.partial(F.avg_pool3d, kernel_size=2)
        assert op(x).tolist() == np.ones((1, 2, 2, 2)).tolist()
        with pytest.raises(RuntimeError, match="avg_pool3d_backward_cuda"):
            jax.grad(lambda x: op(x).sum())(x)


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


L, HW, DHW = ones(2, 3, 6), ones(3, 6, 6), ones(3, 6, 6, 6)
#: op, positional arguments, keywords, exception, fragment of the message
BAD = [
    ("avg_pool1d", ([[1.0]], 1), {}, TypeError, "'input' must be"),
    ("avg_pool1d", (ones(6), 2), {}, RuntimeError, "2 or 3 (batch mode) dimensions, but got"),
    ("avg_pool1d", (ones(1, 1, 1, 6), 2), {}, RuntimeError, "but got shape [1, 1, 1, 6]"),
    ("avg_pool2d", (ones(1, 1, 1, 6, 6), 2), {}, RuntimeError, "3 or 4 (batch mode)"),
    ("avg_pool3d", (ones(6, 6, 6), 2), {}, RuntimeError, "4 or 5 (batch mode)"),
    ("avg_pool1d", (ones(2, 0, 6), 2), {}, RuntimeError, "but got shape [2, 0, 6]"),
    ("avg_pool2d", (ones(2, 0, 6), 2), {}, RuntimeError, "non-zero size"),
    ("avg_pool3d", (ones(2, 3, 6, 0, 6), 2), {}, RuntimeError, "non-zero size"),
    ("avg_pool1d", (L, 0), {}, RuntimeError, "kernel_size should be greater than zero"),
    ("avg_pool2d", (HW, (2, -1)), {}, RuntimeError, "kernel_size should be greater than zero"),
    ("avg_pool1d", (L, 2, 0), {}, RuntimeError, "stride should be greater than zero, but got [0]"),
    ("avg_pool3d", (DHW, 2, (1, -1, 1)), {}, RuntimeError, "stride should be greater than zero"),
    ("avg_pool1d", (L, 2, 1, -1), {}, RuntimeError, "padding must be non-negative, but got [-1]"),
    ("avg_pool2d", (HW, 3, 1, (1, 2)), {}, RuntimeError, "at most half of kernel_size"),
    ("avg_pool1d", (L, 8), {}, RuntimeError, "size 6 gives an output of size 0"),
    ("avg_pool2d", (HW, (2, 7)), {}, RuntimeError, "gives an output of size 3x0"),
    ("avg_pool3d", (DHW, 7, 1, 1), {}, RuntimeError, "smaller than kernel_size [7, 7, 7]"),
    ("avg_pool1d", (L, (2, 2)), {}, RuntimeError, "'kernel_size' must be an int or 1 of them"),
    ("avg_pool2d", (HW, (2, 2, 2)), {}, RuntimeError, "'kernel_size' must be an int or 2 of them"),
    ("avg_pool3d", (DHW, 2, (2, 2)), {}, RuntimeError, "'stride' must be an int or 3 of them"),
    ("avg_pool2d", (HW, 2, 2, (0, 0, 0)), {}, RuntimeError, "'padding' must be an int or 2"),
    ("avg_pool1d", (L, 2.0), {}, TypeError, "'kernel_size' must be int, not float"),
    ("avg_pool1d", (L, True), {}, TypeError, "'kernel_size' must be int, not bool"),
    ("avg_pool2d", (HW, None), {}, TypeError, "'kernel_size' must be int, not NoneType"),
    ("avg_pool2d", (HW, 2, "2"), {}, TypeError, "'stride' must be int, not str"),
    ("avg_pool2d", (HW, 2, 2, (0, 0.5)), {}, TypeError, "'padding[1]' must be int, not float"),
    ("avg_pool2d", (HW, 2), {"ceil_mode": 1}, TypeError, "'ceil_mode' must be bool, not int"),
    ("avg_pool1d", (L, 2), {"count_include_pad": 0}, TypeError, "'count_include_pad' must be bool"),
    ("avg_pool2d", (HW, 2), {"divisor_override": 0}, RuntimeError, "must be not zero"),
    ("avg_pool3d", (DHW, 2), {"divisor_override": 2.0}, TypeError, "must be int, not float"),
    ("avg_pool2d", (HW, 2), {"divisor_override": True}, TypeError, "must be int, not bool"),
    ("avg_pool1d", (L.astype(np.uint8), 2), {}, NotImplementedError, "not implemented for uint8"),
    ("avg_pool2d", (HW.astype(bool), 2), {}, NotImplementedError, "not implemented for bool"),
    ("avg_pool3d", (DHW.astype(np.complex64), 2), {}, NotImplementedError, "for complex64"),
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


def test_forms_of_arguments():
    x = array((3, 6, 6))
    want = F.avg_pool2d(x, (2, 2), (2, 2), (0, 0))
    for given in [(2,), ([2],), ((2,), []), ([2, 2], (2,), [0]), (np.int64(2), None)]:
        assert_same_bits(F.avg_pool2d(x, *given), want)

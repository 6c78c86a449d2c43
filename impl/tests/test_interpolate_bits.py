"""interpolate: bits, dtypes, transforms, and what it costs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import impl
from impl.nn.functional._resampling import Axis
from impl.tests._resampling import applied, array, matrices, matrix
from impl.tests._support import DISTINCT, LOWERINGS, assert_same_bits, bits, spread
from spec import oracles

interpolate = impl.nn.functional.interpolate
pytestmark = pytest.mark.usefixtures("complete")


def test_what_weighs_nothing_is_not_read():
    x = np.array([[[1, np.inf, 2, np.nan, 3]]], np.float32)
    for mode, value in (("linear", x), ("bilinear", x[None]), ("bicubic", x[None])):
        size = (1, 9) if mode.startswith("bi") else 9
        got = interpolate(value, size, mode=mode, align_corners=True).reshape(9)
        assert_same_bits(got[::2], x[0, 0])
        same = interpolate(value, value.shape[2:], mode=mode)
        assert_same_bits(same, value)


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
def test_bits_are_copied(mode):
    """NaNs of all kinds and subnormals."""
    dtypes = [np.float16, jnp.bfloat16, np.float32, np.uint8]
    patterns = np.random.default_rng(0).integers(0, 256, 2 * 3 * 5 * 4, np.uint8)
    arrays = [patterns[: 30 * np.dtype(d).itemsize].view(d).reshape(1, 2, 3, 5) for d in dtypes]
    at = [matrix(n, m, mode).argmax(1) for n, m in ((3, 7), (5, 4))]
    got = jax.jit(lambda arrays: [interpolate(x, (7, 4), mode=mode) for x in arrays])(arrays)
    for x, out in zip(arrays, got, strict=True):
        want = np.ascontiguousarray(x[:, :, at[0]][:, :, :, at[1]])
        assert_same_bits(np.asarray(out).view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_bytes(mode, antialias):
    x = np.random.default_rng(0).integers(0, 256, (2, 3, 9, 8)).astype(np.uint8)
    got = interpolate(x, (5, 13), mode=mode, antialias=antialias)
    given = {"mode": mode, "size": (5, 13), "antialias": antialias}
    assert got.dtype == np.uint8
    rows, columns = matrices((9, 8), given)
    want = np.clip(np.rint(applied(x, [np.eye(9), columns])), 0, 255)
    want = np.clip(np.rint(applied(want, [rows, np.eye(13)])), 0, 255)
    assert np.abs(np.asarray(got).astype(int) - want).max() <= 1  # of a tie
    assert np.mean(got != want) < 0.1
    torch = pytest.importorskip("torch")
    peer = torch.nn.functional.interpolate(torch.tensor(x), **given).numpy().astype(int)
    assert np.abs(np.asarray(got) - peer).max() <= 1  # its weights are of 16 bits


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=lambda d: d.__name__)
def test_narrow_floats_are_rounded_once(dtype):
    @jax.jit
    def run(x, ct):
        out, pullback = jax.vjp(lambda x: interpolate(x, (11, 12), mode="bicubic"), x)
        return out, pullback(ct)[0]

    x, ct = array((2, 1, 5, 9)).astype(dtype), array((2, 1, 11, 12)).astype(dtype)
    for got, want in zip(run(x, ct), run(np.float32(x), np.float32(ct)), strict=True):
        assert_same_bits(got, np.asarray(want).astype(dtype))


def test_float64():
    with jax.enable_x64(True):
        x = array((1, 2, 4, 5), dtype=np.float64)
        for mode, antialias in (("bicubic", False), ("bilinear", True), ("area", False)):
            given = {"mode": mode, "size": (3, 8), "antialias": antialias}
            got = interpolate(x, **given)
            assert got.dtype == np.float64
            want = applied(x, matrices((4, 5), given))
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
        check_grads(lambda x: interpolate(x, **given) ** 3, (x,), order=2)


def test_nothing_to_compute():
    for mode, size in (("nearest", 3), ("bilinear", 3), ("area", 3), ("area", 0)):
        x = jnp.ones((0, 2, 4, 5))
        out, pullback = jax.vjp(lambda x, m=mode, s=size: interpolate(x, s, mode=m), x)
        assert out.shape == (0, 2, size, size)
        assert pullback(out)[0].shape == x.shape
    gradient = jax.grad(lambda x: interpolate(x, 0, mode="area").sum())(jnp.ones((1, 2, 4)))
    assert not np.any(gradient)


def test_transforms_keep_the_bits():
    x, t = array((3, 2, 5, 6)), array((3, 2, 5, 6), 1)

    def op(x):
        return interpolate(x, scale_factor=1.7, mode="bicubic")

    weight = jnp.asarray(array(op(x).shape, 2))

    def loss(x, weight):
        return (op(x) * weight).sum()

    out, tangent = jax.jit(lambda x, t: jax.jvp(op, (x,), (t,)))(x, t)
    own = jax.jit(jax.grad(loss))(x, weight)
    assert_same_bits(tangent, op(t))
    assert_same_bits(jax.vmap(op)(x[:, None])[:, 0], out)
    each = jax.jit(jax.vmap(jax.grad(loss)))(x[:, None], weight[:, None])
    assert_same_bits(each[:, 0], own)
    assert_same_bits(jax.jit(jax.grad(jax.checkpoint(loss)))(x, weight), own)


@pytest.mark.parametrize("name", DISTINCT)
def test_bits_of_results_and_gradients(name):
    """With weights that are no sums of a few powers of 2."""
    n, m = (3, 7, 9), (8, 17, 5)
    tables = [Axis(a, b, None, False, np.float32).linear() for a, b in zip(n, m, strict=True)]
    x, ct = (spread(np.random.default_rng(0), (2, *sizes)) for sizes in (n, m))
    out, gradient = x, ct
    for axis in (3, 2, 1):
        table = tables[axis - 1]
        moved = oracles.window(np.moveaxis(out, axis, 0), table.index, table.weight)
        out = np.moveaxis(moved, 0, axis)
    for axis, table in enumerate(tables, 1):
        dense = np.zeros((table.outputs, table.inputs))
        for row, index, weight in zip(dense, table.index, table.weight, strict=True):
            row[index[index >= 0]] = weight[index >= 0]
        index = np.where(dense.T != 0, np.arange(table.outputs), -1)
        moved = oracles.window(np.moveaxis(gradient, axis, 0), index, dense.T)
        gradient = np.moveaxis(moved, 0, axis)
    assert bits(np.float32(gradient)) == bits(gradient)

    @jax.jit
    def run(x, ct):
        out, pullback = jax.vjp(lambda x: interpolate(x[None], m, mode="trilinear")[0], x)
        return out, pullback(ct)[0]

    with LOWERINGS[name]():
        got = run(x, ct)
    assert_same_bits(got[0], out)
    assert_same_bits(got[1], gradient)


@pytest.mark.parametrize(
    ("mode", "caller"), [("bilinear", "upsample_bilinear2d_backward_out_cuda"), ("nearest", None)]
)
def test_a_gradient_alone_raises(mode, caller):
    x = jnp.ones((1, 2, 3, 3))
    with impl.deterministic(True, profile="torch-2.12"), impl.testing.emulate("cuda"):
        assert interpolate(x, 5, mode=mode).shape == (1, 2, 5, 5)
        gradient = jax.grad(lambda x: interpolate(x, 5, mode=mode).sum())
        if caller is None:
            gradient(x)
        else:
            with pytest.raises(RuntimeError, match=caller):
                gradient(x)


@pytest.mark.parametrize(
    ("sizes", "size", "options"),
    [
        ((28, 28), 56, {"mode": "bilinear"}),
        ((56, 56), 50, {"mode": "bilinear", "antialias": True}),
        ((28, 28), 60, {"mode": "bicubic"}),
        ((12, 12, 12), 17, {"mode": "trilinear"}),
    ],
)
def test_memory(sizes, size, options):
    """No dimension is computed anew for each tap of the next, and no product is stored."""
    dims = len(sizes)
    m = (size,) * dims
    # What is in memory between dimensions: forward the last are done first, and back the first.
    between = [
        *(math.prod(sizes[:k] + m[k:]) for k in range(1, dims)),
        *(math.prod(sizes[:k] + m[k:]) for k in range(1, dims)),
    ]
    room = 4 * 16 * sum(sorted(between)[-min(2, dims - 1) :]) * 1.05

    def op(x):
        return interpolate(x, size, **options)

    for function, shape in (
        (op, (1, 16, *sizes)),
        (lambda ct: jax.vjp(op, jnp.zeros((1, 16, *sizes)))[1](ct)[0], (1, 16, *m)),
    ):
        compiled = jax.jit(function).lower(jax.ShapeDtypeStruct(shape, np.float32)).compile()
        assert compiled.memory_analysis().temp_size_in_bytes <= room

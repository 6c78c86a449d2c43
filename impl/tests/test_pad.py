"""pad: values, gradients and bits."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import impl
from impl.tests._support import DISTINCT, LOWERINGS, assert_same_bits, spread
from spec import oracles

pad = impl.nn.functional.pad
pytestmark = pytest.mark.usefixtures("complete")

MODES = ("reflect", "replicate", "circular")
#: HYPOTHESIS_PROFILE=thorough tries as many as PyTorch is compared with.
DRAWN = 60
TRIED = DRAWN if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 4
SIZES = {1: (7,), 2: (5, 6), 3: (4, 3, 5)}


def array(shape, seed=0, dtype=np.float32):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def source(mode, i, n, before, after):
    """The position that the element at ``i`` is a copy of."""
    if mode == "replicate":
        return min(max(i, 0), n - 1)
    start, stop = max(-before, 0), n + min(after, 0)
    while mode == "circular" and not start <= i < stop:
        i += (stop - start) if i < start else (start - stop)
    return -i if i < 0 else 2 * (n - 1) - i if i >= n else i


def positions(shape, flat, mode):
    """For each padded dimension of a shape, the positions of what is read."""
    pairs = list(zip(flat[::2], flat[1::2], strict=True))[::-1]
    return [
        [source(mode, i, n, *pair) for i in range(-pair[0], n + pair[1])]
        for n, pair in zip(shape[-len(pairs) :], pairs, strict=True)
    ]


def read(x, places):
    for axis, along in enumerate(places, x.ndim - len(places)):
        x = np.take(x, along, axis)
    return x


def gradient(ct, shape, places):
    """In float64."""
    ct = ct.astype(np.result_type(ct, np.float64))
    for axis, along in enumerate(places, len(shape) - len(places)):
        out = np.zeros((*ct.shape[:axis], shape[axis], *ct.shape[axis + 1 :]), ct.dtype)
        np.add.at(np.moveaxis(out, axis, 0), along, np.moveaxis(ct, axis, 0))
        ct = out
    return ct


def drawn(mode, dims):
    """Shapes, and what is added to or taken from the ends of their last dimensions."""
    rng = np.random.default_rng((dims, *mode.encode()))
    calls = []
    while len(calls) < DRAWN:
        shape = (2, 3, *SIZES[dims])[rng.integers(2) :]
        flat = []
        for n in reversed(SIZES[dims]):
            before, after = (int(p) for p in rng.integers(-n // 2, n + 1, 2))
            most = {"reflect": n - 1, "replicate": 2 * n}.get(mode, n + min(before, after, 0))
            pair = min(before, most), min(after, most)
            flat += pair if n + sum(pair) > 0 else (0, 1)
        calls.append((shape, tuple(flat)))
    return calls


@pytest.mark.parametrize("mode", MODES)
def test_values_and_gradients(mode):
    calls = [call for dims in SIZES for call in drawn(mode, dims)[:TRIED]]
    every = [positions(*call, mode) for call in calls]

    # One program for all: compiling each takes longer.
    @jax.jit
    def run(arrays, cotangents):
        results = []
        for x, ct, (_, flat) in zip(arrays, cotangents, calls, strict=True):
            out, pullback = jax.vjp(lambda x, flat=flat: pad(x, flat, mode), x)
            results.append((out, pullback(ct)[0]))
        return results

    arrays = [array(shape) for shape, _ in calls]
    wanted = [read(x, places) for x, places in zip(arrays, every, strict=True)]
    cotangents = [array(out.shape, 1) for out in wanted]
    results = run(arrays, cotangents)
    for got, want, ct, places, call in zip(results, wanted, cotangents, every, calls, strict=True):
        assert_same_bits(got[0], want)
        own = gradient(ct, call[0], places)
        np.testing.assert_allclose(got[1], own, rtol=1e-5, atol=1e-5, err_msg=str(call))


@pytest.mark.parametrize("mode", MODES)
def test_the_reference_is_pytorch(mode):
    torch = pytest.importorskip("torch")
    for shape, flat in [call for dims in SIZES for call in drawn(mode, dims)]:
        x, places = torch.tensor(array(shape), requires_grad=True), positions(shape, flat, mode)
        out = torch.nn.functional.pad(x, flat, mode)
        assert_same_bits(out.detach(), read(array(shape), places))
        ct = array(out.shape, 1)
        got = torch.autograd.grad(out, x, torch.tensor(ct))[0]
        np.testing.assert_allclose(got, gradient(ct, shape, places), rtol=1e-5, atol=1e-5)


CONSTANTS = [
    ((), (), None),
    ((3,), (2, 1), 2.5),
    ((3,), (-1, 2), -1),
    ((3, 2), (0, -2), 1.0),
    ((3, 2), (1, 0, -3, 1), None),
    ((2, 3, 4), (1, 2, -1, 3, 0, 1), float("inf")),
    ((0, 3), (1, 1), 7),
    ((2, 0), (1, 2), 7),
    ((1, 2, 1, 2, 3), (0, 1, 2, -1, 1, 1, -1, 0, 1, 0), -0.0),
]


def constant(x, flat, value):
    """``x`` cut first, and then grown."""
    if x.ndim == 0:
        return x
    pairs = list(zip(flat[::2], flat[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    cut = [slice(max(-a, 0), n + min(b, 0)) for n, (a, b) in zip(x.shape, pairs, strict=True)]
    grown = [(max(a, 0), max(b, 0)) for a, b in pairs]
    return np.pad(x[tuple(cut)], grown, constant_values=0 if value is None else value)


def test_constants():
    def both(x, flat, value):
        return pad(x, flat, value=value), jax.grad(lambda x: (pad(x, flat) ** 2).sum())(x)

    @jax.jit
    def run(arrays):
        return [both(x, *given) for x, (_, *given) in zip(arrays, CONSTANTS, strict=True)]

    arrays = [array(shape) for shape, *_ in CONSTANTS]
    for got, x, (_, flat, value) in zip(run(arrays), arrays, CONSTANTS, strict=True):
        assert_same_bits(got[0], constant(x, flat, value))
        kept = constant(np.ones_like(x), flat, 0)
        assert got[0].size >= kept.sum() == np.count_nonzero(got[1])
        assert set(np.ravel(got[1])) <= {*np.ravel(2 * x), 0}


def test_constants_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    for shape, flat, value in CONSTANTS:
        got = torch.nn.functional.pad(torch.tensor(array(shape)), flat, value=value)
        assert_same_bits(got, constant(array(shape), flat, value))


@pytest.mark.parametrize(
    ("dtype", "value", "held"),
    [
        (np.int32, 1.7, 1),
        (np.int8, -128, -128),
        (np.uint8, 255, 255),
        (bool, 2.0, True),
        (np.float16, 1.5, 1.5),
        (jnp.bfloat16, True, 1),
        (np.complex64, np.float32(2), 2),
        (np.int32, jnp.float32(3.7), 3),
        (np.float32, np.array(2), 2),
    ],
)
def test_dtypes_of_constants(dtype, value, held):
    got = pad(np.ones(1, dtype), (1, 0), value=value)
    assert got.dtype == dtype
    assert got.tolist() == np.array([held, 1], dtype).tolist()


def test_a_value_may_be_traced_and_has_no_derivative():
    def padded(value):
        return pad(jnp.ones(3), (2, 1), value=value)

    assert jax.jit(padded)(jnp.float32(4)).tolist() == [4, 4, 1, 1, 1, 4]
    assert jax.vmap(padded)(jnp.arange(2.0))[:, 0].tolist() == [0, 1]
    assert jax.grad(lambda value: padded(value).sum())(1.0) == 0


DTYPES = [
    np.float16, jnp.bfloat16, np.float32, np.int8, np.uint8, np.int16, np.int32, np.uint32,
    np.complex64,
]  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
def test_bits_are_copied(mode):
    """NaNs of all kinds, subnormals and the greatest integers."""
    patterns = np.random.default_rng(0).integers(0, 256, 2 * 3 * 5 * 8, np.uint8)
    dtypes = [*DTYPES, bool] if mode == "circular" else DTYPES
    arrays = []
    for dtype in dtypes:
        size = np.dtype(dtype).itemsize
        raw = patterns % 2 == 1 if dtype is bool else patterns[: 30 * size].view(dtype)
        arrays.append(raw[:30].reshape(2, 3, 5))
    places = positions((2, 3, 5), (2, 3, -1, 2), mode)
    got = jax.jit(lambda arrays: [pad(x[None], (2, 3, -1, 2), mode)[0] for x in arrays])(arrays)
    for x, out in zip(arrays, got, strict=True):
        assert_same_bits(np.asarray(out).view(np.uint8), np.array(read(x, places)).view(np.uint8))


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=lambda d: d.__name__)
def test_gradients_of_narrow_floats_are_rounded_once(dtype):
    @jax.jit
    def pullback(ct):
        return jax.vjp(lambda x: pad(x, (9, 0, 7, 8), "replicate"), jnp.zeros((2, 4, 3), ct.dtype))[
            1
        ](ct)[0]

    ct = array((2, 19, 12)).astype(dtype)
    assert_same_bits(pullback(ct), np.asarray(pullback(ct.astype(np.float32))).astype(dtype))


@pytest.mark.parametrize("name", ["off", *DISTINCT])
def test_gradients_of_complex_numbers(name):
    ct = (array((3, 9)) + 1j * array((3, 9), 1)).astype(np.complex64)
    mode = impl.deterministic(name != "off", profile="complete")
    with mode, LOWERINGS["kernel" if name == "off" else name]():
        pullback = jax.vjp(lambda x: pad(x, (2, 3), "reflect"), jnp.zeros((3, 4), jnp.complex64))[1]
        got = pullback(jnp.asarray(ct))[0]
    places = positions((3, 4), (2, 3), "reflect")
    np.testing.assert_allclose(got, gradient(ct, (3, 4), places), rtol=1e-5, atol=1e-5)


def test_float64():
    with jax.enable_x64(True):
        x = array((2, 4, 3), dtype=np.float64)
        for mode in MODES:
            got = pad(x, (2, 1, 0, -1), mode)
            assert_same_bits(got, read(x, positions(x.shape, (2, 1, 0, -1), mode)))
            check_grads(lambda x, m=mode: pad(x, (2, 1, 0, -1), m) ** 3, (x,), order=2)


@pytest.mark.parametrize(
    ("mode", "shape"),
    [
        ("reflect", (0, 2, 4)),
        ("replicate", (0, 2, 4)),
        ("circular", (0, 4)),
        ("circular", (0, 2, 3, 4)),
        ("circular", (2, 0, 4)),
    ],
)
def test_batches_without_examples(mode, shape):
    flat = (1, 2) * (len(shape) - 1 if len(shape) == 2 else len(shape) - 2)
    out, pullback = jax.vjp(lambda x: pad(x, flat, mode), jnp.ones(shape))
    assert out.shape == read(np.ones(shape), positions(shape, flat, mode)).shape
    assert pullback(out)[0].shape == shape


def test_dimensions_that_vanish():
    x = array((2, 3, 4))
    for mode in MODES:
        out, pullback = jax.vjp(lambda x, m=mode: pad(x, (1, 1, -2, -1), m), x)
        assert out.shape == (2, 0, 6)
        assert not np.any(pullback(out)[0])
    assert pad(x, (-2, -2), "circular").shape == (2, 3, 0)
    assert pad(x[:, :, :0], (0, 0), "circular").shape == (2, 3, 0)


def test_transforms_keep_the_bits():
    x, t = array((3, 2, 5, 6)), array((3, 2, 5, 6), 1)
    out = pad(x, (4, 3, 2, 4), "reflect")
    weight = jnp.asarray(array(out.shape, 2))

    def op(x):
        return pad(x, (4, 3, 2, 4), "reflect")

    def loss(x, weight):
        return (op(x) * weight).sum()

    tangent = jax.jit(lambda x, t: jax.jvp(op, (x,), (t,))[1])(x, t)
    own = jax.jit(jax.grad(loss))(x, weight)
    assert_same_bits(tangent, op(t))
    assert_same_bits(jax.vmap(op, 1, 1)(x), out)
    assert_same_bits(jax.jit(jax.vmap(jax.grad(loss)))(x, weight), own)
    assert_same_bits(jax.jit(jax.grad(jax.checkpoint(loss)))(x, weight), own)


@pytest.mark.parametrize("name", DISTINCT)
def test_bits_of_a_gradient(name):
    """In three dimensions, of which the middle one is left as it is."""
    shape, flat = (2, 3, 4, 5), (30, 25, 0, 0, 12, 40)
    places = positions(shape, flat, "replicate")
    ct = spread(np.random.default_rng(0), read(np.zeros(shape), places).shape)
    want = ct
    for axis, along in enumerate(places, 1):
        readers = [np.flatnonzero(np.array(along) == i) for i in range(shape[axis])]
        index = np.array([list(r) + [-1] * (60 - len(r)) for r in readers])
        want = np.moveaxis(oracles.window(np.moveaxis(want, axis, 0), index), 0, axis)
    with LOWERINGS[name]():
        got = jax.jit(
            lambda ct: jax.vjp(lambda x: pad(x, flat, "replicate"), jnp.zeros(shape))[1](ct)[0]
        )(ct)
    assert_same_bits(got, want)


@pytest.mark.parametrize(
    ("mode", "caller"),
    [("reflect", "reflection_pad1d_backward_out_cuda"), ("replicate", None), ("circular", None)],
)
def test_a_gradient_alone_raises(mode, caller):
    x = jnp.ones((2, 3))
    with impl.deterministic(True, profile="torch-2.12"), impl.testing.emulate("cuda"):
        assert pad(x, (1, 1), mode).shape == (2, 5)
        gradient = jax.grad(lambda x: pad(x, (1, 1), mode).sum())
        if caller is None:
            gradient(x)
        else:
            with pytest.raises(RuntimeError, match=caller):
                gradient(x)
        jax.grad(lambda x: pad(x, (1, 1)).sum())(x)

"""pad; ``test_pad_arguments`` has its bad arguments."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import THOROUGH, normal
from impl.tests.nn.support.derivatives import assert_derivatives
from impl.tests.nn.support.programs import results_and_gradients
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.lowerings import DISTINCT, LOWERINGS
from impl.tests.support.numbers import spread
from spec import oracles

pad = impl.nn.functional.pad
pytestmark = pytest.mark.usefixtures("complete")

MODES = ("reflect", "replicate", "circular")
#: The number of calls whose reference is compared with PyTorch, and how many of them impl computes.
CALLS = 60
COMPUTED = CALLS if THOROUGH else 4
SIZES = {1: (7,), 2: (5, 6), 3: (4, 3, 5)}


def source(mode, i, n, before, after):
    """Returns the index in the input of the element that is copied to ``i``."""
    if mode == "replicate":
        return min(max(i, 0), n - 1)
    start, stop = max(-before, 0), n + min(after, 0)
    while mode == "circular" and not start <= i < stop:
        i += (stop - start) if i < start else (start - stop)
    return -i if i < 0 else 2 * (n - 1) - i if i >= n else i


def sources(shape, widths, mode):
    """Returns the indices of the copied elements, for each padded dimension."""
    pairs = list(zip(widths[::2], widths[1::2], strict=True))[::-1]
    return [
        [source(mode, i, n, *pair) for i in range(-pair[0], n + pair[1])]
        for n, pair in zip(shape[-len(pairs) :], pairs, strict=True)
    ]


def padded(x, indices):
    for axis, of_dim in enumerate(indices, x.ndim - len(indices)):
        x = np.take(x, of_dim, axis)
    return x


def gradient_of(cotangent, shape, indices):
    """Returns the gradient in float64."""
    cotangent = cotangent.astype(np.result_type(cotangent, np.float64))
    for axis, of_dim in enumerate(indices, len(shape) - len(indices)):
        out = np.zeros((*cotangent.shape[:axis], shape[axis], *cotangent.shape[axis + 1 :]))
        out = out.astype(cotangent.dtype)
        np.add.at(np.moveaxis(out, axis, 0), of_dim, np.moveaxis(cotangent, axis, 0))
        cotangent = out
    return cotangent


def drawn_calls(mode, dims):
    """Returns shapes, and the widths that are added to or removed from their last dimensions."""
    rng = np.random.default_rng((dims, *mode.encode()))
    calls = []
    while len(calls) < CALLS:
        shape = (2, 3, *SIZES[dims])[rng.integers(2) :]
        widths = []
        for n in reversed(SIZES[dims]):
            before, after = (int(p) for p in rng.integers(-n // 2, n + 1, 2))
            most = {"reflect": n - 1, "replicate": 2 * n}.get(mode, n + min(before, after, 0))
            pair = min(before, most), min(after, most)
            widths += pair if n + sum(pair) > 0 else (0, 1)
        calls.append((shape, tuple(widths)))
    return calls


@pytest.mark.parametrize("mode", MODES)
def test_values_and_gradients(mode):
    drawn = [call for dims in SIZES for call in drawn_calls(mode, dims)[:COMPUTED]]
    indices = [sources(*call, mode) for call in drawn]
    inputs = [normal(shape) for shape, _ in drawn]
    wanted = [padded(x, of_call) for x, of_call in zip(inputs, indices, strict=True)]
    cotangents = [normal(want.shape, 1) for want in wanted]
    calls = [lambda x, widths=widths: pad(x, widths, mode) for _, widths in drawn]
    results = results_and_gradients(calls, [(x,) for x in inputs], cotangents)
    for (out, gradient), want, cotangent, of_call, (shape, widths) in zip(
        results, wanted, cotangents, indices, drawn, strict=True
    ):
        assert_same_bits(out, want)
        want_gradient = gradient_of(cotangent, shape, of_call)
        message = f"{shape}, {widths}"
        np.testing.assert_allclose(gradient, want_gradient, rtol=1e-5, atol=1e-5, err_msg=message)


@pytest.mark.parametrize("mode", MODES)
def test_pytorch_has_the_values_of_the_reference(mode):
    torch = pytest.importorskip("torch")
    for shape, widths in [call for dims in SIZES for call in drawn_calls(mode, dims)]:
        x, indices = torch.tensor(normal(shape), requires_grad=True), sources(shape, widths, mode)
        out = torch.nn.functional.pad(x, widths, mode)
        assert_same_bits(out.detach(), padded(normal(shape), indices))
        cotangent = normal(out.shape, 1)
        got = torch.autograd.grad(out, x, torch.tensor(cotangent))[0]
        want = gradient_of(cotangent, shape, indices)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


#: Shape, widths, value.
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


def padded_with_constant(x, widths, value):
    """Removes elements first, and adds elements afterwards."""
    if x.ndim == 0:
        return x
    pairs = list(zip(widths[::2], widths[1::2], strict=True))[::-1]
    pairs = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    inside = [slice(max(-a, 0), n + min(b, 0)) for n, (a, b) in zip(x.shape, pairs, strict=True)]
    added = [(max(a, 0), max(b, 0)) for a, b in pairs]
    return np.pad(x[tuple(inside)], added, constant_values=0 if value is None else value)


def test_constants():
    @jax.jit
    def run(inputs):
        return [
            (
                pad(x, widths, value=value),
                jax.grad(lambda x, widths=widths: (pad(x, widths) ** 2).sum())(x),
            )
            for x, (_, widths, value) in zip(inputs, CONSTANTS, strict=True)
        ]

    inputs = [normal(shape) for shape, *_ in CONSTANTS]
    for (out, gradient), x, (_, widths, value) in zip(run(inputs), inputs, CONSTANTS, strict=True):
        assert_same_bits(out, padded_with_constant(x, widths, value))
        copies = padded_with_constant(np.ones_like(x), widths, 0)
        assert out.size >= copies.sum() == np.count_nonzero(gradient)
        assert set(np.ravel(gradient)) <= {*np.ravel(2 * x), 0}


def test_pytorch_has_the_values_of_the_reference_of_constants():
    torch = pytest.importorskip("torch")
    for shape, widths, value in CONSTANTS:
        got = torch.nn.functional.pad(torch.tensor(normal(shape)), widths, value=value)
        assert_same_bits(got, padded_with_constant(normal(shape), widths, value))


@pytest.mark.parametrize(
    ("dtype", "value", "converted"),
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
def test_a_constant_is_converted_to_the_dtype_of_the_input(dtype, value, converted):
    got = pad(np.ones(1, dtype), (1, 0), value=value)
    assert got.dtype == dtype
    assert got.tolist() == np.array([converted, 1], dtype).tolist()


def test_a_value_may_be_traced_and_has_no_derivative():
    def call(value):
        return pad(jnp.ones(3), (2, 1), value=value)

    assert jax.jit(call)(jnp.float32(4)).tolist() == [4, 4, 1, 1, 1, 4]
    assert jax.vmap(call)(jnp.arange(2.0))[:, 0].tolist() == [0, 1]
    assert jax.grad(lambda value: call(value).sum())(1.0) == 0


DTYPES = [
    np.float16,
    jnp.bfloat16,
    np.float32,
    np.int8,
    np.uint8,
    np.int16,
    np.int32,
    np.uint32,
    np.complex64,
]


@pytest.mark.parametrize("mode", MODES)
def test_bits_are_copied(mode):
    """The elements are NaNs of all kinds, subnormals and the greatest integers."""
    patterns = np.random.default_rng(0).integers(0, 256, 2 * 3 * 5 * 8, np.uint8)
    dtypes = [*DTYPES, bool] if mode == "circular" else DTYPES
    arrays = []
    for dtype in dtypes:
        size = np.dtype(dtype).itemsize
        raw = patterns % 2 == 1 if dtype is bool else patterns[: 30 * size].view(dtype)
        arrays.append(raw[:30].reshape(2, 3, 5))
    indices = sources((2, 3, 5), (2, 3, -1, 2), mode)
    results = jax.jit(lambda arrays: [pad(x[None], (2, 3, -1, 2), mode)[0] for x in arrays])(arrays)
    for x, out in zip(arrays, results, strict=True):
        want = np.array(padded(x, indices)).view(np.uint8)
        assert_same_bits(np.asarray(out).view(np.uint8), want)


def test_gradients_of_narrow_floats_are_added_in_float32_and_rounded_once():
    @jax.jit
    def gradient(cotangent):
        x = jnp.zeros((2, 4, 3), cotangent.dtype)
        return jax.vjp(lambda x: pad(x, (9, 0, 7, 8), "replicate"), x)[1](cotangent)[0]

    for dtype in (np.float16, jnp.bfloat16):
        narrow = normal((2, 19, 12)).astype(dtype)
        want = np.asarray(gradient(narrow.astype(np.float32))).astype(dtype)
        assert_same_bits(gradient(narrow), want)


@pytest.mark.parametrize("name", ["off", *DISTINCT])
def test_gradients_of_complex_numbers(name):
    cotangent = (normal((3, 9)) + 1j * normal((3, 9), 1)).astype(np.complex64)
    x = jnp.zeros((3, 4), jnp.complex64)
    gradient = jax.jit(lambda ct: jax.vjp(lambda x: pad(x, (2, 3), "reflect"), x)[1](ct)[0])
    with contextlib.ExitStack() as stack:
        stack.enter_context(impl.deterministic(name != "off", profile="complete"))
        stack.enter_context(LOWERINGS["kernel" if name == "off" else name]())
        got = gradient(cotangent)
    want = gradient_of(cotangent, (3, 4), sources((3, 4), (2, 3), "reflect"))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_float64(mode):
    x = normal((2, 4, 3), dtype=np.float64)
    with jax.enable_x64(True):
        got = jax.jit(lambda x: pad(x, (2, 1, 0, -1), mode))(x)
        assert_same_bits(got, padded(x, sources(x.shape, (2, 1, 0, -1), mode)))
    assert_derivatives(lambda x: pad(x, (2, 1, 0, -1), mode) ** 3, (x,))


#: Mode, shape, widths, shape of the result; the input or the result is empty.
EMPTY = [
    ("reflect", (0, 2, 4), (1, 2), (0, 2, 7)),
    ("replicate", (0, 2, 4), (1, 2), (0, 2, 7)),
    ("circular", (0, 4), (1, 2), (0, 7)),
    ("circular", (0, 2, 3, 4), (1, 2, 1, 2), (0, 2, 6, 7)),
    ("circular", (2, 0, 4), (1, 2), (2, 0, 7)),
    *((mode, (2, 3, 4), (1, 1, -2, -1), (2, 0, 6)) for mode in MODES),
    ("circular", (2, 3, 4), (-2, -2), (2, 3, 0)),
    ("circular", (2, 3, 0), (0, 0), (2, 3, 0)),
]


@pytest.mark.parametrize(("mode", "shape", "widths", "result"), EMPTY)
def test_empty_inputs_and_results(mode, shape, widths, result):
    @jax.jit
    def run(x):
        out, pullback = jax.vjp(lambda x: pad(x, widths, mode), x)
        return out, pullback(out)[0]

    out, gradient = run(jnp.ones(shape))
    assert out.shape == result
    assert gradient.shape == shape
    assert not np.any(gradient)


@pytest.mark.parametrize("name", DISTINCT)
def test_bits_of_a_gradient(name):
    """Of three dimensions, the one in the middle is not padded."""
    shape, widths = (2, 3, 4, 5), (30, 25, 0, 0, 12, 40)
    indices = sources(shape, widths, "replicate")
    cotangent = spread(np.random.default_rng(0), padded(np.zeros(shape), indices).shape)
    want = cotangent
    for axis, of_dim in enumerate(indices, 1):
        copies = [np.flatnonzero(np.array(of_dim) == i) for i in range(shape[axis])]
        index = np.array([list(c) + [-1] * (60 - len(c)) for c in copies])
        want = np.moveaxis(oracles.window(np.moveaxis(want, axis, 0), index), 0, axis)
    x = jnp.zeros(shape)
    gradient = jax.jit(lambda ct: jax.vjp(lambda x: pad(x, widths, "replicate"), x)[1](ct)[0])
    with LOWERINGS[name]():
        assert_same_bits(gradient(cotangent), want)


@pytest.mark.parametrize(
    ("mode", "caller"),
    [
        ("constant", None),
        ("reflect", "reflection_pad1d_backward_out_cuda"),
        ("replicate", None),
        ("circular", None),
    ],
)
def test_the_gradient_raises_and_the_forward_pass_does_not(mode, caller):
    x = jnp.ones((2, 3))
    with impl.deterministic(True, profile="torch-2.12"), impl.testing.emulate("cuda"):
        jax.jit(lambda x: pad(x, (1, 1), mode)).lower(x)
        gradient = jax.jit(jax.grad(lambda x: pad(x, (1, 1), mode).sum()))
        if caller is None:
            gradient.lower(x)
        else:
            with pytest.raises(RuntimeError, match=caller):
                gradient.lower(x)

"""adaptive_max_pool1d, 2d and 3d; fractional_max_pool2d and fractional_max_pool3d."""

import os
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

import impl
from impl.tests import _windows
from impl.tests._greatest import array, assert_pytorch_has, assert_right, equals, pooled
from impl.tests._support import DISTINCT, LOWERINGS, assert_same_bits, spread
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

#: HYPOTHESIS_PROFILE=thorough tries as many as PyTorch is compared with.
DRAWN = 100
TRIED = DRAWN if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 5


def adaptive_calls(dims):
    """Inputs and output sizes."""
    rng = np.random.default_rng(dims)
    for draw in range(DRAWN):
        sizes = tuple(map(int, rng.integers(1, 9, dims)))
        to = [int(n) for n in rng.integers(1, 11, dims)]
        if dims > 1 and draw % 3 == 0:
            to[draw % dims] = None
        given = max(filter(None, to)) if draw % 5 == 1 else tuple(to)
        yield equals((2, 3, *sizes)[draw % 2 :]), (given,)


def adaptive(dims, x, to):
    sizes = x.shape[-dims:]
    to = to if isinstance(to, tuple) else (to,) * dims
    counts = [n if m is None else m for n, m in zip(sizes, to, strict=True)]
    return pooled(x, [_windows.shared_out(n, m) for n, m in zip(sizes, counts, strict=True)])


def fractional_calls(dims):
    """Inputs and arguments after them, the last of which are the samples."""
    rng = np.random.default_rng(dims)
    for draw in range(DRAWN):
        sizes = rng.integers(3, [70, 12, 8][dims - 1], dims)
        kernel = rng.integers(1, np.minimum(sizes, 5))
        most = sizes - kernel + (dims == 2)
        lengths = rng.integers(1, most + 1)
        shape = (2, 3, *map(int, sizes))[draw % 2 :]
        # There may be samples for more examples than there are.
        samples = rng.random((3 if draw % 7 == 0 else 2 - draw % 2, 3, dims), np.float32)
        samples.flat[0] = [0, 0.5, 1 - 2**-24][draw % 3]
        given = [tuple(map(int, kernel)), tuple(map(int, lengths)), None]
        if draw % 4 == 0:
            given = [int(kernel.min()), int(lengths.min()), None]
        elif draw % 4 == 1:
            # Such that the rounded product is the length.
            given[1:] = [
                None,
                tuple(float(n + 0.5) / s for n, s in zip(lengths, sizes, strict=True)),
            ]
        yield equals(shape), (*given, samples)


def fractional(dims, x, kernel, lengths, ratio, samples):
    sizes = x.shape[-dims:]
    kernels = kernel if isinstance(kernel, tuple) else (kernel,) * dims
    if lengths is None:
        lengths = tuple(int(n * r) for n, r in zip(sizes, ratio, strict=True))
    lengths = lengths if isinstance(lengths, tuple) else (lengths,) * dims

    def windows(lane):
        own = samples.reshape(-1, dims)[lane]
        own = own[::-1] if dims == 2 else own
        return [starts(*along) for along in zip(sizes, kernels, lengths, own, strict=True)]

    return pooled(x, windows)


def starts(size, kernel, length, sample):
    """Windows that begin at random steps, in the precision of the sample."""
    number = type(sample)
    places = [size - kernel]
    if length > 1:
        alpha = number(size - kernel) / number(length - 1)
        steps = [int((number(i) + sample) * alpha) - int(sample * alpha) for i in range(length - 1)]
        places = [*steps, size - kernel]
    return [list(range(place, place + kernel)) for place in places]


KINDS = {
    **{f"adaptive_max_pool{d}d": (adaptive_calls, adaptive, d) for d in (1, 2, 3)},
    **{f"fractional_max_pool{d}d": (fractional_calls, fractional, d) for d in (2, 3)},
}


def indexed(name, given):
    """The call of an op that returns indices, with all arguments but the input."""
    named = {"_random_samples": given[3]} if len(given) == 4 else {}
    return lambda x: getattr(F, name)(x, *given[:3], return_indices=True, **named)


@pytest.mark.parametrize("name", KINDS)
def test_values_indices_and_gradients(name):
    drawn, reference, dims = KINDS[name]
    calls = list(drawn(dims))[:TRIED]
    wanted = [reference(dims, x, *given) for x, given in calls]
    assert_right([indexed(name, given) for _, given in calls], [x for x, _ in calls], wanted)


@pytest.mark.parametrize("name", KINDS)
def test_the_reference_is_pytorch(name):
    torch = pytest.importorskip("torch")
    op = getattr(torch.nn.functional, name)
    drawn, reference, dims = KINDS[name]
    for x, given in drawn(dims):
        want = reference(dims, x, *given)
        if name.startswith("fractional"):
            samples = torch.tensor(given[3])

            def call(x, *rest, samples=samples, **named):
                return op(x, *rest, _random_samples=samples, **named)

            assert_pytorch_has(torch, call, given[:3], x, want)
        else:
            assert_pytorch_has(torch, op, given, x, want)


def test_an_output_size_of_zero():
    x, key = array((2, 3, 5, 4)), jax.random.key(0)
    for op, shape in (
        (lambda x: F.adaptive_max_pool2d(x, (0, 3)), (2, 3, 0, 3)),
        (lambda x: F.fractional_max_pool2d(x, 2, (3, 0), key=key), (2, 3, 3, 0)),
        (lambda x: F.fractional_max_pool2d(x, 2, output_ratio=(0.1, 0.5), key=key), (2, 3, 0, 2)),
    ):
        out, gradient = jax.jit(jax.value_and_grad(lambda x, op=op: op(x).sum()))(x)
        assert jax.eval_shape(op, x).shape == shape
        assert out == 0
        assert_same_bits(gradient, np.zeros_like(x))


def test_nothing_to_pool():
    key = jax.random.key(0)
    for shape in ((0, 3, 5, 4), (0, 5, 4)):
        x = jnp.ones(shape)
        for op in (
            lambda x: F.adaptive_max_pool2d(x, 2),
            lambda x: F.fractional_max_pool2d(x, 2, 2, key=key),
        ):
            assert jax.jit(op)(x).shape == (*shape[:-2], 2, 2)
            assert jax.jit(jax.grad(lambda x, op=op: op(x).sum()))(x).shape == shape


def test_a_key_draws_samples():
    x, key = array((2, 3, 9, 8)), jax.random.key(7)
    samples = jax.random.uniform(key, (6, 2)).reshape(2, 3, 2)
    want = F.fractional_max_pool2d(x, 3, 4, _random_samples=samples)
    drawn = jax.jit(lambda x, key: F.fractional_max_pool2d(x, 3, 4, key=key))
    assert_same_bits(drawn(x, key), want)
    assert (drawn(x, jax.random.key(8)) != want).any()
    with pytest.raises(ValueError, match=r"shape \[1, 3, 2\]; got neither"):
        F.fractional_max_pool2d(x[0], 3, 4)


def test_samples_of_nowhere_read_nothing_outside():
    x = equals((2, 1, 9, 8))
    op = jax.jit(lambda x, samples: F.fractional_max_pool2d(x, 3, 4, None, True, samples))
    for sample in (np.nan, -3.5, 7.0, np.inf, 1e30):
        out, places = op(x, np.full((2, 1, 2), sample, np.float32))
        at = np.asarray(places).reshape(2, -1)
        assert at.min() >= 0
        assert at.max() < 72
        assert_same_bits(np.take_along_axis(x.reshape(2, -1), at, 1), out.reshape(2, -1))


def test_long_windows_that_data_decide():
    # So long that they are gone through in a loop.
    x = equals((2, 3, 60, 4))
    x[0, 1, 20:] = np.nan
    samples = np.random.default_rng(0).random((2, 3, 2), np.float32)
    given = ((50, 2), (9, 2), None, samples)
    assert_right([indexed("fractional_max_pool2d", given)], [x], [fractional(2, x, *given)])


@pytest.mark.parametrize("name", DISTINCT)
def test_bits_of_a_fractional_gradient(name):
    x = spread(np.random.default_rng(0), (2, 2, 9, 10))
    ct = spread(np.random.default_rng(1), (2, 2, 6, 7))
    samples = np.random.default_rng(2).random((2, 2, 2), np.float32)
    given = ((4, 4), (6, 7), None, samples)
    at = fractional(2, x, *given)[1].reshape(4, -1)
    zeros = np.zeros(90, np.float32)
    want = [oracles.panel(zeros, i, c) for i, c in zip(at, ct.reshape(4, -1), strict=True)]

    @jax.jit
    def run(x, ct):
        op = indexed("fractional_max_pool2d", given)
        return jax.vjp(lambda x: op(x)[0], x)[1](ct)[0]

    with LOWERINGS[name]():
        assert_same_bits(run(x, ct), np.stack(want).reshape(x.shape))


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=lambda d: d.__name__)
def test_narrow_floats(dtype):
    # Elements and steps are computed in float32, and a gradient is rounded once.
    x, ct = array((2, 3, 9, 9)).astype(dtype), array((2, 3, 4, 5), 1).astype(dtype)
    samples = np.random.default_rng(0).random((2, 3, 2)).astype(dtype)

    @jax.jit
    def run(x, ct, samples):
        both = []
        for op in (
            lambda x: F.adaptive_max_pool2d(x, (4, 5)),
            lambda x: F.fractional_max_pool2d(x, 4, (4, 5), _random_samples=samples),
        ):
            out, pullback = jax.vjp(op, x)
            both += [out, pullback(ct)[0]]
        return both

    wide = run(*(part.astype(np.float32) for part in (x, ct, samples)))
    for got, want in zip(run(x, ct, samples), wide, strict=True):
        assert_same_bits(got, np.asarray(want).astype(dtype))


def test_64_bits():
    with jax.enable_x64(True):
        rng = np.random.default_rng(0)
        x, samples = rng.standard_normal((1, 2, 6, 7)), rng.random((1, 2, 2))
        given = (3, 4, None, samples)
        out, places, pullback = fractional(2, x, *given)
        got, own, at = jax.vjp(indexed("fractional_max_pool2d", given), x, has_aux=True)
        assert_same_bits(got, out)
        assert_same_bits(at, places)
        np.testing.assert_allclose(own(jnp.ones_like(got))[0], pullback(np.ones(out.shape)))
        square = jax.jit(lambda x: indexed("fractional_max_pool2d", given)(x)[0] ** 2)
        check_grads(square, (x,), order=2, modes=("rev",), eps=1e-6)


def test_transforms_keep_the_bits():
    x, t = array((3, 2, 7, 6)), array((3, 2, 7, 6), 1)
    samples = np.random.default_rng(0).random((3, 2, 2), np.float32)

    def op(x, samples):
        return F.fractional_max_pool2d(x, 3, (4, 3), _random_samples=samples)

    def loss(x, t, samples):
        return (op(x, samples) * op(t, samples)).sum() + F.adaptive_max_pool2d(x, 4).sum()

    @jax.jit
    def alone(x, t, samples):
        return jax.vmap(lambda *one: jax.grad(loss)(*(part[None] for part in one))[0])(
            x, t, samples
        )

    gradient = jax.jit(jax.grad(loss))(x, t, samples)
    assert_same_bits(alone(x, t, samples), gradient)
    assert_same_bits(jax.jit(jax.grad(jax.checkpoint(loss)))(x, t, samples), gradient)
    each = jax.jit(jax.vmap(op, (None, 0)))(x[:1], samples[:, None])
    tangent = jax.jit(lambda x, t: jax.jvp(lambda x: op(x, samples), (x,), (t,))[1])(x, t)
    assert_same_bits(each[0, 0], op(x, samples)[0])
    np.testing.assert_allclose(
        np.vdot(tangent, np.ones_like(tangent)),
        np.vdot(t, jax.jit(jax.grad(lambda x: op(x, samples).sum()))(x)),
        rtol=1e-5,
    )


def test_a_gradient_alone_raises():
    x, key = jnp.ones((1, 4, 4, 4)), jax.random.key(0)
    with impl.deterministic(True, profile="torch-2.12"), impl.testing.emulate("cuda"):
        for caller, op in (
            ("fractional_max_pool3d", lambda x: F.fractional_max_pool3d(x, 2, 2, key=key)),
            ("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 2)),
        ):
            jax.jit(op).lower(x)
            with pytest.raises(RuntimeError, match=f"^{caller}_backward_cuda does not"):
                jax.jit(jax.grad(lambda x, op=op: op(x).sum())).lower(x)


def ones(*shape, dtype=np.float32):
    return np.ones(shape, dtype)


L, HW, DHW = ones(2, 3, 6), ones(3, 6, 6), ones(3, 6, 6, 6)
U = ones(1, 3, 2) / 2
#: op, positional arguments, keywords, exception, fragment of the message
BAD_ADAPTIVE: list[tuple[Any, ...]] = [
    ("adaptive_max_pool1d", ([[1.0]], 1), {}, TypeError, "'input' must be"),
    ("adaptive_max_pool1d", (ones(6), 2), {}, RuntimeError, "2 or 3 (batch mode) dimensions"),
    ("adaptive_max_pool2d", (ones(1, 2, 3, 6, 6), 2), {}, RuntimeError, "3 or 4 (batch mode)"),
    ("adaptive_max_pool3d", (HW, 2), {}, RuntimeError, "got shape [3, 6, 6]"),
    ("adaptive_max_pool1d", (ones(2, 0, 6), 2), {}, RuntimeError, "got shape [2, 0, 6]"),
    ("adaptive_max_pool2d", (ones(2, 3, 6, 0), 2), {}, RuntimeError, "non-zero size"),
    ("adaptive_max_pool2d", (HW, -1), {}, RuntimeError, "than or equal to 0, but got [-1, -1]"),
    ("adaptive_max_pool1d", (L, (2, 2)), {}, RuntimeError, "'output_size' must be an int or 1"),
    ("adaptive_max_pool2d", (HW, (2,)), {}, RuntimeError, "'output_size' must be an int or 2"),
    ("adaptive_max_pool1d", (L, (None,)), {}, TypeError, "'output_size[0]' must be int"),
    ("adaptive_max_pool2d", (HW, None), {}, TypeError, "'output_size' must be int, not NoneType"),
    ("adaptive_max_pool3d", (DHW, 2.0), {}, TypeError, "'output_size' must be int, not float"),
    ("adaptive_max_pool3d", (DHW, True), {}, TypeError, "'output_size' must be int, not bool"),
    ("adaptive_max_pool1d", (L.astype(int), 2), {}, NotImplementedError, "not implemented for int"),
    ("adaptive_max_pool2d", (HW.astype(bool), 2), {}, NotImplementedError, "implemented for bool"),
]
BAD_FRACTIONAL: list[tuple[Any, ...]] = [
    ("fractional_max_pool2d", (ones(1, 2, 3, 6, 6), 2, 3), {}, RuntimeError, "3 or 4 (batch mode)"),
    ("fractional_max_pool2d", (ones(2, 0, 6, 6), 2, 3), {}, RuntimeError, "non-zero size"),
    ("fractional_max_pool3d", (ones(0, 6, 0, 6), 2, 3), {}, RuntimeError, "non-zero size"),
    ("fractional_max_pool2d", (HW, 2), {}, ValueError, "output_ratio, but got neither"),
    ("fractional_max_pool3d", (DHW, 2, -1), {}, RuntimeError, "equal to 0, but got [-1, -1, -1]"),
    ("fractional_max_pool2d", (HW, 2, 6), {}, RuntimeError, "be at most the input's size and 1"),
    ("fractional_max_pool3d", (DHW, 2, 5), {}, RuntimeError, "at most the input's size"),
    ("fractional_max_pool2d", (HW, (2, 7), 1), {}, RuntimeError, "kernel_size [2, 7] is too large"),
    ("fractional_max_pool2d", (HW, (2,), 3), {}, RuntimeError, "'kernel_size' must be an int or 2"),
    ("fractional_max_pool3d", (DHW, (2, 2), 3), {}, RuntimeError, "an int or 3 of them"),
    ("fractional_max_pool2d", (HW, 2, (3, 3, 3)), {}, RuntimeError, "'output_size' must be an int"),
    ("fractional_max_pool2d", (HW, 2.0, 3), {}, TypeError, "'kernel_size' must be int, not float"),
    ("fractional_max_pool2d", (HW, 2, "3"), {}, TypeError, "'output_size' must be int, not str"),
    (
        "fractional_max_pool2d",
        (HW, 2),
        {"output_ratio": (0.5, 0.5, 0.5)},
        ValueError,
        "a number or 2 of them",
    ),
    ("fractional_max_pool2d", (HW.astype(int), 2, 3), {}, NotImplementedError, "for int"),
    *(
        ("fractional_max_pool2d", (HW, 2, 3, None, False, samples), {}, RuntimeError, fragment)
        for samples, fragment in [
            (ones(1, 3, 3), "of shape [1 or more, 3, 2], but got [1, 3, 3]"),
            (ones(1, 2, 2), "but got [1, 2, 2]"),
            (ones(3, 2), "but got [3, 2]"),
            (ones(0, 3, 2), "but got [0, 3, 2]"),
            (ones(1, 3, 2, dtype=np.float16), "the dtype of input, float32, but got float16"),
        ]
    ),
    ("fractional_max_pool2d", (HW, 2, 3, None, False, [0.5]), {}, TypeError, "'_random_samples'"),
]  # fmt: skip
#: What PyTorch lets pass, or has no word for.
BAD_HERE: list[tuple[Any, ...]] = [
    ("adaptive_max_pool1d", (L, 2, 1), {}, TypeError, "'return_indices' must be bool"),
    ("fractional_max_pool2d", (HW[0], 2, 3), {}, RuntimeError, "got shape [6, 6]"),
    ("fractional_max_pool2d", (HW, 0, 3), {}, RuntimeError, "kernel_size should be greater than"),
    ("fractional_max_pool2d", (HW, 2, 3, 0.5), {}, ValueError, "output_ratio, but got both"),
    ("fractional_max_pool2d", (HW, 2, 3, None, 1), {}, TypeError, "'return_indices' must be bool"),
    ("fractional_max_pool3d", (DHW, 2, 3), {"key": None}, ValueError, "no hidden random state"),
    (
        "fractional_max_pool2d",
        (HW, 2, 3),
        {"key": jax.random.key(0), "_random_samples": U},
        ValueError,
        "got both",
    ),
    *(
        ("fractional_max_pool2d", (HW, 2), {"output_ratio": ratio}, ValueError, "between 0 and 1")
        for ratio in (0, 1, 1.5, -0.5, (0.5, 0.0), float("nan"))
    ),
    ("fractional_max_pool3d", (DHW, 2), {"output_ratio": "1"}, TypeError, "number or 3 of them"),
    ("fractional_max_pool2d", (HW, 2), {"output_ratio": True}, TypeError, "not bool"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "given", "named", "error", "fragment"), [*BAD_ADAPTIVE, *BAD_FRACTIONAL, *BAD_HERE]
)
def test_bad_arguments(op, given, named, error, fragment):
    if op.startswith("fractional") and len(given) < 6 and not named.keys() & {"key"}:
        named = {"key": jax.random.key(0), **named}
    with pytest.raises(error, match=re.escape(fragment)) as caught:
        getattr(F, op)(*given, **named)
    assert str(caught.value).startswith(f"{op}(): ")


def test_pytorch_refuses_the_same():
    torch = pytest.importorskip("torch")
    for op, given, named, error, _ in [*BAD_ADAPTIVE, *BAD_FRACTIONAL]:
        if op != "adaptive_max_pool1d" and not isinstance(given[0], np.ndarray):
            continue  # it says so from deeper down
        tensors = [torch.tensor(a) if isinstance(a, np.ndarray) else a for a in given]
        with pytest.raises(error):
            getattr(torch.nn.functional, op)(*tensors, **named)

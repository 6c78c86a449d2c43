"""cross_entropy: values, derivatives, bad arguments and transformations."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import impl
from impl.tests._support import assert_refused, assert_same_bits, assert_torch_refuses, spread

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 3)).astype(np.float32)
T = np.array([0, 2, 1, 0])
P = RNG.random((4, 3)).astype(np.float32)
W = np.array([0.5, 2, 1.5], np.float32)

SHAPES = [(3,), (4, 3), (2, 3, 5), (2, 3, 2, 2), (2, 3, 1, 2, 1), (0, 3), (2, 3, 0), (4, 0)]


def cases():
    """Input, target and options, in float64."""
    rng = np.random.default_rng(1)
    options = itertools.product(
        ["none", "mean", "sum"], [False, True], [0.0, 0.2], [-100, 1, "probabilities"]
    )
    for number, (reduction, weighted, smoothing, ignored) in enumerate(options):
        by_class = ignored != "probabilities"
        for shape in SHAPES[number % 7 :: 7]:
            if by_class and 0 in shape[1:2]:
                continue
            weight = np.array([0.5, 2, 1.5])[: shape[1] if len(shape) > 1 else 3]
            of_targets = shape[:1] + shape[2:] if len(shape) > 1 else ()
            target = rng.integers(0, 3, of_targets) if by_class else rng.random(shape)
            yield (
                rng.standard_normal(shape) * 10,
                target,
                {
                    "reduction": reduction,
                    "weight": weight if weighted else None,
                    "label_smoothing": smoothing,
                    "ignore_index": ignored if by_class else -100,
                },
            )


def test_values_and_gradients_are_pytorchs():
    torch = pytest.importorskip("torch")
    tried, wanted, cotangents = list(cases()), [], []
    for x, t, given in tried:
        weight = None if given["weight"] is None else torch.tensor(given["weight"])
        value, target = torch.from_numpy(x).requires_grad_(), torch.tensor(t)
        want = torch.nn.functional.cross_entropy(value, target, **{**given, "weight": weight})
        ct = RNG.standard_normal(want.shape)
        slope = torch.autograd.grad(want, value, torch.tensor(ct))[0]
        wanted.append((want.detach().numpy(), slope.numpy()))
        cotangents.append(ct)

    def ours(inputs, targets, cotangents):
        for x, t, (_, _, given), ct in zip(inputs, targets, tried, cotangents, strict=True):
            out, pull = jax.vjp(lambda x, t=t, g=given: F.cross_entropy(x, t, **g), x)
            yield out, pull(ct)[0]

    inputs, targets = [one[0] for one in tried], [one[1] for one in tried]
    with jax.enable_x64(True):
        found = jax.jit(lambda *args: list(ours(*args)))(inputs, targets, cotangents)
    for (*_, given), got, want in zip(tried, found, wanted, strict=True):
        for one, other in zip(got, want, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14, err_msg=str(given))


def test_second_derivatives_and_those_of_probabilities_are_pytorchs():
    torch = pytest.importorskip("torch")
    x, p, w = (a.astype(np.float64) for a in (X, P, W))

    def ours(x, p, w):
        return F.cross_entropy(x, p, w, label_smoothing=0.1)

    def own(x, p, w):
        return torch.nn.functional.cross_entropy(x, p, w, label_smoothing=0.1)

    with jax.enable_x64(True):
        of_classes = jax.jit(jax.hessian(lambda x: F.cross_entropy(x, T, w, label_smoothing=0.1)))
        got = of_classes(x), *jax.jit(jax.grad(ours, (1, 2)))(x, p, w)
    want = [
        torch.autograd.functional.hessian(
            lambda x: own(x, torch.tensor(T), torch.tensor(w)), torch.tensor(x)
        )
    ]
    learned = [torch.tensor(a, requires_grad=True) for a in (p, w)]
    want += torch.autograd.grad(own(torch.tensor(x), *learned), learned)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-15)


def test_infinities_and_large_values():
    big = np.float32(1e4)
    x = np.array([[big, big - 1, 0], [-np.inf, 0, 1], [np.inf, 0, 1], [-np.inf, 0, 1]], np.float32)
    got = np.asarray(F.cross_entropy(x, np.array([0, 0, 1, 2]), reduction="none"))
    np.testing.assert_allclose(got[0], np.log1p(np.exp(-1)), rtol=1e-6)
    certain = np.array([[1, 0, 0]], np.float32)
    np.testing.assert_allclose(F.cross_entropy(x[:1], certain), got[0], rtol=1e-6)
    assert got[1] == np.inf
    assert np.isnan(got[2])
    np.testing.assert_allclose(got[3], np.log1p(np.exp(-1)), rtol=1e-6)
    gradient = jax.grad(lambda x: F.cross_entropy(x, np.array([2])))(x[3:])
    np.testing.assert_allclose(gradient, [[0, 0.26894143, -0.26894143]], rtol=1e-6)


def test_dtypes():
    x = spread(RNG, (64, 5), np.float32)
    t, p = RNG.integers(0, 5, 64), RNG.random((64, 5)).astype(np.float32)
    for dtype in (np.float16, jnp.bfloat16):
        narrow, share = x.astype(dtype), p.astype(dtype)
        # As if in float32, and rounded once.
        for target, wide in ((t, t), (share, share.astype(np.float32))):
            got = F.cross_entropy(narrow, target, label_smoothing=0.1)
            want = F.cross_entropy(narrow.astype(np.float32), wide, label_smoothing=0.1)
            assert_same_bits(got, np.asarray(want).astype(dtype))
        assert F.cross_entropy(x, share).dtype == np.float32
        assert F.cross_entropy(narrow, p).dtype == np.float32
    assert F.cross_entropy(X, T.astype(np.uint8)).dtype == np.float32
    with pytest.warns(UserWarning, match="use reduction='none' instead"):
        assert F.cross_entropy(X, T, reduce=False).shape == (4,)


#: Arguments, keywords, exception, fragment of the message
BAD: list[tuple[Any, ...]] = [
    ((X, T[:2]), {}, ValueError, "input batch_size (4) to match target batch_size (2)"),
    ((X, T[:, None]), {}, RuntimeError, "Expected target size [4]"),
    ((X, np.array([0, 1, 3, 0])), {}, IndexError, "Target 3 is out of bounds, at position [2]"),
    ((X, T.astype(np.int16)), {}, RuntimeError, "int32, int64 or uint8, but got int16"),
    ((X, P.astype(int)), {}, RuntimeError, "Expected floating point type for target with class"),
    ((X, P), {"ignore_index": 1}, RuntimeError, "ignore_index is not supported for floating"),
    ((X, P[:, 0]), {}, RuntimeError, "int32, int64 or uint8, but got float32"),
    ((X.astype(int), T), {}, NotImplementedError, "in argument 'input'; it takes floats"),
    ((X, T, W[:2]), {}, RuntimeError, "all 3 classes or no classes but got"),
    ((X, P, W[None]), {}, RuntimeError, "weight tensor of shape: [1, 3]"),
    ((X, T, W.astype(np.float16)), {}, RuntimeError, "weight (float16) must have the same dtype"),
    (([1.0], T), {}, TypeError, "'input' must be"),
    ((X, T), {"reduction": "max"}, ValueError, "max is not a valid value for reduction"),
    ((X, T), {"label_smoothing": 1.5}, RuntimeError, "between 0.0 and 1.0. Got: 1.5"),
    ((X, T), {"label_smoothing": "0"}, TypeError, "'label_smoothing' must be float, not str"),
    ((X, T), {"label_smoothing": None}, TypeError, "must be float, not NoneType"),
    ((X, T), {"ignore_index": 1.0}, TypeError, "'ignore_index' must be int, not float"),
]
#: As above, where PyTorch smooths by nothing, or has another exception.
OWN: list[tuple[Any, ...]] = [
    ((X, T), {"label_smoothing": -0.1}, RuntimeError, "between 0.0 and 1.0. Got: -0.1"),
    ((X, T), {"label_smoothing": float("nan")}, RuntimeError, "Got: nan"),
    ((X[0, 0], np.array(0)), {}, ValueError, "Expected 1 or more dimensions in 'input' (got 0)"),
]


@pytest.mark.parametrize(("arguments", "options", "error", "fragment"), BAD + OWN)
def test_bad_arguments(arguments, options, error, fragment):
    assert_refused(F.cross_entropy, arguments, options, error, fragment)


def test_torch_raises_the_same():
    torch = pytest.importorskip("torch")
    for arguments, options, error, _ in BAD:
        assert_torch_refuses(torch, torch.nn.functional.cross_entropy, arguments, options, error)


def test_what_is_out_of_range_where_nobody_knows():
    targets = np.array([0, 3, -1, -100], np.int32)
    got = jax.jit(lambda t: F.cross_entropy(X, t, W, reduction="none"))(targets)
    assert np.isnan(got).tolist() == [False, True, True, False]
    assert got[3] == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_transformations(smoothing):
    def loss(x, w):
        return F.cross_entropy(x, T, w, label_smoothing=smoothing)

    close = {"rtol": 1e-5, "atol": 1e-7}
    out, gradients = jax.jit(jax.value_and_grad(loss, (0, 1)))(X, W)
    np.testing.assert_allclose(out, loss(X, W), **close)
    others = jax.jit(jax.grad(jax.checkpoint(loss), (0, 1)))(X, W)
    for one, other in zip(gradients, others, strict=True):
        np.testing.assert_allclose(one, other, **close)
    batch = np.stack([X, X + 1])  # which changes no softmax
    got = jax.jit(jax.vmap(jax.value_and_grad(loss), (0, None)))(batch, W)
    np.testing.assert_allclose(got[0], [out, out], **close)
    np.testing.assert_allclose(got[1], [gradients[0]] * 2, **close)
    dots = spread(RNG, X.shape), spread(RNG, W.shape)
    dot = jax.jit(lambda d: jax.jvp(loss, (X, W), d)[1])(dots)
    right = sum(np.vdot(g, d) for g, d in zip(gradients, dots, strict=True))
    np.testing.assert_allclose(dot, right, rtol=1e-4)


def test_inside_shard_map():
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    spec = PartitionSpec("d")

    def gradient(x, t):
        return jax.grad(lambda x: F.cross_entropy(x, t, W, reduction="sum"))(x)

    mapped = jax.shard_map(gradient, mesh=mesh, in_specs=spec, out_specs=spec)
    np.testing.assert_allclose(jax.jit(mapped)(X, T), gradient(X, T), rtol=1e-5, atol=1e-7)

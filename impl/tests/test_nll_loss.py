"""nll_loss: values and gradients, bad arguments, transformations and bits."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import impl
from impl.tests._support import (
    LOWERINGS,
    assert_refused,
    assert_same_bits,
    assert_torch_refuses,
    bits,
    spread,
)
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 3)).astype(np.float32)
T = np.array([0, 2, 1, 0])
W = np.array([0.5, 2, 1.5], np.float32)

SHAPES = [(3,), (4, 3), (2, 3, 5), (2, 3, 2, 2), (2, 3, 1, 2, 3), (0, 3), (2, 3, 0), (0, 0)]
OPTIONS = [
    {"reduction": reduction, "weight": weight, "ignore_index": ignored}
    for reduction, weight, ignored in itertools.product(
        ["none", "mean", "sum"], [None, W.astype(np.float64)], [-100, 1]
    )
]


def cases(options=OPTIONS, shapes=SHAPES):
    """Input, target, options and the shape of the result."""
    rng = np.random.default_rng(1)
    for number, given in enumerate(options):
        for shape in shapes[number % 3 :: 3] if number else shapes:
            of_targets = shape[:1] + shape[2:] if len(shape) > 1 else ()
            weight = None if shape == (0, 0) else given["weight"]
            result = of_targets if given["reduction"] == "none" else ()
            x, t = rng.standard_normal(shape), rng.integers(0, 3, of_targets)
            yield x, t, {**given, "weight": weight}, result


def test_values_and_gradients_are_pytorchs():
    torch = pytest.importorskip("torch")
    tried = list(cases())
    cotangents = [RNG.standard_normal(shape) for *_, shape in tried]

    def ours(inputs, targets, cotangents):
        for x, t, (_, _, given, _), ct in zip(inputs, targets, tried, cotangents, strict=True):
            out, pull = jax.vjp(lambda x, t=t, g=given: F.nll_loss(x, t, **g), x)
            yield out, pull(ct)[0]

    inputs, targets = [one[0] for one in tried], [one[1] for one in tried]
    with jax.enable_x64(True):
        found = jax.jit(lambda *args: list(ours(*args)))(inputs, targets, cotangents)
    for (x, t, given, _), ct, (out, gradient) in zip(tried, cotangents, found, strict=True):
        weight = None if given["weight"] is None else torch.tensor(given["weight"])
        value = torch.from_numpy(x).requires_grad_()
        want = torch.nn.functional.nll_loss(value, torch.tensor(t), **{**given, "weight": weight})
        assert out.shape == want.shape
        np.testing.assert_allclose(out, want.detach(), rtol=1e-12)
        slope = torch.autograd.grad(want, value, torch.tensor(ct))[0]
        np.testing.assert_allclose(gradient, slope, rtol=1e-12)


def test_the_references_of_targets_and_weights():
    # What the sweep leaves out: uint8, a target of one, the arguments that PyTorch gives up.
    want = -X[np.arange(4), T]
    assert_same_bits(F.nll_loss(X, T.astype(np.uint8), reduction="none"), want)
    assert_same_bits(F.nll_loss(X[0], np.array([1]), reduction="none"), -X[0, 1])
    assert_same_bits(F.nll_loss(X, T.astype(np.uint8), reduction="none", ignore_index=300), want)
    with pytest.warns(UserWarning, match="use reduction='none' instead"):
        assert_same_bits(F.nll_loss(X, T, reduce=False), want)
    with pytest.warns(UserWarning, match="use reduction='sum' instead"):
        got = F.nll_loss(X, T, size_average=False)
    assert_same_bits(got, F.nll_loss(X, T, reduction="sum"))


def test_elements_that_do_not_count():
    ignored = np.full(4, -100)
    x = np.full((4, 3), np.nan, np.float32)
    assert np.isnan(F.nll_loss(X, ignored))
    assert_same_bits(F.nll_loss(x, ignored, W, reduction="none"), np.zeros(4, np.float32))
    for reduction in ("mean", "sum"):
        gradient = jax.grad(lambda x, r=reduction: F.nll_loss(x, ignored, W, reduction=r))(X)
        assert_same_bits(gradient, np.zeros((4, 3), np.float32))


#: Arguments, keywords, exception, fragment of the message
BAD: list[tuple[Any, ...]] = [
    ((X[0, 0], np.array(0)), {}, ValueError, "Expected 1 or more dimensions in 'input' (got 0)"),
    ((X[0], T), {}, ValueError, "1D target must have size 1, but got target size: 4"),
    ((X[0], T[:1][None]), {}, RuntimeError, "Expected target size [] for"),
    ((X, T[:2]), {}, ValueError, "input batch_size (4) to match target batch_size (2)"),
    ((X, T[0]), {}, ValueError, "to match target batch_size (0)"),
    ((X, T[:, None]), {}, RuntimeError, "size [4] for an input of shape [4, 3], got [4, 1]"),
    ((X[..., None], T), {}, RuntimeError, "Expected target size [4, 1]"),
    ((X, np.array([0, 1, 3, 0])), {}, IndexError, "Target 3 is out of bounds, at position [2]"),
    ((X, np.array([0, -1, 3, 0])), {}, IndexError, "allowed are 0 to 2 and ignore_index, -100"),
    ((X[:, :0], T), {}, IndexError, "Target 0 is out of bounds"),
    ((X, T.astype(np.int16)), {}, RuntimeError, "int32, int64 or uint8, but got int16"),
    ((X, T.astype(np.float32)), {}, RuntimeError, "but got float32"),
    ((X.astype(int), T), {}, NotImplementedError, "in argument 'input'; it takes floats"),
    ((X.astype(np.complex64), T), {}, NotImplementedError, "not implemented for complex64"),
    ((X, T, W[:2]), {}, RuntimeError, "all 3 classes or no classes but got"),
    ((X, T, W[None]), {}, RuntimeError, "weight tensor of shape: [1, 3]"),
    ((X, T, W.astype(np.float16)), {}, RuntimeError, "weight (float16) must have the same dtype"),
    ((X, T, [1.0] * 3), {}, TypeError, "'weight' must be"),
    (([1.0], T), {}, TypeError, "'input' must be"),
    ((X, 0), {}, TypeError, "'target' must be"),
    ((X, T), {"reduction": "max"}, ValueError, "max is not a valid value for reduction"),
    ((X, T), {"reduction": None}, ValueError, "allowed are 'none', 'mean', 'sum'"),
    ((X, T), {"ignore_index": 1.0}, TypeError, "'ignore_index' must be int, not float"),
    ((X, T), {"ignore_index": True}, TypeError, "'ignore_index' must be int, not bool"),
]


@pytest.mark.parametrize(("arguments", "options", "error", "fragment"), BAD)
def test_bad_arguments(arguments, options, error, fragment):
    assert_refused(F.nll_loss, arguments, options, error, fragment)


def test_torch_raises_the_same():
    torch = pytest.importorskip("torch")
    for arguments, options, error, _ in BAD:
        assert_torch_refuses(torch, torch.nn.functional.nll_loss, arguments, options, error)


def test_what_is_out_of_range_where_nobody_knows():
    targets = np.array([0, 3, -1, -100], np.int32)

    @jax.jit
    def call(x, t):
        out, pull = jax.vjp(lambda x: F.nll_loss(x, t, W, reduction="none"), x)
        return out, pull(jnp.ones_like(out))[0]

    out, gradient = call(X, targets)
    assert np.isnan(out).tolist() == [False, True, True, False]
    want = np.zeros((4, 3), np.float32)
    want[0, 0] = -W[0]
    assert_same_bits(gradient, want)
    with jax.enable_x64(True):
        wide = np.array([2**32, 0, 0, 0])
        assert np.isnan(np.asarray(call(X, wide)[0])).tolist() == [True, False, False, False]
    with pytest.raises(IndexError, match="Target 4294967296"):
        F.nll_loss(X, wide)


def loss(x, w):
    return F.nll_loss(x, T, w, ignore_index=1)


def test_transformations_give_the_bits_of_an_eager_call():
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    spec = PartitionSpec("d")
    each = lambda x, t: F.nll_loss(x, t, W, reduction="none")  # noqa: E731
    mapped = jax.shard_map(each, mesh=mesh, in_specs=spec, out_specs=spec)
    assert_same_bits(jax.jit(mapped)(X, T), each(X, T))
    out, gradients = jax.jit(jax.value_and_grad(loss, (0, 1)))(X, W)
    assert_same_bits(out, loss(X, W))
    checkpointed = jax.jit(jax.grad(jax.checkpoint(loss), (0, 1)))(X, W)
    for one, other in zip(checkpointed, gradients, strict=True):
        assert_same_bits(one, other)
    batch = np.stack([X, 2 * X])
    got = jax.jit(jax.vmap(jax.value_and_grad(loss), (0, None)))(batch, W)
    assert_same_bits(got[0], np.stack([loss(x, W) for x in batch]))
    assert_same_bits(got[1], np.stack([gradients[0], gradients[0]]))
    dots = spread(RNG, X.shape), spread(RNG, W.shape)
    dot = jax.jit(lambda d: jax.jvp(loss, (X, W), d)[1])(dots)
    np.testing.assert_allclose(
        dot, sum(np.vdot(g, d) for g, d in zip(gradients, dots, strict=True)), rtol=1e-5
    )


def test_it_is_linear_and_its_quotient_is_not():
    with jax.enable_x64(True):
        w = W.astype(np.float64)
        assert not np.any(jax.jit(jax.hessian(loss))(X.astype(np.float64), w))
        got = jax.jit(jax.hessian(loss, 1))(X.astype(np.float64), w)
    kept = T != 1
    n, total = np.bincount(T[kept], minlength=3), w[T[kept]].sum()
    sums = np.bincount(T[kept], -X[np.arange(4), T][kept].astype(np.float64), minlength=3)
    value = (sums * w).sum() / total
    want = (
        -(np.outer(sums, n) + np.outer(n, sums)) / total**2 + 2 * value * np.outer(n, n) / total**2
    )
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)


# Bits.

LONG = np.random.default_rng(1).integers(0, 3, 2100)


@pytest.mark.parametrize("name", ["native", "xla", "seed 1"])
def test_bits_of_a_mean_and_of_the_gradient_of_weights(name):
    x, w = spread(np.random.default_rng(0), (2100, 3)), W
    picked, home = -x[np.arange(2100), LONG], np.zeros(2100, int)
    zero, shares = np.zeros(1, np.float32), w[LONG]
    sums = oracles.panel(zero, home, picked * shares), oracles.panel(zero, home, shares)
    want = (sums[0] / sums[1])[0]
    # By the quotient rule, in the order in which its parts are rounded.
    share = np.float32(1) / sums[1]
    slopes = share * picked - share * want
    with LOWERINGS[name]():
        out, gradient = jax.jit(jax.value_and_grad(lambda w, x: F.nll_loss(x, LONG, w)))(w, x)
    assert_same_bits(out, want)
    assert_same_bits(gradient, oracles.panel(np.zeros(3, np.float32), LONG, slopes))
    assert bits(want) != bits(np.add.reduce(picked * shares) / np.add.reduce(shares))


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=["float16", "bfloat16"])
def test_narrow_floats_are_rounded_once(dtype):
    with LOWERINGS["seed 1" if dtype is jnp.bfloat16 else "native"]():
        check_narrow(dtype)


def check_narrow(dtype):
    x, w = spread(np.random.default_rng(0), (2100, 3)).astype(dtype), W.astype(dtype)
    wide = x.astype(np.float32)[np.arange(2100), LONG] * -w.astype(np.float32)[LONG]
    zero = np.zeros(1, np.float32)
    sums = [oracles.panel(zero, LONG * 0, a)[0] for a in (wide, w.astype(np.float32)[LONG])]
    assert_same_bits(F.nll_loss(x, LONG, w), (sums[0] / sums[1]).astype(dtype))
    assert_same_bits(F.nll_loss(x, LONG, w, reduction="none"), wide.astype(dtype))

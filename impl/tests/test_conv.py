"""conv1d, conv2d and conv3d."""

import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from jax.test_util import check_grads

import impl
from impl._core.convolution_window import ConvolutionWindow
from impl._lowerings import convolution as lowerings
from impl.tests import _convolutions
from impl.tests._dots import WAYS, exact, lowered, random
from impl.tests._support import LOWERINGS, assert_same_bits, bits, spread

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")
RNG = np.random.default_rng(0)
TRIED = 60 if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 6


@pytest.mark.filterwarnings("ignore:Using padding=.same.:UserWarning")
@pytest.mark.parametrize("number", range(TRIED))
def test_values_and_gradients_against_pytorch(number):
    torch = pytest.importorskip("torch", reason="values are compared with PyTorch's")
    _convolutions.assert_drawn_as_torch(torch, 1, number, TRIED, transposed=False)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64", "int32", "uint8"])
@pytest.mark.parametrize("way", WAYS)
def test_every_lowering_of_every_dtype(way, dtype):
    x, w, b = exact(RNG, (2, 3, 9), 3), exact(RNG, (4, 3, 2), 3), exact(RNG, (4,))
    want = _convolutions.oracle(x, w, (8,), (1,), (1,), (0,)) + b[:, None]
    if dtype == "uint8":
        want = want.astype(np.int64)
    x, w, b = (value.astype(dtype) for value in (x, w, b))
    with LOWERINGS[way]():
        assert_same_bits(F.conv1d(x, w, b), jnp.asarray(want).astype(dtype))


def test_without_the_mode_the_values_are_the_same():
    x, w = exact(RNG, (2, 4, 9, 8)), exact(RNG, (6, 2, 3, 2))

    def both(x, w):
        def op(x, w):
            return F.conv2d(x, w, None, (2, 1), (1, 2), groups=2)

        out, pullback = jax.vjp(op, x, w)
        return out, pullback(out)

    want = jax.jit(both)(x, w)
    with impl.deterministic(False):
        for way in ("native", "xla"):
            with LOWERINGS[way]():
                got = jax.jit(functools.partial(both))(x, w)
            jax.tree.map(assert_same_bits, got, want)


# Bits.

#: Channels of the input, sizes, kernel, stride, dilation, padding; a run has 32 // channels taps.
ORDERED = [
    (1, (9, 11), (5, 8), (1, 2), (1, 1), (2, 3)),
    (12, (20,), (9,), (2,), (2,), (3,)),
    (32, (5, 4), (3, 2), (1, 1), (1, 2), (1, 0)),
]


@pytest.mark.parametrize("case", ORDERED, ids=str)
def test_taps_are_added_in_their_order(case):
    channels, sizes, kernel, stride, dilation, padding = case
    x = exact(RNG, (2, channels, *sizes))
    run = -(-32 // channels)
    w = _convolutions.rough(RNG, (3, channels, *kernel), run)
    op = jax.jit(
        lambda x, w: getattr(F, f"conv{len(sizes)}d")(x, w, None, stride, padding, dilation)
    )
    result = op(x, w).shape[2:]
    oracle = functools.partial(_convolutions.oracle, x, w, result, stride, dilation, padding)
    want = oracle()
    assert bits(oracle(order=slice(None, None, -1))) != bits(want)
    for way in (*WAYS, "seed 1"):
        with LOWERINGS[way]():
            assert_same_bits(op(x, w), want)


@pytest.mark.parametrize("case", [(2, *ORDERED[1][1:]), ORDERED[2]], ids=str)
def test_taps_are_added_in_their_order_in_the_gradient_of_the_input(case):
    channels, sizes, kernel, stride, dilation, padding = case
    w = _convolutions.rough(RNG, (2, channels, *kernel), 1)
    op = functools.partial(
        getattr(F, f"conv{len(sizes)}d"), stride=stride, padding=padding, dilation=dilation
    )
    x = np.zeros((2, channels, *sizes), np.float32)
    ct = exact(RNG, jax.eval_shape(op, x, w).shape)
    oracle = functools.partial(
        _convolutions.oracle_of_image, ct, w, sizes, stride, dilation, padding
    )
    want = oracle()
    assert bits(oracle(order=slice(None, None, -1))) != bits(want)
    gradient = jax.jit(lambda w, ct: jax.vjp(lambda x: op(x, w), x)[1](ct)[0])
    for way in WAYS:
        with LOWERINGS[way]():
            assert_same_bits(gradient(w, ct), want)


def test_a_schedule_changes_no_bits_of_a_gradient_of_weights():
    x, ct = spread(RNG, (3, 2, 22, 20)), spread(RNG, (3, 5, 20, 18))
    w = np.zeros((5, 2, 3, 3), np.float32)
    gradient = jax.jit(lambda x, ct: jax.vjp(lambda w: F.conv2d(x, w), w)[1](ct)[0])
    seed, found = impl.testing.Seed(), set()
    for seed.value in range(4):
        with impl.testing.schedule(seed):
            got = gradient(x, ct)
            found.add(bits(got))
    assert len(found) == 1
    np.testing.assert_allclose(got, gradient(x, ct), rtol=1e-3, atol=1e-2)


def test_many_taps_are_gone_through_by_a_loop(monkeypatch):
    x, w = exact(RNG, (2, 5, 12, 13), 3), exact(RNG, (4, 5, 4, 5), 3)
    params = ConvolutionWindow((12, 13), (5, 9), (4, 5), (2, 1), (1, 1), (1, 0), 1)
    given = {"result": (x, w), "image": (exact(RNG, (2, 4, 5, 9)), w)}
    given["weights"] = x, given["image"][0]

    def results():
        return {
            wanted: lowerings.ordered_xla(
                *map(jnp.asarray, pair), role=wanted, window=params, precision="highest"
            )
            for wanted, pair in given.items()
        }

    written_out = jax.jit(functools.partial(results))
    want = written_out()
    text = written_out.lower().as_text()
    monkeypatch.setattr(lowerings, "_UNROLLED", 1)
    looped = jax.jit(functools.partial(results))
    assert looped.lower().as_text().count("stablehlo.while") > text.count("stablehlo.while")
    jax.tree.map(assert_same_bits, looped(), want)


def test_images_that_are_too_large_for_offsets_are_halved(monkeypatch):
    x, w = exact(RNG, (3, 2, 9)), exact(RNG, (4, 2, 3))
    monkeypatch.setattr(lowerings, "MAX_ELEMENTS", 40)
    run = lowerings.kernels.convolution
    halves = []
    monkeypatch.setattr(
        lowerings.kernels,
        "convolution",
        lambda *args, **rest: halves.append(0) or run(*args, **rest),
    )

    def both(x, w):
        out, pullback = jax.vjp(F.conv1d, x, w)
        return out, pullback(out)

    want = jax.jit(both)(x, w)
    with LOWERINGS["kernel"]():
        jax.tree.map(assert_same_bits, jax.jit(both)(x, w), want)
    assert len(halves) == 9


# Transformations.


def test_derivatives():
    x, w, b = (random(RNG, shape) for shape in ((1, 2, 5), (2, 1, 2), (2,)))
    with jax.enable_x64(True):
        check_grads(
            jax.checkpoint(lambda *args: jnp.sin(F.conv1d(*args, 2, 1, groups=2))),
            (x, w, b),
            order=2,
            rtol=1e-4,
        )


@pytest.mark.parametrize("axes", [(0, None), (None, 2), (1, 0)], ids=str)
def test_batches_there_and_back(axes):
    shapes = [(2, 4, 7), (6, 2, 3)]
    arrays = [
        exact(RNG, shape if axis is None else (*shape[:axis], 3, *shape[axis:]))
        for shape, axis in zip(shapes, axes, strict=True)
    ]
    ct = exact(RNG, (3, 2, 6, 4))

    def both(x, w, ct):
        out, pullback = jax.vjp(lambda x, w: F.conv1d(x, w, None, 2, 1, groups=2), x, w)
        return out, *pullback(ct)

    got = jax.jit(jax.vmap(both, (*axes, 0)))(*arrays, ct)
    one = jax.jit(both)
    for i in range(3):
        each = [
            a if axis is None else np.take(a, i, axis) for a, axis in zip(arrays, axes, strict=True)
        ]
        for batch, right in zip(got, one(*each, ct[i]), strict=True):
            assert_same_bits(batch[i], right)


def test_shards():
    mesh = Mesh(np.array(jax.devices()[:1]), ("x",))
    x, w = exact(RNG, (2, 2, 5)), exact(RNG, (3, 2, 3))
    spread_out = jax.shard_map(
        F.conv1d,
        mesh=mesh,
        in_specs=(PartitionSpec("x"), PartitionSpec()),
        out_specs=PartitionSpec("x"),
    )
    want, pullback = jax.vjp(F.conv1d, x, w)
    for way in ("native", "xla"):  # Pallas' interpreter knows nothing of what varies
        with LOWERINGS[way]():
            out, back = jax.vjp(jax.jit(functools.partial(spread_out)), x, w)
            jax.tree.map(assert_same_bits, (out, back(out)), (want, pullback(want)))


def test_a_gpu_gets_kernels_that_nothing_tunes_and_without_the_mode_its_library():
    x, w = jnp.ones((1, 2, 9)), jnp.ones((3, 2, 3))

    def both(x, w):
        out, pullback = jax.vjp(F.conv1d, x, w)
        return out, pullback(out)

    on, off = (lowered(both, x, w, on=on) for on in (True, False))
    library = ("stablehlo.dot_general", "stablehlo.convolution")
    assert on.count('name = "product_ordered"') == 3
    assert not any(op in on for op in library)
    assert off.count("stablehlo.convolution") == 3
    assert "product_ordered" not in off


def test_the_gradient_of_a_bias_is_no_sum_whose_order_is_the_compiler_s():
    x, w, b = jnp.ones((4, 2, 9)), jnp.ones((3, 2, 3)), jnp.ones(3)

    def gradient(bias, ct):
        return jax.vjp(lambda b: F.conv1d(x, w, b), bias)[1](ct)[0]

    text = lowered(gradient, b, jnp.ones((4, 3, 7)))
    assert "product_ordered" in text
    assert "stablehlo.reduce" not in text


def test_a_gpu_gets_integers_that_its_library_does_not_take_as_products():
    x, w = jnp.ones((1, 2, 9), int), jnp.ones((3, 2, 3), int)
    for on in (True, False):
        text = lowered(functools.partial(F.conv1d), x, w, on=on)
        assert "stablehlo.dot_general" in text
        assert "stablehlo.convolution" not in text

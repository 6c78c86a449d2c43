"""grid_sample: values, gradients, transformations, and what is beyond the input."""

import functools
import itertools
import os
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from jax.test_util import check_grads
from ml_dtypes import bfloat16

import impl
from impl._mode.decide import Action, Decision
from impl._primitives.blend import blend
from impl.tests._support import DISTINCT, LOWERINGS, assert_same_bits, spread

F = impl.nn.functional
NAN, INF = float("nan"), float("inf")
pytestmark = pytest.mark.usefixtures("complete")

MODES = ("bilinear", "nearest", "bicubic")
PADDINGS = ("zeros", "border", "reflection")
#: Numbers of dimensions and modes.
KINDS = [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]
#: HYPOTHESIS_PROFILE=thorough tries as many as PyTorch is compared with.
DRAWN = 60
TRIED = DRAWN if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else 3


def array(shape, seed=0, dtype=np.float32):
    return np.random.default_rng((seed, *shape)).standard_normal(shape).astype(dtype)


def call_and_gradients(*options):
    """From an input, a grid and a cotangent to the result and both gradients."""

    def run(x, g, ct):
        out, pullback = jax.vjp(lambda x, g: F.grid_sample(x, g, *options), x, g)
        return out, *pullback(ct)

    return run


def drawn(dims, mode):
    """Shapes of input and grid, and the other arguments."""
    rng = np.random.default_rng((dims, MODES.index(mode)))
    for draw in range(DRAWN):
        batch, channels = (int(n) for n in rng.integers(1, 4, 2))
        sizes, samples = (tuple(int(n) for n in rng.integers(1, 7, dims)) for _ in range(2))
        options = (mode, PADDINGS[draw % 3], draw // 3 % 2 == 1 if draw > 2 else draw % 2 == 0)
        yield (batch, channels, *sizes), (batch, *samples, dims), options


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_values_and_gradients_are_those_of_pytorch(kind):
    torch = pytest.importorskip("torch")
    calls = list(itertools.islice(drawn(*kind), TRIED))

    # One program for all: compiling each takes longer.
    @jax.jit
    def run(every):
        return [call_and_gradients(*c[2])(*a) for a, c in zip(every, calls, strict=True)]

    every = []
    for shape, places, _ in calls:
        out = (*shape[:2], *places[1:-1])
        every.append((array(shape), array(places) * np.float32(1.3), array(out, 1)))
    for got, (x, g, ct), call in zip(run(every), every, calls, strict=True):
        leaves = [torch.tensor(a, requires_grad=True) for a in (x, g)]
        out = torch.nn.functional.grid_sample(*leaves, *call[2])
        wanted = (out, *torch.autograd.grad(out, leaves, torch.tensor(ct)))
        for one, want in zip(got, wanted, strict=True):
            assert one.dtype == np.float32
            np.testing.assert_allclose(
                one, want.detach().numpy(), rtol=1e-4, atol=2e-4, err_msg=str(call)
            )


@pytest.mark.parametrize("align", [True, False])
def test_where_a_grid_meets_elements_and_edges_it_is_as_in_pytorch(align):
    torch = pytest.importorskip("torch")
    x = array((1, 2, 4, 5))
    # Elements and the middles between them; ties of the nearest go to the even one.
    steps = [
        [((2 * i + 1) / (2 * n) if not align else i / (2 * n - 2)) for i in range(-3, 3 * n)]
        for n in (5, 4)
    ]
    edges = [
        np.array(s) * 2 - 1 if align else np.arange(-3, 3 * n) / n - 1
        for s, n in zip(steps, (5, 4), strict=True)
    ]
    g = np.stack(np.meshgrid(*edges), axis=-1)[None].astype(np.float32)
    ct = array((1, 2, *g.shape[1:3]), 1)
    for mode, padding in itertools.product(("bilinear", "nearest"), PADDINGS):
        got = jax.jit(call_and_gradients(mode, padding, align))(x, g, ct)
        leaves = [torch.tensor(a, requires_grad=True) for a in (x, g)]
        out = torch.nn.functional.grid_sample(*leaves, mode, padding, align)
        wanted = (out, *torch.autograd.grad(out, leaves, torch.tensor(ct)))
        for one, want in zip(got, wanted, strict=True):
            np.testing.assert_allclose(
                one, want.detach().numpy(), rtol=1e-4, atol=2e-4, err_msg=f"{mode} {padding}"
            )


CASES = {
    f"{dims}d {mode} {padding}": (dims, mode, padding)
    for (dims, mode), padding in zip(KINDS, itertools.cycle(PADDINGS), strict=False)
}
SIZES = {2: (3, 4), 3: (2, 3, 2)}


def sample(dims, mode, padding, align=False):
    """A function of an input and a grid, and both; no two samples are equally near to elements."""
    x, g = array((2, 3, *SIZES[dims])), array((2, *SIZES[dims][::-1], dims)) * np.float32(0.7)
    return lambda x, g: F.grid_sample(x, g, mode, padding, align), x, g


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("padding", PADDINGS)
def test_what_is_no_number_is_the_first_edge_and_has_no_derivative(mode, padding):
    x = array((1, 2, 4, 5))
    odd = [NAN, INF, -INF, 3e38, -1e20]
    g = np.array([[[[v, 0.1] for v in odd], [[0.3, v] for v in odd]]], np.float32)
    plain = np.where(np.isnan(g), -1, np.clip(g, -1e3, 1e3))
    if padding == "reflection":
        plain = np.where(np.isinf(g), -1, plain)
    got = jax.jit(call_and_gradients(mode, padding, False))(x, g, array((1, 2, 2, 5), 1))
    assert all(np.isfinite(one).all() for one in got)
    # So far from the edge rounding leaves nothing of where a reflection is.
    sure = ~np.isin(g, np.float32([3e38, -1e20])) | (padding != "reflection")
    want = F.grid_sample(x, plain, mode, padding, False)
    both = (np.where(sure.all(-1)[:, None], out, 0) for out in (got[0], want))
    np.testing.assert_allclose(*both, 1e-5)
    assert not np.asarray(got[2])[~np.isin(g, np.float32([0.1, 0.3])) & sure].any()


@pytest.mark.parametrize("name", ["native", "seed 1"])
@pytest.mark.parametrize("mode", MODES)
def test_what_is_beyond_the_input_touches_nothing(mode, name):
    x = np.full((1, 2, 5, 5), NAN, np.float32)
    x[..., 1:4, 1:4] = 1
    # One sample in the middle of an element, one far away, and one half beyond the corner.
    g = np.array([[[[0, 0], [9, 0.1], [-40, 7], [1.3, 1.3]]]], np.float32)
    ct = np.array([1, INF, -INF, INF], np.float32)[None, None, None] * np.ones((1, 2, 1, 1), "f")
    with LOWERINGS[name]():
        out, of_x, of_g = jax.jit(call_and_gradients(mode, "zeros", False))(x, g, ct)
    np.testing.assert_array_equal(np.asarray(out)[0, 0, 0, 1:3], [0, 0])
    assert not np.asarray(of_g)[0, 0, 1:3].any()
    if mode == "bicubic":
        return  # reads NaN at a weight of 0
    np.testing.assert_array_equal(np.asarray(out)[0, 0, 0, 0], 1)
    of_x = np.asarray(of_x)[0, 0]
    untouched = np.ones((5, 5), bool)
    untouched[2:4, 2:4] = untouched[4, 4] = False
    assert_same_bits(of_x[untouched], np.zeros(untouched.sum(), np.float32))
    assert of_x[2, 2] == 1


@pytest.mark.parametrize("case", CASES)
def test_every_lowering_gives_the_same_bits(case):
    _, x, g = sample(*CASES[case])
    ct = spread(np.random.default_rng(0), (2, 3, *g.shape[1:-1]))
    run = call_and_gradients(*CASES[case][1:], False)
    wanted = [np.asarray(one) for one in jax.jit(run)(x, g, ct)]
    for name in ("xla", "seed 1"):
        with LOWERINGS[name]():
            for got, want in zip(jax.jit(run)(x, g, ct), wanted, strict=True):
                assert_same_bits(got, want)


@pytest.mark.parametrize("case", ["2d bilinear zeros", "3d nearest border"])
def test_every_transformation_gives_the_same_bits(case):
    function, x, g = sample(*CASES[case])
    ct = spread(np.random.default_rng(0), (2, 3, *g.shape[1:-1]))
    run = call_and_gradients(*CASES[case][1:], False)
    wanted = [np.asarray(one) for one in jax.jit(run)(x, g, ct)]
    mesh = Mesh(jax.devices()[:1], ("i",))
    spec = PartitionSpec("i")
    ways = {
        "eager": run,
        "vmap": lambda *args: jax.tree.map(
            lambda a: a[:, 0], jax.vmap(run)(*(a[:, None] for a in args))
        ),
        "checkpoint": lambda x, g, ct: (
            function(x, g),
            *jax.vjp(jax.checkpoint(function), x, g)[1](ct),
        ),
        "shard_map": jax.shard_map(run, mesh=mesh, in_specs=spec, out_specs=spec),
    }
    for way, mapped in ways.items():
        results = mapped(x, g, ct) if way == "eager" else jax.jit(mapped)(x, g, ct)
        for got, want in zip(results, wanted, strict=True):
            assert_same_bits(got, want)


@pytest.mark.parametrize("case", [c for c in CASES if "nearest" not in c])
def test_derivatives_against_finite_differences(case):
    with jax.enable_x64(True):
        function, x, g = sample(*CASES[case])
        x, g = x.astype(np.float64), g.astype(np.float64)
        check_grads(
            jax.jit(lambda x, g: (function(x, g) ** 2).sum()),
            (x, g),
            order=2 if case == "2d bilinear zeros" else 1,
            modes=("fwd", "rev"),
            atol=1e-4,
            rtol=1e-4,
            eps=1e-6,
        )


def test_of_one_grid_for_many_inputs_and_of_one_input_for_many_grids():
    function, x, g = sample(2, "bilinear", "zeros")
    many = np.stack([x, 2 * x, -x])
    got = jax.jit(jax.vmap(function, (0, None)))(many, g)
    assert_same_bits(got, np.stack([function(one, g) for one in many]))
    many = np.stack([g, g / 2])
    got = jax.jit(jax.vmap(function, (None, 0)))(x, many)
    assert_same_bits(got, np.stack([function(x, one) for one in many]))


@pytest.mark.parametrize("dtype", [np.float16, bfloat16, np.float64], ids=lambda d: d.__name__)
def test_narrow_floats_are_rounded_once_and_wide_ones_kept(dtype):
    with jax.enable_x64(dtype is np.float64):
        _, x, g = sample(2, "bicubic", "reflection")
        x, g, ct = (a.astype(dtype) for a in (x, g, array((2, 3, 4, 3), 1)))
        run = jax.jit(call_and_gradients("bicubic", "reflection", False))
        wide = np.float64 if dtype is np.float64 else np.float32
        for got, want in zip(
            run(x, g, ct), run(*(a.astype(wide) for a in (x, g, ct))), strict=True
        ):
            assert got.dtype == dtype
            assert_same_bits(got, np.asarray(want).astype(dtype))


@pytest.mark.parametrize(
    ("shape", "samples"),
    [((0, 2, 3, 3), (2, 2)), ((1, 0, 3, 3), (2, 2)), ((1, 2, 3, 3), (0, 2))],
)
def test_nothing(shape, samples):
    x, g = array(shape), array((shape[0], *samples, 2))
    out, of_x, of_g = call_and_gradients("bilinear")(x, g, array((*shape[:2], *samples)))
    assert out.shape == (*shape[:2], *samples)
    assert_same_bits(of_x, np.zeros_like(x))
    assert_same_bits(of_g, np.zeros_like(g))


def test_no_corners_are_by_default():
    _, x, g = sample(2, "bilinear", "zeros")
    assert_same_bits(F.grid_sample(x, g), F.grid_sample(x, g, "bilinear", "zeros", False))
    theta = array((1, 2, 3))
    assert_same_bits(F.affine_grid(theta, (1, 1, 2, 3)), F.affine_grid(theta, [1, 1, 2, 3], False))


@pytest.mark.parametrize("wrt", [(0,), (1,), (0, 1)], ids=["input", "grid", "both"])
def test_a_gradient_by_either_is_refused_or_warned_of_once(wrt):
    function, x, g = sample(2, "bilinear", "zeros")

    def gradient(x, g):
        return jax.grad(lambda *args: function(*args).sum(), wrt)(x, g)

    with impl.deterministic(True, profile="torch-2.12"):
        impl.testing.lower(function, x, g)
        with pytest.raises(RuntimeError, match="grid_sampler_2d_backward_cuda does not have"):
            impl.testing.lower(gradient, x, g)
        jax.jit(gradient).lower(x, g)
    with impl.deterministic(True, warn_only=True, profile="torch-2.12"):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            impl.testing.lower(gradient, x, g)
        assert len([one for one in said if one.category is UserWarning]) == 1


def test_a_gradient_takes_no_memory_for_each_tap():
    x, g = np.ones((2, 128, 32, 32), np.float32), np.ones((2, 32, 32, 2), np.float32)
    run = jax.jit(call_and_gradients("bicubic", "border"))
    used = run.lower(x, g, x).compile().memory_analysis().temp_size_in_bytes
    # Weights and what is made of them are about as large as the input; contributions of 16 taps
    # would be 16 times as large.
    assert used < 6 * x.nbytes


# The primitive


def rows(path="ordered"):
    """Values, weights, indices, of which some are of no row, and a function of the first two."""
    rng = np.random.default_rng(0)
    values, weights = rng.standard_normal((2, 5, 19)), rng.standard_normal((2, 6, 4))
    indices = rng.integers(-1, 7, (2, 6, 4)).astype(np.int32)
    decision = Decision(elsewhere=Action(path=path))
    return values, weights, indices, functools.partial(blend, indices=indices, pullback=decision)


def test_a_blend_adds_products_in_the_order_of_their_weights():
    values, weights, indices, function = rows()
    values, weights = values.astype(np.float32), weights.astype(np.float32)
    extended = np.concatenate([values, np.zeros((2, 1, 19), np.float32)], 1)
    kept = np.where((indices >= 0) & (indices < 5), indices, 5)
    products = weights[..., None] * extended[np.arange(2)[:, None, None], kept]
    wanted = np.where((kept < 5)[..., None], products, 0)
    wanted = ((wanted[:, :, 0] + wanted[:, :, 1]) + wanted[:, :, 2]) + wanted[:, :, 3]
    for name in DISTINCT:
        with LOWERINGS[name]():
            assert_same_bits(jax.jit(function)(values, weights), wanted)


@pytest.mark.parametrize("path", ["ordered", "atomic"])
def test_derivatives_of_a_blend_are_blends(path):
    values, weights, _, function = rows(path)
    with jax.enable_x64(True):
        # A square, so that no derivative up to the third is of one operand alone.
        check_grads(
            jax.jit(lambda v, w: (function(v, w) ** 2).sum()),
            (values, weights),
            order=2,
            modes=("fwd", "rev"),
            rtol=1e-4,
        )


def test_a_blend_of_nothing():
    values, weights = jnp.ones((2, 3, 4)), jnp.ones((2, 5, 0))
    pullback = Decision(elsewhere=Action(path="ordered"))
    none = jnp.zeros((2, 5, 0), jnp.int32)
    out, back = jax.vjp(lambda v, w: blend(v, w, none, pullback=pullback), values, weights)
    assert_same_bits(out, np.zeros((2, 5, 4), np.float32))
    assert_same_bits(back(out)[0], np.zeros((2, 3, 4), np.float32))


# Errors

X, G = np.zeros((1, 2, 4, 3), np.float32), np.zeros((1, 5, 6, 2), np.float32)
VOLUME = np.zeros((1, 2, 4, 3, 2), np.float32), np.zeros((1, 5, 6, 7, 3), np.float32)
#: Positional arguments, exception, fragment of the message
BAD = [
    (([1.0], G), TypeError, "'input' must be"),
    ((X, [1.0]), TypeError, "'grid' must be"),
    ((X, G, "trilinear"), ValueError, "expected mode to be one of 'bilinear'"),
    ((X, G, 0), ValueError, "but got: 0"),
    ((X, G, "nearest", "wrap"), ValueError, "expected padding_mode"),
    ((X, G, "nearest", "zeros", 1), TypeError, "'align_corners' must be bool"),
    ((X[0], G), RuntimeError, "4D or 5D input"),
    ((X, G[0]), RuntimeError, "same number of dimensions"),
    ((X, VOLUME[1]), RuntimeError, "grid with sizes [1, 5, 6, 7, 3]"),
    ((X, np.concatenate([G, G])), RuntimeError, "same batch size"),
    ((X, G[..., :1]), RuntimeError, "to have size 2 in last dimension"),
    ((X[:, :, :0], G), RuntimeError, "with dimension 2 being empty"),
    ((*VOLUME, "bicubic"), RuntimeError, "only supports 4D input"),
    ((X.astype(int), G.astype(int)), NotImplementedError, "it takes floats"),
    ((X.astype(np.complex64), G), NotImplementedError, "complex64"),
    ((X.astype(np.float16), G), RuntimeError, "float32 and float16"),
]


@pytest.mark.parametrize(("args", "error", "said"), BAD)
def test_bad_arguments(args, error, said):
    with pytest.raises(error, match=re.escape(said)) as caught:
        F.grid_sample(*args)
    assert str(caught.value).startswith("grid_sample(): ")

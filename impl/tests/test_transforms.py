"""Transformations: derivatives, batches, compilation, and what composes them."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh, PartitionSpec
from jax.test_util import check_grads

import impl
from impl.tests._support import LOWERINGS, assert_same_bits, kernels, spread

pytestmark = pytest.mark.usefixtures("complete")

INDEX = np.array([2, 0, 2, 1, 2])
PLACES = np.stack([INDEX, INDEX[::-1], INDEX[[4, 1, 0, 2, 3]]], 1)
FIVE = spread(np.random.default_rng(5), (5, 3))
#: No two of them so close that a finite difference takes one for the other.
APART = np.random.default_rng(1).permutation(np.arange(15, dtype=np.float32)).reshape(5, 3)
THREE = spread(np.random.default_rng(3), (3, 3))

#: Functions of float arrays, and their arguments; all but kthvalue are linear in each.
OPS = {
    "index_add": (lambda x, s: impl.index_add(x, 0, INDEX, s, alpha=0.5), (THREE, FIVE)),
    "scatter_add": (lambda x, s: impl.scatter_add(x, 0, PLACES, s), (THREE, FIVE)),
    "gather": (lambda x: impl.gather(x, 0, PLACES), (THREE,)),
    "index_select": (lambda x: impl.index_select(x, 0, INDEX), (THREE,)),
    "bincount": (lambda w: impl.bincount(INDEX, w), (FIVE[:, 0],)),
    "cumsum": (lambda x: impl.cumsum(x, 0), (FIVE,)),
    "kthvalue": (lambda x: impl.kthvalue(x, 2, 0).values, (APART,)),
}
op = pytest.mark.parametrize("name", OPS)


@op
def test_derivatives_against_finite_differences(name):
    function, arguments = OPS[name]
    # A square, so that the second derivative is not zero.
    check_grads(
        jax.jit(lambda *args: (function(*args) ** 2).sum()),
        tuple(np.asarray(a) / 8 for a in arguments),
        order=2 if name in ("index_add", "gather", "cumsum") else 1,
        modes=("fwd", "rev"),
        atol=0.05,
        rtol=0.05,
        eps=1e-2,
    )


@op
def test_jvp_and_vjp_are_each_others_transpose(name):
    function, arguments = OPS[name]
    rng = np.random.default_rng(0)
    tangents = tuple(rng.standard_normal(a.shape).astype(np.float32) for a in arguments)
    out, out_dot = jax.jvp(function, arguments, tangents)
    same, pullback = jax.vjp(function, *arguments)
    assert_same_bits(out, same)
    weight = rng.standard_normal(out.shape).astype(np.float32)
    gradients = pullback(jnp.asarray(weight))
    left = np.vdot(weight, out_dot)
    right = sum(np.vdot(g, t) for g, t in zip(gradients, tangents, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-4)


def test_only_one_argument_is_differentiated():
    def loss(x, s):
        return (impl.index_add(x, 0, INDEX, s) * THREE).sum()

    assert_same_bits(jax.grad(loss, 0)(THREE, FIVE), THREE)
    assert_same_bits(jax.grad(loss, 1)(THREE, FIVE), THREE[INDEX])
    zero = np.zeros_like(FIVE)
    out_dot = jax.jvp(lambda s: impl.index_add(THREE, 0, INDEX, s), (FIVE,), (zero,))[1]
    assert_same_bits(out_dot, np.zeros_like(THREE))
    alpha = jax.grad(lambda a: impl.index_add(THREE, 0, INDEX, FIVE, alpha=a).sum())(2.0)
    np.testing.assert_allclose(alpha, FIVE.sum(), rtol=1e-4)


def test_integers_are_differentiated_through():
    def function(x, i):
        counts = impl.bincount(i, minlength=3)
        best = impl.kthvalue(i, 1).indices
        return (impl.gather(x, 0, PLACES) * impl.cumsum(counts, 0)[2]).sum() + best

    gradient = jax.grad(function)(THREE, INDEX)
    want = np.zeros_like(THREE)
    for row in PLACES:
        want[row, [0, 1, 2]] += 5
    assert_same_bits(gradient, want)


@op
def test_jit_gives_the_bits_of_an_eager_call(name):
    function, arguments = OPS[name]
    assert_same_bits(jax.jit(function)(*arguments), function(*arguments))

    def loss(*args):
        return (function(*args) * 3).sum()

    for eager, compiled in zip(
        jax.grad(loss, tuple(range(len(arguments))))(*arguments),
        jax.jit(jax.grad(loss, tuple(range(len(arguments)))))(*arguments),
        strict=True,
    ):
        assert_same_bits(compiled, eager)


@op
def test_checkpoint_recomputes_the_same_bits(name):
    function, arguments = OPS[name]

    def loss(wrap, *args):
        return (wrap(lambda *a: function(*a) ** 2)(*args) * 3).sum()

    plain = jax.jit(jax.grad(functools.partial(loss, lambda f: f)))(*arguments)
    assert_same_bits(jax.jit(jax.grad(functools.partial(loss, jax.checkpoint)))(*arguments), plain)


@op
def test_hessian(name):
    function, arguments = OPS[name]
    got = jax.jit(jax.hessian(lambda x: (function(x, *arguments[1:]) ** 2).sum() / 2))(arguments[0])
    # The square of a linear function has the Hessian J'J.
    jacobian = np.asarray(jax.jit(jax.jacfwd(lambda x: function(x, *arguments[1:])))(arguments[0]))
    flat = jacobian.reshape(-1, arguments[0].size)
    np.testing.assert_allclose(
        np.asarray(got).reshape(arguments[0].size, -1), flat.T @ flat, atol=1e-4
    )
    assert np.any(flat)


@op
def test_the_body_of_a_scan(name):
    function, arguments = OPS[name]

    def body(carry, scale):
        out = function(*(a * scale for a in arguments[:-1]), arguments[-1] * scale)
        return carry + out.sum(), out

    scales = jnp.array([1.0, 2.0, 0.5])
    _, outs = jax.lax.scan(body, 0.0, scales)
    for scale, out in zip(scales, outs, strict=True):
        assert_same_bits(out, function(*(a * scale for a in arguments)))
    gradient = jax.grad(lambda s: jax.lax.scan(body, 0.0, s)[0])(scales)
    want = function(*arguments).sum()  # Linear, also in the scale.
    np.testing.assert_allclose(gradient, [want] * 3, rtol=1e-4, atol=1e-4)


# Batches: the bits of one call for each example.

RNG = np.random.default_rng(7)
BATCHES = {
    "index_add": (
        lambda x, i, s: impl.index_add(x, 1, i, s),
        [spread(RNG, (4, 2, 3, 2)), RNG.integers(0, 3, (4, 40)), spread(RNG, (4, 2, 40, 2))],
    ),
    "scatter_add": (
        lambda x, i, s: impl.scatter_add(x, 1, i, s),
        [spread(RNG, (4, 2, 3)), RNG.integers(0, 3, (4, 2, 40)), spread(RNG, (4, 2, 40))],
    ),
    "gather": (
        lambda x, i: impl.gather(x, 1, i),
        [spread(RNG, (4, 2, 3)), RNG.integers(0, 3, (4, 2, 40))],
    ),
    "index_select": (
        lambda x, i: impl.index_select(x, 0, i),
        [spread(RNG, (4, 3, 2)), RNG.integers(0, 3, (4, 40))],
    ),
    "bincount": (
        lambda i, w: impl.bincount(i, w, length=3),
        [RNG.integers(0, 3, (4, 40)), spread(RNG, (4, 40))],
    ),
    "cumsum": (lambda x: impl.cumsum(x, 0), [spread(RNG, (4, 40, 2))]),
    "kthvalue": (
        lambda x: impl.kthvalue(x, 9, 0).indices,
        [RNG.integers(0, 3, (4, 40, 2)).astype(np.float32)],
    ),
}
ALL_AXES = [
    (name, axes)
    for name, (_, arguments) in BATCHES.items()
    for axes in itertools.product([0, None], repeat=len(arguments))
    if any(axis is not None for axis in axes)
]


def check_batch(function, arguments, axes, out_axes=0, wrap=jax.vmap):
    """The batched call has the bits of single calls."""
    given = [a if axis is not None else a[0] for a, axis in zip(arguments, axes, strict=True)]
    moved = [np.moveaxis(a, 0, axis) if axis else a for a, axis in zip(given, axes, strict=True)]
    got = wrap(function, in_axes=axes, out_axes=out_axes)(*moved)
    singles = [
        function(*(a[i] if axis is not None else a for a, axis in zip(given, axes, strict=True)))
        for i in range(len(arguments[0]))
    ]
    assert_same_bits(got, np.stack(singles, out_axes))


@pytest.mark.parametrize(("name", "axes"), ALL_AXES)
def test_vmap_has_the_bits_of_single_calls(name, axes):
    check_batch(*BATCHES[name], axes)


@pytest.mark.parametrize("name", BATCHES)
def test_vmap_over_other_axes(name):
    function, arguments = BATCHES[name]
    check_batch(function, arguments, (-1, 1, -1)[: len(arguments)], out_axes=-1)


@pytest.mark.parametrize(
    ("name", "lowering"),
    [("index_add", "seed 1"), ("scatter_add", "xla"), ("cumsum", "seed 1"), ("kthvalue", "seed 1")],
)
def test_vmap_in_other_lowerings(name, lowering):
    function, arguments = BATCHES[name]
    with LOWERINGS[lowering]():
        check_batch(function, arguments, (0, None, 0)[: len(arguments)])


def test_vmap_over_several_panels():
    rng = np.random.default_rng(0)
    arguments = [spread(rng, (2, 3)), rng.integers(0, 3, (2, 2100)), spread(rng, (2, 2100))]
    for axes in [(0, None, 0), (None, 0, None)]:
        check_batch(lambda x, i, s: impl.index_add(x, 0, i, s), arguments, axes)


@pytest.mark.parametrize("axes", [(0, 0), (0, None), (None, 0)])
def test_vmap_of_gradients(axes):
    for name in ("gather", "index_select"):
        function, arguments = BATCHES[name]
        weight = spread(np.random.default_rng(0), function(*(a[0] for a in arguments)).shape)
        gradient = jax.grad(lambda x, i, f=function, w=weight: (f(x, i) * w).sum())
        check_batch(gradient, arguments, axes)


def test_vmap_twice():
    function, (x, index, source) = BATCHES["index_add"]
    got = jax.vmap(jax.vmap(function, (None, 0, 0)), (0, None, None))(x, index, source)
    for i, j in itertools.product(range(4), range(4)):
        assert_same_bits(got[i, j], function(x[i], index[j], source[j]))


def test_vmap_of_a_batch_without_examples():
    function, arguments = BATCHES["index_add"]
    assert jax.vmap(function)(*(a[:0] for a in arguments)).shape == (0, 2, 3, 2)
    function, arguments = BATCHES["kthvalue"]
    assert jax.vmap(function)(arguments[0][:0]).shape == (0, 2)


# shard_map


@pytest.fixture(scope="module")
def mesh():
    return Mesh(np.array(jax.devices()[:1]), ("d",))


@op
@pytest.mark.parametrize("check_vma", [True, False])
def test_shard_map(name, check_vma, mesh):
    function, arguments = OPS[name]
    mapped = jax.shard_map(
        function,
        mesh=mesh,
        in_specs=PartitionSpec("d"),
        out_specs=PartitionSpec("d"),
        check_vma=check_vma,
    )

    def loss(call, *args):
        return (call(*args) ** 2).sum()

    assert_same_bits(jax.jit(mapped)(*arguments), function(*arguments))
    want = jax.jit(jax.grad(functools.partial(loss, function)))(*arguments)
    got = jax.jit(jax.grad(functools.partial(loss, mapped)))(*arguments)
    assert_same_bits(got, want)
    # Arguments that vary over the mesh beside ones that don't.
    if len(arguments) > 1:
        mixed = jax.shard_map(
            lambda s: function(arguments[0], s),
            mesh=mesh,
            in_specs=PartitionSpec("d"),
            out_specs=PartitionSpec("d"),
            check_vma=check_vma,
        )
        assert_same_bits(jax.jit(mixed)(arguments[1]), function(*arguments))


@pytest.mark.parametrize("name", ["index_add", "gather", "cumsum", "kthvalue"])
def test_shard_map_sees_that_the_result_varies(name, mesh):
    function, arguments = OPS[name]
    mapped = jax.shard_map(
        function, mesh=mesh, in_specs=PartitionSpec("d"), out_specs=PartitionSpec()
    )
    with pytest.raises(ValueError, match="replicat"):
        mapped(*arguments)


@pytest.mark.parametrize("name", ["index_add", "cumsum", "kthvalue"])
def test_the_interpreted_kernels_run_inside_shard_map(name, mesh):
    function, arguments = OPS[name]
    # Pallas' interpreter knows nothing of axes over which a value varies.
    mapped = jax.shard_map(
        function,
        mesh=mesh,
        in_specs=PartitionSpec("d"),
        out_specs=PartitionSpec("d"),
        check_vma=False,
    )
    with impl.testing.emulate("cuda"):
        assert_same_bits(jax.jit(mapped)(*arguments), function(*arguments))


@pytest.mark.parametrize("check_vma", [True, False])
@pytest.mark.parametrize("name", ["index_add", "cumsum", "kthvalue"])
def test_the_kernels_are_lowered_inside_shard_map(name, check_vma):
    function, arguments = OPS[name]
    gpu = impl.testing._mesh("NVIDIA H200").abstract_device
    mesh = AbstractMesh((1,), ("d",), axis_types=(AxisType.Auto,), abstract_device=gpu)
    mapped = jax.shard_map(
        function,
        mesh=mesh,
        in_specs=PartitionSpec("d"),
        out_specs=PartitionSpec("d"),
        check_vma=check_vma,
    )
    with jax.sharding.use_abstract_mesh(mesh):
        lowered = jax.jit(mapped).trace(*arguments).lower(lowering_platforms=("cuda",))
    assert any("ordered" in kernel for kernel in kernels(lowered))

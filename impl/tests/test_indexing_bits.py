"""Indexing: bits over lowerings, facts, and transformations."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import impl
from impl.tests._support import assert_same_bits, spread
from spec import oracles

pytestmark = pytest.mark.usefixtures("complete")

RNG = np.random.default_rng(0)
MANY = 1100
#: Below 0 and above, for the same places.
INDEX = RNG.integers(-3, 3, MANY)
WRAPPED = INDEX % 3


def gradient(read, x, weight):
    return jax.jit(lambda x, w: jax.vjp(read, x)[1](w)[0])(x, weight)


def by_lanes(function, *arrays):
    """Applies an oracle along the second of three dimensions."""
    moved = [np.moveaxis(a, 1, 0) if a.ndim > 1 else a for a in arrays]
    return np.moveaxis(function(*moved), 0, 1)


@pytest.mark.usefixtures("lowering")
def test_gradients_of_reads_between_other_dimensions():
    x = np.zeros((2, 3, 2), np.float32)
    weight = spread(RNG, (2, MANY, 2))
    want = by_lanes(oracles.panel, x, WRAPPED, weight)
    assert_same_bits(gradient(lambda x: impl.getitem(x, (slice(None), INDEX)), x, weight), want)
    shared = INDEX[None, :, None]
    assert_same_bits(gradient(lambda x: impl.take_along_dim(x, shared, 1), x, weight), want)
    ordered = np.sort(WRAPPED)
    repeats = np.bincount(WRAPPED)
    want = by_lanes(oracles.panel, x, ordered, weight)
    assert_same_bits(gradient(lambda x: impl.repeat_interleave(x, repeats, 1), x, weight), want)


@pytest.mark.usefixtures("lowering")
def test_what_is_repeated_is_one_sum():
    # Rounded once, in row-major order of all reads: not a sum of the sums of each repetition.
    x = np.zeros((1, 3, 1), jnp.bfloat16)
    index = INDEX.reshape(2, 110, 5)
    weight = spread(RNG, index.shape, jnp.bfloat16)
    want = oracles.panel(x[0, :, 0], WRAPPED, weight.reshape(-1)).reshape(x.shape)
    assert_same_bits(gradient(lambda x: impl.take_along_dim(x, index, 1), x, weight), want)


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.usefixtures("lowering")
def test_writes_between_other_dimensions(accumulate):
    oracle = oracles.panel if accumulate else oracles.last_write
    x, values = spread(RNG, (2, 3, 2)), spread(RNG, (2, MANY, 2))
    want = by_lanes(oracle, x, WRAPPED, values)
    assert_same_bits(impl.index_put(x, (None, INDEX), values, accumulate), want)
    want = oracle(x.reshape(-1), INDEX % x.size, values[0, :, 0]).reshape(x.shape)
    assert_same_bits(impl.put(x, INDEX, values[0, :, 0], accumulate), want)


@pytest.mark.usefixtures("lowering")
def test_masks_and_slices():
    x = spread(RNG, (40, 3))
    mask = x[:, 0] > 0
    weight = spread(RNG, (mask.sum(), 3))
    want = np.zeros_like(x)
    want[mask] = weight
    assert_same_bits(gradient(lambda x: impl.getitem(x, mask), x, weight), want)
    assert_same_bits(impl.index_put(np.zeros_like(x), (mask,), weight), want)
    want[:] = 0
    want[1:39:3, None, -1] = weight[:13, :1]
    read = lambda x: impl.getitem(x, (slice(1, 39, 3), None, -1))  # noqa: E731
    assert_same_bits(gradient(read, x, weight[:13, :1]), want)


@pytest.mark.parametrize(
    ("call", "stated"),
    [
        (lambda: impl.getitem(np.ones(3), np.arange(2)), {"index_is_list": True}),
        (lambda: impl.getitem(np.ones(3), [np.arange(2)]), {"index_is_list": True}),
        (lambda: impl.getitem(np.ones(3), [0, 2]), {"index_is_list": True}),
        (lambda: impl.getitem(np.ones(3), True), {"index_is_list": True}),
        (lambda: impl.getitem(np.ones(3), np.array(1)), {"index_is_list": False}),
        (lambda: impl.getitem(np.ones(3), (slice(2), None)), {"index_is_list": False}),
        (lambda: impl.getitem(np.ones(3), np.arange(2)), {"unique_indices": False}),
        (lambda: impl.getitem(np.ones(3), np.arange(3) > 0), {"unique_indices": True}),
        (lambda: impl.getitem(np.ones((2, 3)), (np.arange(2), 0)), {"unique_indices": False}),
        (
            lambda: impl.index_put(np.ones(3), (np.arange(3) > 0,), np.ones(2), True),
            {"unique_indices": True, "accumulate": True},
        ),
        (
            lambda: impl.index_put(np.ones(3), (np.arange(2),), np.ones(2)),
            {"unique_indices": False, "accumulate": False},
        ),
        (
            lambda: impl.put(np.ones(3), np.arange(2), np.ones(2), unique_indices=True),
            {"unique_indices": True, "accumulate": False},
        ),
    ],
)
def test_what_is_stated(call, stated):
    with impl.testing.questions() as asked:
        call()
    assert len(asked) == 1
    assert {name: asked[0].facts[name] for name in stated} == stated


# Transformations.

FIVE = np.array([2, 0, -1, 1, 2])
X = spread(RNG, (3, 4))
#: Functions of float arrays, linear in all of them together, and their arguments.
OPS = {
    "getitem": (lambda x: impl.getitem(x, (FIVE, slice(1, None))), (X,)),
    "index_put": (lambda x, v: impl.index_put(x, (FIVE,), v), (X, spread(RNG, (5, 4)))),
    "index_add": (lambda x, v: impl.index_put(x, (None, FIVE), v, True), (X, spread(RNG, (3, 5)))),
    "take": (lambda x: impl.take(x, FIVE * 2), (X,)),
    "put": (lambda x, v: impl.put(x, FIVE, v), (X, spread(RNG, 5))),
    "put_add": (lambda x, v: impl.put(x, FIVE, v, True), (X, spread(RNG, 5))),
    "take_along_dim": (lambda x: impl.take_along_dim(x[:1], FIVE[:, None], 1), (X,)),
    "repeat_interleave": (lambda x: impl.repeat_interleave(x, 2, 1), (X,)),
}
op = pytest.mark.parametrize("name", OPS)


@op
def test_derivatives(name):
    function, arguments = OPS[name]
    tangents = tuple(spread(np.random.default_rng(1), a.shape) for a in arguments)

    @jax.jit
    def derive(arguments, tangents):
        out, out_dot = jax.jvp(function, arguments, tangents)
        pull = jax.vjp(function, *arguments)[1]
        again = jax.vjp(jax.checkpoint(function), *arguments)[1]
        return out, function(*tangents), out_dot, pull(out), again(out)

    out, linear, out_dot, pulled, again = derive(arguments, tangents)
    assert_same_bits(out, function(*arguments))
    assert_same_bits(out_dot, linear)
    left = np.vdot(out, out_dot)
    right = sum(np.vdot(p, t) for p, t in zip(pulled, tangents, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-4)
    for own, other in zip(pulled, again, strict=True):
        assert_same_bits(other, own)


def test_the_gradient_of_a_write_is_that_of_the_one_that_stays():
    index = np.array([1, 2, -2, 1])
    weight = np.array([10.0, 20.0, 30.0], np.float32)
    for write in (impl.put, lambda x, i, s: impl.index_put(x, (i,), s)):
        of_input, of_source = jax.grad(
            lambda x, s, write=write: (write(x, index, s) * weight).sum(), (0, 1)
        )(np.zeros(3, np.float32), np.ones(4, np.float32))
        assert of_input.tolist() == [10, 0, 0]
        assert of_source.tolist() == [0, 30, 0, 20]


@op
def test_shard_map(name):
    function, arguments = OPS[name]
    spec = PartitionSpec("d")
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))

    def pulled(function):
        return jax.jit(lambda *args: jax.vjp(function, *args)[1](function(*args)))(*arguments)

    mapped = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec)
    for own, other in zip(pulled(mapped), pulled(function), strict=True):
        assert_same_bits(own, other)


#: Functions of arrays, indices among them, and batches of arguments.
BATCHES = {
    "getitem": (
        lambda x, i: impl.getitem(x, (i, slice(None), i[::-1])),
        [spread(RNG, (4, 3, 2, 3)), RNG.integers(-3, 3, (4, 6))],
    ),
    "traced_int": (
        lambda x, i: impl.getitem(x, (slice(None), i)),
        [spread(RNG, (4, 2, 3)), RNG.integers(-3, 3, 4)],
    ),
    "index_put": (
        lambda x, i, v: impl.index_put(x, (None, i), v),
        [spread(RNG, (4, 2, 3)), RNG.integers(-3, 3, (4, 9)), spread(RNG, (4, 2, 9))],
    ),
    "index_add": (
        lambda x, i, v: impl.index_put(x, (None, i), v, True),
        [spread(RNG, (4, 2, 3)), RNG.integers(-3, 3, (4, 9)), spread(RNG, (4, 2, 9))],
    ),
    "masked": (
        lambda x, m, v: impl.index_put(x, (m,), v),
        [spread(RNG, (4, 2, 3)), RNG.random((4, 2, 3)) < 0.5, spread(RNG, 4)],
    ),
    "take": (impl.take, [spread(RNG, (4, 2, 3)), RNG.integers(-6, 6, (4, 9))]),
    "put": (
        impl.put,
        [spread(RNG, (4, 2, 3)), RNG.integers(-6, 6, (4, 9)), spread(RNG, (4, 9))],
    ),
    "take_along_dim": (
        lambda x, i: impl.take_along_dim(x, i, 0),
        [spread(RNG, (4, 3, 1)), RNG.integers(-3, 3, (4, 5, 2))],
    ),
    "repeat_interleave": (
        lambda x, r: impl.repeat_interleave(x, r, 0, output_size=6),
        [spread(RNG, (4, 3, 2)), np.array([[1, 2, 3], [6, 0, 0], [0, 0, 6], [2, 2, 2]])],
    ),
}


@pytest.mark.parametrize("name", BATCHES)
def test_vmap_has_the_bits_of_single_calls(name):
    function, arguments = BATCHES[name]
    single = jax.jit(function)
    for axes in itertools.product([0, None], repeat=len(arguments)):
        if all(axis is None for axis in axes):
            continue
        given = [a if axis == 0 else a[0] for a, axis in zip(arguments, axes, strict=True)]
        got = jax.jit(jax.vmap(function, axes))(*given)
        for i, row in enumerate(got):
            own = [a[i] if axis == 0 else a for a, axis in zip(given, axes, strict=True)]
            assert_same_bits(row, single(*own))


@pytest.mark.parametrize("name", ["getitem", "take", "take_along_dim", "repeat_interleave"])
def test_vmap_of_gradients(name):
    function, (x, index) = BATCHES[name]
    weight = spread(RNG, jax.eval_shape(function, x[0], index[0]).shape)
    pull = jax.grad(lambda x, i: (function(x, i) * weight).sum())
    got = jax.jit(jax.vmap(pull))(x, index)
    single = jax.jit(pull)
    assert_same_bits(got, np.stack([single(*one) for one in zip(x, index, strict=True)]))

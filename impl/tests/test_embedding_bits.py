"""embedding and embedding_bag: transformations, and bits that no sample of the suite tries."""

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec

import impl
from impl.tests._support import assert_same_bits, bits, spread
from spec import oracles

F = impl.nn.functional
pytestmark = pytest.mark.usefixtures("complete")

RNG = np.random.default_rng(0)
W = RNG.standard_normal((5, 3)).astype(np.float32)
SAMPLES = RNG.standard_normal(10).astype(np.float32)
INDEX = RNG.integers(0, 5, 10)
OFFSETS = np.array([0, 0, 3, 7])

#: Functions of float arrays, and their arguments.
OPS = {
    "embedding": (lambda w: F.embedding(INDEX, w, 1, 1.0, 2.0, True), (W,)),
    "sum": (
        lambda w, p: F.embedding_bag(
            INDEX, w, OFFSETS, mode="sum", per_sample_weights=p, padding_idx=0
        ),
        (W, SAMPLES),
    ),
    "mean": (lambda w: F.embedding_bag(INDEX, w, OFFSETS, 1.0, 2, True, padding_idx=0), (W,)),
    "max": (lambda w: F.embedding_bag(INDEX, w, OFFSETS, 1.0, mode="max", padding_idx=0), (W,)),
}
op = pytest.mark.parametrize("name", OPS)


def gradients(function, arguments):
    """Of the sum of squares, by each argument."""
    loss = lambda *args: (function(*args) ** 2).sum()  # noqa: E731
    return jax.grad(loss, tuple(range(len(arguments))))


def assert_all_same_bits(got, want):
    for one, other in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
        assert_same_bits(one, other)


@op
def test_jit_checkpoint_and_shard_map_give_the_bits_of_an_eager_call(name):
    function, arguments = OPS[name]
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    spec = PartitionSpec("d")
    mapped = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec)
    out = function(*arguments)
    assert_same_bits(jax.jit(function)(*arguments), out)
    assert_same_bits(jax.jit(mapped)(*arguments), out)
    want = jax.jit(gradients(function, arguments))(*arguments)
    for other in (mapped, jax.checkpoint(function)):
        assert_all_same_bits(jax.jit(gradients(other, arguments))(*arguments), want)


@op
def test_jvp_and_vjp_are_each_others_transpose(name):
    function, arguments = OPS[name]
    tangents = tuple(RNG.standard_normal(a.shape).astype(np.float32) for a in arguments)
    out, out_dot = jax.jit(lambda a, t: jax.jvp(function, a, t))(arguments, tangents)
    ct = RNG.standard_normal(out.shape).astype(np.float32)

    @jax.jit
    def pull(arguments, ct):
        out, pullback = jax.vjp(function, *arguments)
        return out, pullback(ct)

    same, pulled = pull(arguments, ct)
    assert_same_bits(out, same)
    left = np.vdot(ct, out_dot)
    assert left
    pairs = zip(pulled, tangents, strict=True)
    np.testing.assert_allclose(left, sum(np.vdot(g, t) for g, t in pairs), rtol=1e-4)


def test_forward_derivatives_leave_out_and_divide_as_gradients_do():
    tangent = np.ones_like(W)
    got = jax.jvp(lambda w: F.embedding(INDEX, w, 1, None, 2.0, True), (W,), (tangent,))[1]
    count = np.bincount(INDEX, minlength=5)
    np.testing.assert_allclose(got[:, 0], np.where(INDEX == 1, 0, 1 / count[INDEX]), rtol=1e-6)


def test_second_derivatives():
    function, (w, p) = OPS["sum"]
    # Linear in each: what is mixed is the only second derivative.
    mixed = jax.jit(jax.jacfwd(jax.grad(lambda w, p: function(w, p).sum()), 1))(w, p)
    want = np.zeros((5, 3, 10))
    for position, row in enumerate(INDEX):
        want[row, :, position] = row != 0
    np.testing.assert_array_equal(mixed, want)


@pytest.mark.parametrize("name", ["embedding", "mean", "max"])
def test_hessian_of_a_square(name):
    # The op is linear as far as derivatives go: the square's Hessian is J'J.
    function, _ = OPS[name]
    jacobian = np.asarray(jax.jit(jax.jacfwd(function))(W)).reshape(-1, W.size)
    got = jax.jit(jax.hessian(lambda w: (function(w) ** 2).sum() / 2))(W)
    np.testing.assert_allclose(np.reshape(got, (W.size, -1)), jacobian.T @ jacobian, atol=1e-6)
    assert np.any(jacobian)


@op
def test_vmap_has_the_bits_of_single_calls(name):
    function, arguments = OPS[name]
    batches = tuple(np.stack([a, 2 * a, a[::-1]]) for a in arguments)
    singles = [tuple(a[k] for a in batches) for k in range(3)]
    both = lambda *args: (function(*args), *gradients(function, arguments)(*args))  # noqa: E731
    got = jax.jit(jax.vmap(both))(*batches)
    want = [jax.jit(both)(*single) for single in singles]
    assert_all_same_bits(got, [np.stack(parts) for parts in zip(*want, strict=True)])


@pytest.mark.parametrize("mode", ["mean", "max"])
def test_vmap_over_indices_and_offsets(mode):
    index = RNG.integers(0, 5, (3, 10))
    offsets = np.array([[0, 2, 5], [0, 0, 1], [0, 9, 10]])

    def call(i, o):
        return F.embedding_bag(i, W, o, mode=mode)

    want = [jax.jit(call)(i, o) for i, o in zip(index, offsets, strict=True)]
    assert_same_bits(jax.jit(jax.vmap(call))(index, offsets), np.stack(want))
    got = jax.jit(jax.vmap(lambda i: F.embedding(i, W, 1, 1.0)))(index)
    assert_same_bits(got, F.embedding(index, W, 1, 1.0))


# Bits.


LONG = np.random.default_rng(1).integers(0, 3, 2100)


@pytest.mark.usefixtures("lowering")
def test_gradients_of_narrow_rows_are_divided_and_then_rounded():
    def call(w):
        return F.embedding(LONG, w, 1, None, 2.0, True)

    ct = spread(np.random.default_rng(0), (2100, 2), np.float16)
    w = np.zeros((3, 2), np.float16)
    sums = oracles.panel(np.zeros((3, 2), np.float32), LONG, ct.astype(np.float32))
    want = (sums / np.bincount(LONG)[:, None].astype(np.float32)).astype(np.float16)
    want[1] = 0
    assert_same_bits(jax.jit(lambda w, ct: jax.vjp(call, w)[1](ct)[0])(w, ct), want)


@pytest.mark.usefixtures("lowering")
def test_products_of_narrow_rows_are_not_rounded():
    w, p = (spread(np.random.default_rng(k), s, np.float16) for k, s in enumerate([(3, 2), 2100]))
    offsets = np.array([0, 5, 5, 1500])

    def call(w, p):
        return F.embedding_bag(LONG, w, offsets, mode="sum", per_sample_weights=p)

    wide = w.astype(np.float32)[LONG] * p.astype(np.float32)[:, None]
    bag = np.searchsorted(offsets, np.arange(2100), side="right") - 1
    want = oracles.panel(np.zeros((4, 2), np.float32), bag, wide).astype(np.float16)
    assert_same_bits(jax.jit(call)(w, p), want)


@pytest.mark.parametrize("mode", [False, True])
@pytest.mark.usefixtures("lowering")
def test_norms_add_up_in_panel_order_whatever_the_mode(mode):
    w = spread(np.random.default_rng(0), (4, 1500))
    home = np.zeros(1500, np.int64)
    for order, terms in ((2.0, w * w), (1.0, np.abs(w))):
        norm = oracles.panel(np.zeros((1, 4), np.float32), home, terms.T)[0]
        norm = np.sqrt(norm) if order == 2 else norm
        want = w * (np.float32(0.5) / (norm + np.float32(1e-7)))[:, None]
        with impl.deterministic(mode, profile="complete"):
            assert_same_bits(F.embedding(np.arange(4), w, None, 0.5, order), want)
        assert bits(norm) != bits(np.add.reduce(terms, 1))  # the order shows

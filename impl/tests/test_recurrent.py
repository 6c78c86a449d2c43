"""rnn_tanh, rnn_relu, lstm and gru."""

import functools
import os

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, PartitionSpec
from jax.test_util import check_grads

import impl
from conformance import lowered_code
from impl.tests._dots import lowered
from impl.tests._recurrent import Net, drawn
from impl.tests._support import assert_same_bits
from spec import oracles

pytestmark = pytest.mark.usefixtures("complete")
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
#: Every feature by some net; and all of them together.
NETS = [
    Net("rnn_tanh", layers=3, biases=False, batch_first=True),
    Net("rnn_relu", both=True, lengths=(2, 4, 1)),
    Net("lstm", size=2, layers=2, both=True, batch_first=True, lengths=(3, 1, 4)),
    Net("gru", layers=2, both=True, lengths=(1, 4, 2)),
]
if THOROUGH:
    NETS += [
        drawn(np.random.default_rng((number, ord(op[-1]))), op)
        for op in ("rnn_tanh", "rnn_relu", "lstm", "gru")
        for number in range(75)
    ]
SMALL = Net("lstm", layers=2, both=True, lengths=(4, 2, 3))


def with_gradients(net, arrays, cotangents, **keywords):
    @jax.jit
    def run(arrays, cotangents):
        results, pullback = jax.vjp(lambda *own: net.call(*own, **keywords), *arrays)
        return results, pullback(tuple(cotangents))

    return run(arrays, cotangents)


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.op)
def test_values_and_gradients_against_pytorch(net):
    torch = pytest.importorskip("torch", reason="values are compared with PyTorch's")
    arrays = net.arrays(dtype=np.float64)
    if net.lengths is not None:
        # What follows a sequence is not read, and has no gradient.
        times = np.moveaxis(arrays[0], 1, 0) if net.batch_first else arrays[0]
        for place, length in enumerate(net.lengths):
            times[length:, place] = np.nan
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    want = net.in_torch(torch, *tensors)
    cotangents = [np.random.default_rng(9).normal(size=tuple(one.shape)) for one in want]
    slopes = torch.autograd.grad(want, tensors, [torch.tensor(ct) for ct in cotangents])
    with jax.enable_x64(True):
        out, gradients = with_gradients(net, arrays, cotangents, dropout=0.0, train=True)
    for ours, theirs in zip((*out, *gradients), (*want, *slopes), strict=True):
        assert ours.dtype == np.float64
        np.testing.assert_allclose(ours, theirs.detach().numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_a_module_of_pytorch_keeps_its_weights_in_this_order():
    torch = pytest.importorskip("torch", reason="values are compared with PyTorch's")
    module = torch.nn.LSTM(2, 3, 2, bidirectional=True, proj_size=2)
    net = Net("lstm", size=2, layers=2, both=True)
    x, h, c, *_ = net.arrays()
    want, _ = module(*(torch.tensor(x), tuple(map(torch.tensor, (h, c)))))
    weights = [weight.detach().numpy() for weight in module._flat_weights]
    got = jax.jit(net.call)(x, h, c, *weights)[0]
    np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "dtype"), [("rnn_tanh", "float16"), ("lstm", "bfloat16")])
def test_narrow_floats_are_near_what_float32_gives(op, dtype):
    net = Net(op, steps=3)
    arrays = [jnp.asarray(array).astype(dtype) for array in net.arrays()]
    wide = [array.astype(np.float32) for array in arrays]

    @jax.jit
    def run(arrays):
        def loss(*own):
            out = net.call(*own)
            return sum(jnp.sum(one.astype(np.float32)) for one in out), out

        return jax.grad(loss, range(len(arrays)), has_aux=True)(*arrays)

    for got, want in zip(jax.tree.leaves(run(arrays)), jax.tree.leaves(run(wide)), strict=True):
        assert got.dtype == dtype
        scale = float(jnp.abs(want).max())
        near = {"float16": 4e-3, "bfloat16": 3e-2}[dtype]
        np.testing.assert_allclose(got.astype(np.float32), want, rtol=0, atol=near * scale)


def test_gradients_of_narrow_weights_are_added_up_in_float32():
    # One at each step: a sum kept in bfloat16 would stay at 256.
    steps, one = 300, jnp.bfloat16
    x, h = jnp.ones((steps, 1, 1), one), jnp.ones((1, 1, 1), one)
    weights = [jnp.ones((1, 1), one), jnp.zeros((1, 1), one)]

    def total(inner):
        out, _ = impl.nn.rnn_relu(x, h, [weights[0], inner], False, 1, 0.0, False, False, False)
        return out.astype(np.float32).sum()

    assert float(jax.jit(jax.grad(total))(weights[1])[0, 0]) == steps


def test_complex_numbers_against_pytorch():
    torch = pytest.importorskip("torch", reason="values are compared with PyTorch's")
    net = Net("gru", steps=2)
    real, imaginary = net.arrays(), net.arrays(1)
    arrays = [a + 1j * b for a, b in zip(real, imaginary, strict=True)]
    want = net.in_torch(torch, *map(torch.tensor, arrays))[0]
    np.testing.assert_allclose(jax.jit(net.call)(*arrays)[0], want.numpy(), rtol=1e-4, atol=1e-5)


def test_derivatives():
    net = Net("gru", steps=2, batch=1, features=1, hidden=2)
    arrays = net.arrays(dtype=np.float64)
    with jax.enable_x64(True):
        again = jax.jit(jax.checkpoint(lambda *own: net.call(*own)[0]))
        check_grads(again, arrays, order=1, rtol=1e-4)  # there and back


def test_a_batch_of_nets_and_lengths_known_only_when_it_runs():
    arrays = SMALL.arrays()
    lengths = np.array([[4, 2, 3], [1, 4, 2]])
    x = np.stack([arrays[0], arrays[0][::-1]])

    def one(x, lengths):
        return SMALL.call(x, *arrays[1:], lengths=lengths)

    got = jax.jit(jax.vmap(one))(x, lengths)
    for place in range(2):
        known = tuple(int(n) for n in lengths[place])
        want = jax.jit(functools.partial(one, lengths=known))(x[place])
        for ours, theirs in zip(got, want, strict=True):
            np.testing.assert_allclose(ours[place], theirs, rtol=1e-5, atol=1e-6)
    # Out of range: none, and all.
    net = Net("rnn_tanh")
    arrays = net.arrays()
    out, h = jax.jit(lambda n: net.call(*arrays, lengths=n))(np.array([-1, 9, 4], np.int8))
    whole, _ = jax.jit(net.call)(*arrays)
    assert not np.any(out[:, 0])
    assert_same_bits(h[:, 0], arrays[1][:, 0])
    np.testing.assert_allclose(out[:, 1:], whole[:, 1:], rtol=1e-5)


def test_shards():
    mesh = Mesh(np.array(jax.devices()[:1]), ("x",))
    net = Net("gru", both=True, lengths=None)
    arrays = net.arrays()

    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(PartitionSpec(None, "x"), *[PartitionSpec()] * (len(arrays) - 1)),
        out_specs=PartitionSpec(None, "x"),
    )
    def sharded(x, *others):
        return net.call(x, *others)[0]

    def both(function):
        return jax.jit(jax.value_and_grad(lambda *own: jnp.sum(function(*own)), 2))(*arrays)

    for got, want in zip(both(sharded), both(lambda *own: net.call(*own)[0]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("both", [False, True])
def test_gradients_of_weights_add_the_last_step_first(both):
    # A step's sum is of one product, by 1, so that the bits show the order.
    terms = np.array([2.0**25, 1, -(2.0**25), 1, 1], np.float32)
    steps = len(terms)
    net = Net("rnn_relu", steps, 1, 1, 1, both=both, biases=False)
    one, zero = np.ones((1, 1), np.float32), np.zeros((1, 1), np.float32)
    h = np.ones((net.directions, 1, 1), np.float32)
    ct = np.stack([terms, terms[::-1]][: net.directions], 1).reshape(steps, 1, -1)

    def output(*hidden):
        weights = [weight for own in hidden for weight in (one, own)]
        return net.call(np.ones((steps, 1, 1), np.float32), h, *weights)[0]

    gradients = jax.jit(lambda *w: jax.vjp(output, *w)[1](ct))(*[zero] * net.directions)
    want = oracles.steps(terms)
    assert [want, oracles.steps(terms[::-1])] == [4, 2]
    for gradient in gradients:
        assert_same_bits(gradient[0, 0], want)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_what_is_dropped(share):
    # Later layers hand on what they get of the first, of which each element is 1.
    hidden = 40
    net = Net("rnn_relu", 50, 10, 1, hidden, layers=3, biases=False)
    none, unit = np.zeros((hidden, hidden), np.float32), np.eye(hidden, dtype=np.float32)
    weights = [np.ones((hidden, 1), np.float32), none, unit, none, unit, none]
    x, h = np.ones((50, 10, 1), np.float32), np.zeros((3, 10, hidden), np.float32)

    @functools.partial(jax.jit, static_argnums=1)
    def output(key, train):
        return net.call(x, h, *weights, dropout=share, train=train, key=key)[0]

    assert_same_bits(output(jax.random.key(0), False), np.ones((50, 10, hidden), np.float32))
    first, again, other = (output(jax.random.key(seed), True) for seed in (0, 0, 1))
    assert_same_bits(first, again)
    kept = float(np.mean(np.asarray(first) != 0))
    if share == 1:
        assert kept == 0
        return
    assert not np.array_equal(first, other)
    np.testing.assert_allclose(np.unique(first), [0, (1 - share) ** -2], rtol=1e-6)
    # Twice, and not the same both times; 20,000 elements: six standard deviations.
    assert abs(kept - (1 - share) ** 2) < 0.02


def test_dropping_does_not_depend_on_the_layout_and_is_between_layers_alone():
    first, second = (Net("rnn_tanh", layers=2, batch_first=b) for b in (False, True))
    x, *others = first.arrays()
    keywords = {"dropout": 0.5, "train": True, "key": jax.random.PRNGKey(3)}
    there = jax.jit(lambda x: first.call(x, *others, **keywords))(x)
    here = jax.jit(lambda x: second.call(x, *others, **keywords))(x.swapaxes(0, 1))
    assert_same_bits(here[0].swapaxes(0, 1), there[0])
    assert not np.array_equal(there[0], jax.jit(first.call)(x, *others)[0])
    alone = Net("rnn_tanh")
    arrays = alone.arrays()
    dropping = jax.jit(lambda *own: alone.call(*own, dropout=0.5, train=True))(*arrays)
    assert_same_bits(dropping[0], jax.jit(alone.call)(*arrays)[0])


def test_a_gpu_gets_kernels_that_nothing_tunes_and_no_race():
    arrays = SMALL.arrays()

    def both(*arrays):
        return jax.value_and_grad(lambda *own: SMALL.call(*own)[0].sum(), range(len(arrays)))(
            *arrays
        )

    on, off = (lowered(functools.partial(both), *arrays, on=on) for on in (True, False))
    assert lowered_code.races(on) == []
    assert set(lowered_code.kernels(on)) == {"product_ordered"}
    assert "stablehlo.dot_general" not in on
    for text in (on, off):
        assert "stablehlo.scatter" not in text
        assert not any(word in text for word in ("cudnn", "cublas"))
    assert "stablehlo.dot_general" in off
    assert lowered_code.kernels(off) == []


@pytest.mark.parametrize("shape", [(4, 0, 2, 3), (4, 3, 0, 3), (1, 1, 1, 1)])
def test_empty_and_least_sizes(shape):
    net = Net("lstm", *shape, both=True)
    out, h, c = net.call(*net.arrays())
    steps, batch, _, hidden = shape
    assert out.shape == (steps, batch, 2 * hidden)
    assert h.shape == c.shape == (2, batch, hidden)

"""rnn_tanh, rnn_relu, lstm and gru; ``test_recurrent_arguments`` has their bad arguments.

Tests: impl.nn._recurrent.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import THOROUGH
from impl.tests.nn.support.recurrent_nets import Net, drawn_net
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.programs import equations, gpu_program

pytestmark = pytest.mark.usefixtures("complete")

#: Each feature is in one of these nets.
NETS = [
    Net("rnn_tanh", layers=3, biases=False, batch_first=True),
    Net("rnn_relu", bidirectional=True, lengths=(2, 4, 1)),
    Net("lstm", size=2, layers=2, bidirectional=True, batch_first=True, lengths=(3, 1, 4)),
    Net("gru", layers=2, bidirectional=True, lengths=(1, 4, 2)),
]
if THOROUGH:
    NETS += [
        drawn_net(np.random.default_rng((number, ord(op[-1]))), op)
        for op in ("rnn_tanh", "rnn_relu", "lstm", "gru")
        for number in range(75)
    ]
SMALL_LSTM = Net("lstm", layers=2, bidirectional=True, lengths=(4, 2, 3))


@pytest.mark.parametrize("net", NETS, ids=lambda net: net.op)
def test_values_and_gradients_are_as_in_pytorch(net):
    torch = pytest.importorskip("torch", reason="values are compared with PyTorch's")
    arrays = net.arrays(dtype=np.float64)
    if net.lengths is not None:
        # Elements after the end of a sequence are not read, and have no gradient.
        times = np.moveaxis(arrays[0], 1, 0) if net.batch_first else arrays[0]
        for position, length in enumerate(net.lengths):
            times[length:, position] = np.nan
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    want = net.in_torch(torch, *tensors)
    cotangents = [np.random.default_rng(9).normal(size=tuple(array.shape)) for array in want]
    want_gradients = torch.autograd.grad(want, tensors, [torch.tensor(ct) for ct in cotangents])

    @jax.jit
    def run(arrays, cotangents):
        call = functools.partial(net.call, dropout=0.0, train=True)
        out, pullback = jax.vjp(call, *arrays)
        return *out, *pullback(tuple(cotangents))

    with jax.enable_x64(True):
        results = run(arrays, cotangents)
    for got, wanted in zip(results, (*want, *want_gradients), strict=True):
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, wanted.detach().numpy(), rtol=1e-9, atol=1e-9)


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_lstm_takes_the_flat_weights_of_pytorchs_module():
    torch = pytest.importorskip("torch", reason="values are compared with PyTorch's")
    module = torch.nn.LSTM(2, 3, 2, bidirectional=True, proj_size=2)
    net = Net("lstm", size=2, layers=2, bidirectional=True)
    x, h, c, *_ = net.arrays()
    want, _ = module(*(torch.tensor(x), tuple(map(torch.tensor, (h, c)))))
    weights = [weight.detach().numpy() for weight in module._flat_weights]
    got = jax.jit(net.call)(x, h, c, *weights)[0]
    np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("op", "dtype"), [("rnn_tanh", "float16"), ("lstm", "bfloat16")])
def test_narrow_floats_are_near_the_results_of_float32(op, dtype):
    net = Net(op, steps=3)
    arrays = [array.astype(jnp.dtype(dtype)) for array in net.arrays()]
    wide = [array.astype(np.float32) for array in arrays]

    @jax.jit
    def run(arrays):
        def loss(*arrays):
            out = net.call(*arrays)
            return sum(jnp.sum(array.astype(np.float32)) for array in out), out

        return jax.grad(loss, range(len(arrays)), has_aux=True)(*arrays)

    for got, want in zip(jax.tree.leaves(run(arrays)), jax.tree.leaves(run(wide)), strict=True):
        assert got.dtype == dtype
        scale = float(np.abs(want).max())
        error = {"float16": 4e-3, "bfloat16": 3e-2}[dtype]
        np.testing.assert_allclose(np.asarray(got, np.float32), want, rtol=0, atol=error * scale)


def test_gradients_of_narrow_weights_of_rnn_relu_are_added_in_float32():
    # Each step adds 1. In bfloat16 the sum would stop at 256.
    steps = 300
    x, h = np.ones((steps, 1, 1), jnp.bfloat16), np.ones((1, 1, 1), jnp.bfloat16)
    one, zero = np.ones((1, 1), jnp.bfloat16), np.zeros((1, 1), jnp.bfloat16)

    def total(weight):
        out, _ = impl.nn.rnn_relu(x, h, [one, weight], False, 1, 0.0, False, False, False)
        return out.astype(np.float32).sum()

    assert float(jax.jit(jax.grad(total))(zero)[0, 0]) == steps


def test_gru_of_complex_numbers_is_as_in_pytorch():
    torch = pytest.importorskip("torch", reason="values are compared with PyTorch's")
    net = Net("gru", steps=2)
    real, imaginary = net.arrays(), net.arrays(1)
    arrays = [a + 1j * b for a, b in zip(real, imaginary, strict=True)]
    want = net.in_torch(torch, *map(torch.tensor, arrays))[0]
    np.testing.assert_allclose(jax.jit(net.call)(*arrays)[0], want.numpy(), rtol=1e-4, atol=1e-5)


def test_vmap_of_lstm_over_lengths_that_are_unknown_under_jit():
    arrays = SMALL_LSTM.arrays()
    lengths = np.array([[4, 2, 3], [1, 4, 2]])
    batch = np.stack([arrays[0], arrays[0][::-1]])

    def call(x, lengths):
        return SMALL_LSTM.call(x, *arrays[1:], lengths=lengths)

    results = jax.jit(jax.vmap(call))(batch, lengths)
    for number in range(2):
        known = tuple(int(n) for n in lengths[number])
        wanted = jax.jit(functools.partial(call, lengths=known))(batch[number])
        for got, want in zip(results, wanted, strict=True):
            np.testing.assert_allclose(got[number], want, rtol=1e-5, atol=1e-6)


def test_under_jit_rnn_tanh_limits_lengths_out_of_range():
    net = Net("rnn_tanh")
    arrays = net.arrays()

    @jax.jit
    def run(lengths):
        return net.call(*arrays, lengths=lengths), net.call(*arrays)

    (out, h), (whole, _) = run(np.array([-1, 9, 4], np.int8))
    assert not np.any(out[:, 0])
    assert_same_bits(h[:, 0], arrays[1][:, 0])
    np.testing.assert_allclose(out[:, 1:], whole[:, 1:], rtol=1e-5)


@pytest.mark.parametrize("op", ["rnn_relu", "lstm", "gru"])
def test_the_gradient_of_the_weights_of_h_is_one_product_of_all_steps(op):
    # Each size occurs once.
    net = Net(op, steps=7, batch=3, features=11, hidden=5)
    arrays = net.arrays()

    def total(*arrays):
        return net.call(*arrays)[0].sum()

    jaxpr = jax.make_jaxpr(jax.grad(total, tuple(range(len(arrays)))))(*arrays)
    loops = [eqn for eqn in equations(jaxpr) if eqn.primitive.name == "scan"]
    assert len(loops) == 2
    weights = sorted((1, *arrays[2 + net.states].shape))
    for loop in loops:
        assert all(sorted(result.aval.shape) != weights for result in loop.outvars)


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_dropout_of_rnn_relu(share):
    # The first layer returns ones, and later layers return their inputs.
    hidden = 40
    net = Net("rnn_relu", 50, 10, 1, hidden, layers=3, biases=False)
    zeros, unit = np.zeros((hidden, hidden), np.float32), np.eye(hidden, dtype=np.float32)
    weights = [np.ones((hidden, 1), np.float32), zeros, unit, zeros, unit, zeros]
    x, h = np.ones((50, 10, 1), np.float32), np.zeros((3, 10, hidden), np.float32)

    @functools.partial(jax.jit, static_argnums=1)
    def output(key, train):
        return net.call(x, h, *weights, dropout=share, train=train, key=key)[0]

    assert_same_bits(output(jax.random.key(0), False), np.ones((50, 10, hidden), np.float32))
    first, again, other = (output(jax.random.key(seed), True) for seed in (0, 0, 1))
    assert_same_bits(first, again)
    remaining = float(np.mean(np.asarray(first) != 0))
    if share == 1:
        assert remaining == 0
        return
    assert not np.array_equal(first, other)
    np.testing.assert_allclose(np.unique(first), [0, (1 - share) ** -2], rtol=1e-6)
    # Elements are dropped twice, independently. For 20,000 elements, 0.02 is six standard
    # deviations.
    assert abs(remaining - (1 - share) ** 2) < 0.02


def test_dropout_of_rnn_tanh_is_between_layers_and_does_not_depend_on_the_layout():
    times_first, batch_first = (Net("rnn_tanh", layers=2, batch_first=b) for b in (False, True))
    one_layer = Net("rnn_tanh")
    x, *others = times_first.arrays()
    arrays = one_layer.arrays()
    keywords = {"dropout": 0.5, "train": True, "key": jax.random.PRNGKey(3)}

    @jax.jit
    def run(x):
        return (
            times_first.call(x, *others, **keywords)[0],
            batch_first.call(x.swapaxes(0, 1), *others, **keywords)[0].swapaxes(0, 1),
            times_first.call(x, *others)[0],
        )

    @jax.jit
    def run_one_layer(*arrays):
        with_dropout = one_layer.call(*arrays, dropout=0.5, train=True)
        return with_dropout[0], one_layer.call(*arrays)[0]

    dropped, swapped, plain = run(x)
    assert_same_bits(swapped, dropped)
    assert not np.array_equal(dropped, plain)
    assert_same_bits(*run_one_layer(*arrays))


@pytest.mark.triton
def test_a_gpu_computes_lstm_by_products_alone():
    arrays = SMALL_LSTM.arrays()

    def run(*arrays):
        loss = lambda *arrays: SMALL_LSTM.call(*arrays)[0].sum()  # noqa: E731
        return jax.value_and_grad(loss, range(len(arrays)))(*arrays)

    for on in (True, False):
        text = gpu_program(functools.partial(run), *arrays, on=on)
        assert "stablehlo.dot_general" in text
        assert "stablehlo.scatter" not in text


@pytest.mark.parametrize("shape", [(4, 0, 2, 3), (4, 3, 0, 3), (1, 1, 1, 1)])
def test_lstm_of_empty_and_least_sizes(shape):
    net = Net("lstm", *shape, bidirectional=True)
    out, h, c = jax.jit(net.call)(*net.arrays())
    steps, batch, _, hidden = shape
    assert out.shape == (steps, batch, 2 * hidden)
    assert h.shape == c.shape == (2, batch, hidden)


def test_long_lengths_of_uint8():
    net = Net("rnn_tanh", steps=300, batch=2, features=1, hidden=1)
    out, _ = jax.jit(lambda *arrays: net.call(*arrays, lengths=np.array([255, 1], np.uint8)))(
        *net.arrays()
    )
    nonzero = np.asarray(out[..., 0] != 0)
    assert nonzero.sum(0).tolist() == [255, 1]
    assert nonzero[254, 0]

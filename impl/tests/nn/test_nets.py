"""rnn_tanh, rnn_relu, lstm, gru, and scaled_dot_product_attention.

Tests: impl.nn._recurrent, impl.nn._dropout, impl.nn.functional._attention.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.support.bits import assert_same_bits
from impl.tests.support.numbers import normal
from impl.tests.support.programs import equations, gpu_program

pytestmark = pytest.mark.usefixtures("complete")


GATES = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru": 3}


@dataclasses.dataclass(frozen=True)
class Net:
    """The arguments of a net, and the shape of its input."""

    op: str
    steps: int = 4
    batch: int = 3
    features: int = 2
    hidden: int = 3
    layers: int = 1
    bidirectional: bool = False
    biases: bool = True
    batch_first: bool = False
    lengths: tuple[int, ...] | None = None

    @property
    def states(self):
        """The number of states."""
        return 2 if self.op == "lstm" else 1

    def arrays(self):
        """Returns the input, the states and the weights, in one list."""
        directions, rows = 1 + self.bidirectional, GATES[self.op] * self.hidden
        times = (self.batch, self.steps) if self.batch_first else (self.steps, self.batch)
        shapes = [(*times, self.features)]
        shapes += [(self.layers * directions, self.batch, self.hidden)] * self.states
        for layer in range(self.layers):
            columns = directions * self.hidden if layer else self.features
            of_direction = [(rows, columns), (rows, self.hidden)] + [(rows,)] * 2 * self.biases
            shapes += of_direction * directions
        rng = np.random.default_rng(0)
        return [rng.normal(size=shape).astype(np.float32) for shape in shapes]

    def call(self, *arrays, dropout=0.0, train=False, **keywords):
        """Calls impl's op with the arrays of ``arrays``."""
        x, states, weights = arrays[0], arrays[1 : 1 + self.states], arrays[1 + self.states :]
        return getattr(impl.nn, self.op)(
            x,
            states if self.op == "lstm" else states[0],
            weights,
            self.biases,
            self.layers,
            dropout,
            train,
            self.bidirectional,
            self.batch_first,
            **{"lengths": self.lengths, **keywords},
        )


SMALL_LSTM = Net("lstm", layers=2, bidirectional=True, lengths=(4, 2, 3))


def test_gradients_of_narrow_weights_of_rnn_relu_are_added_in_float32():
    # Each step adds 1. In bfloat16 the sum would stop at 256.
    steps = 300
    x, h = np.ones((steps, 1, 1), jnp.bfloat16), np.ones((1, 1, 1), jnp.bfloat16)
    one, zero = np.ones((1, 1), jnp.bfloat16), np.zeros((1, 1), jnp.bfloat16)

    def total(weight):
        out, _ = impl.nn.rnn_relu(x, h, [one, weight], False, 1, 0.0, False, False, False)
        return out.astype(np.float32).sum()

    assert float(jax.jit(jax.grad(total))(zero)[0, 0]) == steps


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


attention = impl.nn.functional.scaled_dot_product_attention

Q, K, V = normal((2, 3, 4)), normal((2, 5, 4), 1), normal((2, 5, 6), 2)
#: A query that sees no key, one that sees all but one, and one that sees all.
SEEN = np.array([[False] * 5, [True] * 3 + [False, True], [True] * 5])
SUBTRACTED = np.where(SEEN, 0.5, -np.inf)
BIAS = normal((3, 5), 3)


def test_a_query_that_sees_no_key_has_no_gradient():
    @jax.jit
    def run(*arrays):
        out, pullback = jax.vjp(attention, *arrays)
        return out, pullback(jnp.ones_like(out))

    for on in (False, True):
        with impl.deterministic(on, profile="complete"):
            out, (of_query, *others) = run(Q, K, V, SUBTRACTED.astype(np.float32))
        assert not np.any(out[:, 0])
        assert not np.any(of_query[:, 0])
        assert all(np.all(np.isfinite(gradient)) for gradient in others)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16], ids=lambda d: d.__name__)
def test_narrow_floats_are_computed_in_float32_and_rounded_once(dtype):
    narrow = [array.astype(dtype) for array in (Q, K, V, BIAS)]
    run = jax.jit(attention)
    want = run(*(array.astype(np.float32) for array in narrow))
    assert_same_bits(run(*narrow), np.asarray(want).astype(dtype))
    # PyTorch takes masks of float32 as well.
    assert_same_bits(run(*narrow[:3], narrow[3].astype(np.float32)), np.asarray(want).astype(dtype))


def test_dropout_draws_from_the_key():
    key, ones = jax.random.key(0), np.ones((4, 50, 4), np.float32)

    @jax.jit
    def run(key):
        return [
            attention(ones, ones, np.eye(50, dtype=np.float32)[None], None, p, dropout_key=key)
            for p in (0.0, 0.25, 1.0)
        ]

    none, quarter, all_ = map(np.asarray, run(key))
    np.testing.assert_allclose(none, 1 / 50, rtol=1e-6)
    assert not np.any(all_)
    np.testing.assert_allclose(quarter[quarter > 0], 1 / 50 / 0.75, rtol=1e-6)
    assert 0.2 < np.mean(quarter == 0) < 0.3
    assert_same_bits(run(key)[1], quarter)
    assert np.any(np.asarray(run(jax.random.key(1))[1]) != quarter)

"""Bad arguments of recurrent nets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.nn.support.arrays import ones
from impl.tests.nn.support.recurrent_nets import Net
from impl.tests.support.refusals import as_tensors, exception

GRU = Net("gru", steps=4, batch=3, features=2, hidden=3)
LSTM = Net("lstm", steps=4, batch=3, features=2, hidden=3)
X, H, *W = GRU.arrays()
TWO = [*W, ones(9, 3), ones(9, 3), ones(9), ones(9)]
L = LSTM.arrays()[3:]
FLAGS = {"has_biases": True, "num_layers": 1, "dropout": 0.0, "train": False}
FLAGS |= {"bidirectional": False, "batch_first": False}

#: op, input, hx and params, other arguments if any, exception, fragment of the message; it is
#: None for a projection to ``hidden`` elements, which impl accepts and PyTorch does not.
BAD = [
    ("gru", ([1.0], H, W), TypeError, "argument 'input' must be a jax.Array"),
    ("gru", (X, (H, H), W), TypeError, "argument 'hx' must be a jax.Array"),
    ("gru", (X, H, {}), TypeError, "argument 'params' must be tuple of arrays, not dict"),
    ("gru", (X, H, [1.0, *W[1:]]), TypeError, "argument 'params[0]' must be a jax.Array"),
    ("gru", (X[0], H, W), IndexError, "[steps, batch, features], but got shape [3, 2]"),
    ("gru", (X[None], H, W), RuntimeError, "but got shape [1, 4, 3, 2]"),
    ("gru", (X[:0], H, W), RuntimeError, "Expected sequence length to be larger than 0"),
    ("gru", (X > 0, H > 0, [w > 0 for w in W]), NotImplementedError, "not implemented for bool"),
    (
        "gru",
        (X.astype(np.int32), H.astype(np.int32), [w.astype(np.int32) for w in W]),
        RuntimeError,
        "not implemented for int32",
    ),
    (
        "rnn_relu",
        (X + 0j, H + 0j, [w[:3] + 0j for w in W]),
        RuntimeError,
        "not implemented for complex64; it takes floats",
    ),
    ("gru", (X, H, W[:3]), RuntimeError, "RNN parameters: 3; 1 layer(s) in 1 direction(s)"),
    ("gru", (X, H, [*W, W[0]]), RuntimeError, "with biases have 4: weight_ih_l0, weight_hh_l0"),
    ("gru", (X, H, []), RuntimeError, "incorrect number of RNN parameters: 0"),
    ("gru", (X, H, W), {"has_biases": False}, RuntimeError, "without biases have 2: weight_ih_l0"),
    ("gru", (X, H, W), {"num_layers": 2}, RuntimeError, "RNN parameters: 4; 2 layer(s)"),
    ("lstm", (X, (H, H), L[:3]), RuntimeError, "have 4 or, with projections, 5: weight_ih_l0"),
    ("gru", (X, H, W), {"num_layers": 0}, RuntimeError, "num_layers must be at least 1, but got 0"),
    ("gru", (X, H, W), {"num_layers": 1.0}, TypeError, "'num_layers' must be int, not float"),
    ("gru", (X, H, W), {"has_biases": 1}, TypeError, "'has_biases' must be bool, not int"),
    ("gru", (X, H, W), {"train": 1}, TypeError, "'train' must be bool, not int"),
    ("gru", (X, H, W), {"bidirectional": 0}, TypeError, "'bidirectional' must be bool, not int"),
    ("gru", (X, H, W), {"batch_first": "yes"}, TypeError, "'batch_first' must be bool, not str"),
    ("gru", (X, H, W), {"dropout": "a"}, TypeError, "'dropout' must be float, not str"),
    (
        "gru",
        (X, ones(2, 3, 3), TWO),
        {"num_layers": 2, "dropout": 1.5, "train": True},
        RuntimeError,
        "dropout probability has to be between 0 and 1, but got 1.5",
    ),
    (
        "gru",
        (X, ones(2, 3, 3), TWO),
        {"num_layers": 2, "dropout": float("nan"), "train": True},
        RuntimeError,
        "but got nan",
    ),
    ("gru", (X, ones(2, 3, 3), W), RuntimeError, "Expected hx of shape [1, 3, 3]"),
    ("gru", (X, H[0], W), RuntimeError, "but got [3, 3]"),
    ("gru", (X, ones(1, 2, 3), W), RuntimeError, "a batch of 3, 2 features and 3 hidden"),
    ("gru", (X, ones(1, 3, 4), W), RuntimeError, "but got [1, 3, 4]"),
    ("gru", (X, H.astype(np.float64), W), RuntimeError, "input (float32) and hx (float64)"),
    ("lstm", (X, H, L), TypeError, "argument 'hx' must be tuple of arrays"),
    ("lstm", (X, (H,), L), RuntimeError, "expects two hidden states, (h_0, c_0), but got 1"),
    ("lstm", (X, (H, H, H), L), RuntimeError, "but got 3"),
    ("lstm", (X, (H, ones(1, 3, 4)), L), RuntimeError, "Expected hx[1] of shape [1, 3, 3]"),
    ("lstm", (X, (ones(1, 3, 2), H), L), RuntimeError, "Expected hx[0] of shape [1, 3, 3]"),
    ("lstm", (X, (H, H), [*L, ones(3, 3)]), RuntimeError, None),
    (
        "lstm",
        (X, (ones(1, 3, 2), H), [L[0], ones(12, 2), *L[2:], ones(2, 4)]),
        RuntimeError,
        "Expected params[4] (weight_hr_l0) of shape [2, 3]",
    ),
    ("gru", (X, H, [ones(9, 3), *W[1:]]), RuntimeError, "params[0] (weight_ih_l0) of shape [9,"),
    ("gru", (X, H, [ones(8, 2), *W[1:]]), RuntimeError, "but got [8, 2]"),
    ("gru", (X, H, [W[0], ones(9, 2), *W[2:]]), RuntimeError, "(weight_hh_l0) of shape [9, 3]"),
    ("gru", (X, H, [W[0], ones(8, 3), *W[2:]]), RuntimeError, "with 3 rows for each hidden"),
    ("gru", (X, H, [*W[:2], ones(8), W[3]]), RuntimeError, "(bias_ih_l0) of shape [9]"),
    (
        "gru",
        (X, H, [W[0], W[1].astype(np.float64), *W[2:]]),
        RuntimeError,
        "input (float32) and params[1] (weight_hh_l0) (float64) must have the same dtype",
    ),
]


def test_bad_arguments_are_those_of_pytorch():
    torch = pytest.importorskip("torch", reason="exceptions are compared with PyTorch's")
    for op, arrays, *options, error, fragment in BAD:
        flags = {**FLAGS, **dict(*options)}
        if fragment is not None:
            with jax.enable_x64(True):
                raised = exception(getattr(impl.nn, op), arrays, flags)
            assert (type(raised), str(raised).startswith(f"{op}(): ")) == (error, True), fragment
            assert fragment in str(raised)
        tensors = (*as_tensors(torch, arrays), *as_tensors(torch, flags).values())
        assert isinstance(exception(getattr(torch, op), tensors, {}), error), (op, fragment)


#: Arguments that PyTorch's functions do not have or do not check: keywords, exception, fragment.
OWN = [
    ({"lengths": [4, 3]}, RuntimeError, "Expected lengths of shape [3], one for each sequence"),
    (
        {"lengths": [4, 0, 2]},
        RuntimeError,
        "at most the number of steps, 4, but got 0 at position 1",
    ),
    ({"lengths": jnp.array([4, 1, 5])}, RuntimeError, "but got 5 at position 2"),
    ({"lengths": [4, 1.0, 2]}, TypeError, "argument 'lengths[1]' must be int, not float"),
    ({"lengths": ones(3)}, RuntimeError, "lengths must be integers, but got float32"),
    ({"lengths": 4}, TypeError, "argument 'lengths' must be a jax.Array or a NumPy array"),
    ({"has_biases": W}, TypeError, "pass sequences that are packed padded, with 'lengths'"),
    ({"dropout": -0.5}, RuntimeError, "between 0 and 1, but got -0.5"),
    ({"key": 7}, TypeError, "argument 'key' must be a JAX key, such as jax.random.key(0), not int"),
    ({"key": ones(2)}, TypeError, "argument 'key' must be a JAX key"),
]


def test_bad_arguments_that_pytorch_does_not_have():
    for options, error, fragment in OWN:
        raised = exception(impl.nn.gru, (X, H, W), {**FLAGS, **options})
        assert (type(raised), str(raised).startswith("gru(): ")) == (error, True), fragment
        assert fragment in str(raised)


def test_dropout_of_gru_needs_a_key():
    options = {**FLAGS, "num_layers": 2, "dropout": 0.5, "train": True}
    with pytest.raises(TypeError, match=r"'key' is missing: with train=True, dropout=0.5 draws"):
        impl.nn.gru(X, ones(2, 3, 3), TWO, **options)

"""Samples of recurrent nets and of scaled_dot_product_attention."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from conformance.adapters.base import resolve
from conformance.cases._data import Array
from conformance.cases._forms import INF, NAN, at, normal, ones, unlike_torch
from conformance.cases.table import Draw, ErrorInput, Form, OpInfo, Sample, form, refused

#: The size of the imaginary step of a derivative. It is so small that the derivative is exact.
_STEP_SIZE = 1e-30


@dataclasses.dataclass(frozen=True)
class Net:
    """A net of one layer, and how it is called.

    Attributes:
        op: The name of the function in ``nn``.
        gates: The number of gates of a cell.
        hidden: The number of elements of a gate.
        size: The number of elements of the state h. There are projections if it is not ``hidden``.
        directions: 1 or 2.
        wrt: The position, among the weights of a direction, of the weight to differentiate by.
        biases: Whether there are biases.
        lengths: The length of each sequence, or None.
    """

    op: str
    gates: int
    hidden: int
    size: int
    directions: int
    wrt: int
    biases: bool = True
    lengths: tuple[int, ...] | None = None

    @property
    def states(self) -> int:
        """The number of arrays that pass from step to step."""
        return 2 if self.op == "lstm" else 1

    def arrays(self, d: Draw) -> tuple[Array, ...]:
        """Returns the input, the states, and the weights."""
        rows, (steps, features) = self.gates * self.hidden, d.sizes((4, 3), (4, 1))
        weights: list[tuple[int, ...]] = [(rows, features), (rows, self.size)]
        weights += [(rows,)] * 2 * self.biases
        weights += [(self.size, self.hidden)] * (self.size != self.hidden)
        inputs = [(steps, 2, features)]
        inputs += [(self.directions, 2, n) for n in (self.size, self.hidden)][: self.states]
        shapes = [*inputs, *weights * self.directions]
        return tuple(d.values(shape, np.float32, seed) for seed, shape in enumerate(shapes))

    def call(self, namespace: Any, x: Any, *others: Any) -> Any:
        """Returns the output of the net."""
        hx, params = others[: self.states], others[self.states :]
        out: Any = resolve(namespace, f"nn.{self.op}")(
            x,
            hx if self.states == 2 else hx[0],
            list(params),
            self.biases,
            1,
            0.0,
            False,
            self.directions == 2,
            False,
            lengths=self.lengths,
        )
        return out[0]

    def output(self, x: Array, *others: Array) -> Array:
        """Returns the output by NumPy, in the dtype of the arrays but at least float64."""
        states, params = others[: self.states], others[self.states :]
        dtype = np.result_type(np.float64, *(array.dtype for array in (x, *others)))
        out = np.zeros((*x.shape[:2], self.directions, self.size), dtype)
        count = len(params) // self.directions
        for direction in range(self.directions):
            weights = params[direction * count :][:count]
            for example in range(x.shape[1]):
                state = [part[direction, example] for part in states]
                length = self.lengths[example] if self.lengths else len(x)
                for step in range(length)[:: -1 if direction else 1]:
                    state = self._step(x[step, example], state, weights)
                    out[step, example, direction] = state[0]
        return out.reshape(*x.shape[:2], -1)

    def _step(self, x: Array, state: Sequence[Array], weights: Sequence[Array]) -> list[Array]:
        zeros = np.zeros(self.gates * self.hidden)
        biases = weights[2:4] if self.biases else (zeros, zeros)
        of_x = np.split(weights[0] @ x + biases[0], self.gates)
        of_h = np.split(weights[1] @ state[0] + biases[1], self.gates)
        if self.op == "gru":
            reset, update = (_logistic(of_x[i] + of_h[i]) for i in (0, 1))
            return [(1 - update) * np.tanh(of_x[2] + reset * of_h[2]) + update * state[0]]
        if self.op == "lstm":
            input_gate, forget, new, output = (a + b for a, b in zip(of_x, of_h, strict=True))
            c = _logistic(forget) * state[1] + _logistic(input_gate) * np.tanh(new)
            h = _logistic(output) * np.tanh(c)
            return [weights[-1] @ h if self.size != self.hidden else h, c]
        total = of_x[0] + of_h[0]
        # The square of a step is no step.
        above = total.real > _STEP_SIZE
        return [np.tanh(total) if self.op == "rnn_tanh" else np.where(above, total, 0)]

    def gradient(self, ct: Array, *arrays: Array) -> Array:
        """Returns the gradient by an array, from the derivative by each of its elements."""
        position = 1 + self.states + self.wrt
        out = np.zeros(arrays[position].shape)
        for index in np.ndindex(out.shape):
            moved = [array.astype(complex) for array in arrays]
            moved[position][index] += 1j * _STEP_SIZE
            out[index] = np.sum(ct * self.output(*moved).imag) / _STEP_SIZE
        return out

    def samples(self, name: str, d: Draw) -> Iterator[Sample]:
        """Yields the call as a sample."""
        yield Sample(
            name,
            self.call,
            self.arrays(d),
            expected=self.output,
            wrt=1 + self.states + self.wrt,
            expected_gradient=self.gradient,
        )


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _attention_samples(d: Draw) -> Iterator[Sample]:
    arrays, grouped = _operands(d, (2,), (2,)), _operands(d, (2, 4), (2, 2))
    mask = d.values((arrays[0].shape[1], arrays[1].shape[1]), np.float32)
    mask[0], mask[1:2, ::3] = -np.inf, -np.inf
    yield _sample("mask", (*arrays, mask), mask, wrt=0)
    causal = np.where(np.tri(grouped[0].shape[2], grouped[1].shape[2], dtype=bool), 0, -np.inf)
    yield _sample("causal", grouped, causal, wrt=1, is_causal=True, enable_gqa=True)
    yield _sample("values", arrays, np.zeros(()), wrt=2, scale=0.25)


def _operands(d: Draw, batch: tuple[int, ...], shared: tuple[int, ...]) -> tuple[Array, ...]:
    """Returns a query, and a key and a value with fewer heads."""
    # So many keys that a sum over them has several rounds.
    queries, keys, features, outputs = d.sizes((7, 300, 4, 3), 1)
    return (
        d.values((*batch, queries, features), np.float32),
        d.values((*shared, keys, features), np.float32, 1),
        d.values((*shared, keys, outputs), np.float32, 2),
    )


def _sample(
    name: str, arrays: tuple[Array, ...], bias: Array, *, wrt: int, **options: Any
) -> Sample:
    """Returns a sample, whose reference adds ``bias`` to the scores."""
    scale = options.get("scale", arrays[0].shape[-1] ** -0.5)
    return Sample(
        name=name,
        call=lambda ns, *args: ns.nn.functional.scaled_dot_product_attention(*args, **options),
        arrays=arrays,
        expected=lambda q, k, v, *_: _attention(q, k, v, bias, scale)[0],
        wrt=wrt,
        expected_gradient=lambda ct, q, k, v, *_: _gradients(ct, q, k, v, bias, scale)[wrt],
    )


def _attention(q: Array, k: Array, v: Array, bias: Array, scale: float) -> tuple[Array, Array]:
    """Returns the result and the weights, in float64."""
    q, k, v = (array.astype(np.float64) for array in (q, _repeated(k, q), _repeated(v, q)))
    scores = q @ np.swapaxes(k, -1, -2) * scale + bias
    greatest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(greatest), 0, greatest))
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-300)
    return weights @ v, weights


def _gradients(
    ct: Array, q: Array, k: Array, v: Array, bias: Array, scale: float
) -> tuple[Array, Array, Array]:
    """Returns the gradients of the query, the key and the value, in float64."""
    ct = ct.astype(np.float64)
    weights = _attention(q, k, v, bias, scale)[1]
    of_weights = ct @ np.swapaxes(_repeated(v, q), -1, -2)
    mean = (weights * of_weights).sum(-1, keepdims=True)
    of_scores = weights * (of_weights - mean) * scale
    of_key = np.swapaxes(of_scores, -1, -2) @ q
    of_value = np.swapaxes(weights, -1, -2) @ ct
    return of_scores @ _repeated(k, q), _added(of_key, k), _added(of_value, v)


def _repeated(shared: Array, query: Array) -> Array:
    """Repeats the heads of a key or a value for the heads of a query that share them."""
    return np.repeat(shared, query.shape[-3] // shared.shape[-3], -3)


def _added(gradient: Array, shared: Array) -> Array:
    """Adds the gradients of repeated heads."""
    groups = gradient.reshape(*shared.shape[:-2], -1, *shared.shape[-2:])
    return np.asarray(groups.sum(-3))


#: The sample of each op. The gradient of the gru is by a bias that a gate multiplies.
_NETS = {
    "both directions and lengths": Net("gru", 3, 2, 2, 2, wrt=3, lengths=(4, 3)),
    # The longer sequence comes last.
    "lengths and projections": Net("lstm", 4, 3, 2, 1, wrt=1, lengths=(2, 4)),
    "both directions": Net("rnn_relu", 1, 3, 3, 2, wrt=1),
    "weights of the input": Net("rnn_tanh", 1, 3, 3, 1, wrt=0, biases=False),
}


def _form_of_net(
    op: str,
    *,
    layers: int = 1,
    directions: int = 1,
    size: int = 0,
    biases: bool = True,
    batch_first: bool = False,
    lengths: Sequence[int] | None = None,
    dtype: Any = np.float32,
) -> Form:
    """Returns a net of 4 steps, 3 sequences, 2 features, and gates of 3 elements."""

    def drawn(*shape: int, seed: int = 0) -> Array:
        scale = 0.5 + 0.25j if dtype is np.complex64 else 1
        return np.asarray(normal(*shape, seed=seed) * scale, dtype)

    steps, batch, features, hidden = 4, 3, 2, 3
    rows = {"lstm": 4, "gru": 3}.get(op, 1) * hidden
    weights: list[tuple[int, ...]] = []
    for columns in (features, *[directions * (size or hidden)] * (layers - 1)):
        own: list[tuple[int, ...]] = [
            (rows, columns),
            (rows, size or hidden),
            *[(rows,)] * 2 * biases,
        ]
        weights += [*own, *[(size, hidden)] * (size > 0)] * directions
    states = [drawn(layers * directions, batch, n) for n in (size or hidden, hidden)]
    # Elements after the end of a sequence are not read, and have no gradient.
    x = drawn(steps, batch, features)
    for number, length in enumerate(lengths or ()):
        x[length:, number] = np.nan
    return form(
        x.swapaxes(0, 1) if batch_first else x,
        tuple(states) if op == "lstm" else states[0],
        [drawn(*each, seed=number) for number, each in enumerate(weights)],
        biases,
        layers,
        0.0,
        False,
        directions == 2,
        batch_first,
        **({"lengths": list(lengths)} if lengths else {}),
    )


#: A net with further features for each op.
_FURTHER: Mapping[str, Mapping[str, Any]] = {
    "gru": {"layers": 2, "directions": 2, "lengths": (1, 4, 2)},
    "lstm": {"layers": 2, "directions": 2, "size": 2, "batch_first": True, "lengths": (3, 1, 4)},
    "rnn_relu": {"directions": 2, "lengths": (2, 4, 1)},
    "rnn_tanh": {"layers": 3, "biases": False, "batch_first": True},
}


_DTYPES = {"gru": np.complex64, "lstm": bfloat16, "rnn_tanh": np.float16}


def _forms_of_net(op: str) -> Iterator[Form]:
    """Yields a net of a dtype, one with further features, and one of one layer with biases."""
    # The input, the state and a weight; the state of an lstm has two arrays.
    batch = (0, 1, 3) if op == "lstm" else (0, 1, 2)
    name = "" if op in ("gru", "lstm") else None
    if op in _DTYPES:
        yield _form_of_net(op, dtype=_DTYPES[op])
    yield _form_of_net(op, **_FURTHER[op])
    yield _form_of_net(op).having(name=name, same_bits=False, batch=batch)


#: Biases, one layer, no dropout, no training, one direction, and steps first.
_FLAGS = (True, 1, 0.0, False, False, False)


def _errors_of_gru() -> Iterator[ErrorInput]:
    x, h, w = _form_of_net("gru").arguments[:3]
    w0, w1, *biases = w
    for error, words, *arrays in (
        (TypeError, "argument 'hx' must be a jax.Array", x, (h, h), w),
        (TypeError, "'params' must be tuple of arrays, not dict", x, h, {}),
        (TypeError, "argument 'params[0]' must be a jax.Array", x, h, [1.0, w1, *biases]),
        (IndexError, "[steps, batch, features], but got shape [3, 2]", x[0], h, w),
        (RuntimeError, "but got shape [1, 4, 3, 2]", x[None], h, w),
        (RuntimeError, "Expected sequence length to be larger than 0", x[:0], h, w),
        (NotImplementedError, "not implemented for bool", x > 0, h > 0, [a > 0 for a in w]),
        (RuntimeError, "for int32", x.astype(int), h.astype(int), [a.astype(int) for a in w]),
        (RuntimeError, "RNN parameters: 3; 1 layer(s) in 1 direction(s)", x, h, w[:3]),
        (RuntimeError, "with biases have 4: weight_ih_l0, weight_hh_l0", x, h, [*w, w0]),
        (RuntimeError, "incorrect number of RNN parameters: 0", x, h, []),
        (RuntimeError, "Expected hx of shape [1, 3, 3]", x, ones(2, 3, 3), w),
        (RuntimeError, "but got [3, 3]", x, h[0], w),
        (RuntimeError, "a batch of 3, 2 features and 3 hidden", x, ones(1, 2, 3), w),
        (RuntimeError, "but got [1, 3, 4]", x, ones(1, 3, 4), w),
        (RuntimeError, "input (float32) and hx (float16)", x, h.astype(np.float16), w),
        (RuntimeError, "params[0] (weight_ih_l0) of shape [9,", x, h, [w1, w1, *biases]),
        (RuntimeError, "but got [8, 2]", x, h, [w0[:8], w1, *biases]),
        (RuntimeError, "(weight_hh_l0) of shape [9, 3]", x, h, [w0, w0, *biases]),
        (RuntimeError, "with 3 rows for each hidden", x, h, [w0, w1[:8], *biases]),
        (RuntimeError, "(bias_ih_l0) of shape [9]", x, h, [w0, w1, w0[:8, 0], biases[1]]),
        (RuntimeError, "(weight_hh_l0) (float16)", x, h, [w0, w1.astype(np.float16), *biases]),
    ):
        yield refused(error, words, *arrays, *_FLAGS)
    two, three = [ones(2, 3, 3), [*w, w1, w1, *biases]], "between 0 and 1, but got"
    for words, arrays, flags in (
        ("without biases have 2: weight_ih_l0", [h, w], (False, 1, 0.0, False)),
        ("RNN parameters: 4; 2 layer(s)", [h, w], (True, 2, 0.0, False)),
        ("num_layers must be at least 1, but got 0", [h, w], (True, 0, 0.0, False)),
        (f"dropout probability has to be {three} 1.5", two, (True, 2, 1.5, True)),
        (f"{three} nan", two, (True, 2, NAN, True)),
    ):
        yield refused(RuntimeError, words, x, *arrays, *flags, False, False)
    # PyTorch's functions do not have or do not check these.
    unchecked = [
        refused(RuntimeError, f"{three} -0.5", x, h, w, True, 1, -0.5, *_FLAGS[3:]),
        refused(TypeError, "pass sequences that are packed padded", x, h, w, w, *_FLAGS[1:]),
        refused(TypeError, "missing: with train=True", x, *two, True, 2, 0.5, True, False, False),
    ]
    for error, words, options in (
        (RuntimeError, "Expected lengths of shape [3], one for", {"lengths": [4, 3]}),
        (RuntimeError, "steps, 4, but got 0 at position 1", {"lengths": [4, 0, 2]}),
        (RuntimeError, "but got 5 at position 2", {"lengths": at(4, 1, 5)}),
        (TypeError, "argument 'lengths[1]' must be int, not", {"lengths": [4, 1.0, 2]}),
        (RuntimeError, "must be integers, but got float32", {"lengths": ones(3)}),
        (TypeError, "JAX key, such as jax.random.key(0), not int", {"key": 7}),
        (TypeError, "argument 'key' must be a JAX key", {"key": ones(2)}),
    ):
        unchecked.append(refused(error, words, x, h, w, *_FLAGS, **options))
    yield from unlike_torch(*unchecked)


def _errors_of_lstm() -> Iterator[ErrorInput]:
    x, (h, c), w = _form_of_net("lstm").arguments[:3]
    narrow = [ones(1, 3, 2), h], [w[0], ones(12, 2), *w[2:], ones(2, 4)]
    for error, words, *arrays in (
        (RuntimeError, "or, with projections, 5: weight_ih_l0", (h, c), w[:3]),
        (TypeError, "argument 'hx' must be tuple of arrays", h, w),
        (RuntimeError, "two hidden states, (h_0, c_0), but got 1", (h,), w),
        (RuntimeError, "but got 3", (h, h, c), w),
        (RuntimeError, "Expected hx[1] of shape [1, 3, 3]", (h, ones(1, 3, 4)), w),
        (RuntimeError, "Expected hx[0] of shape [1, 3, 3]", (ones(1, 3, 2), c), w),
        (RuntimeError, "params[4] (weight_hr_l0) of shape [2, 3]", *narrow),
    ):
        yield refused(error, words, x, *arrays, *_FLAGS)


def _errors_of_relu() -> Iterator[ErrorInput]:
    x, h, w = _form_of_net("rnn_relu").arguments[:3]
    complex_ones = x + 0j, h + 0j, [array + 0j for array in w]
    words = "for complex64; it takes floats"
    # A NotImplementedError in PyTorch.
    yield from unlike_torch(refused(RuntimeError, words, *complex_ones, *_FLAGS))


def _forms_of_attention() -> Iterator[Form]:
    seen = np.array([[False] * 5, [True] * 3 + [False, True], [True] * 5])
    subtracted = np.where(seen, 0.5, -INF).astype(np.float32)
    calls: list[tuple[Any, ...]] = [
        ((3, 4), (5, 4), (5, 6), None, {"scale": -0.3}),
        ((2, 1, 2, 3, 4), (1, 3, 2, 5, 4), (5, 4), normal(3, 5, seed=3), {}),
        ((3, 4), (2, 5, 4), (2, 5, 4), seen, {}),
        ((3, 4), (5, 4), (7, 5, 2), subtracted, {"scale": 2}),
        ((2, 3, 4), (2, 5, 4), (2, 5, 6), None, {"is_causal": True}),
        ((1, 12, 3, 4), (2, 2, 5, 4), (1, 6, 5, 2), normal(2, 12, 1, 5), {"enable_gqa": True}),
        ((4, 5, 4), (4, 3, 4), (1, 3, 4), None, {"enable_gqa": True, "is_causal": True}),
        ((2, 0, 3, 4), (2, 0, 5, 4), (2, 0, 5, 4), None, {"enable_gqa": True}),
        ((2, 3, 4), (2, 0, 4), (2, 0, 6), None, {}),
        ((0, 3, 4), (0, 5, 4), (0, 5, 6), np.array(False), {}),
    ]
    for *shapes, mask, options in calls:
        arrays = (normal(*shape, seed=number) for number, shape in enumerate(shapes))
        yield form(*arrays, mask, **options)
    shapes = [(2, 3, 4), (2, 5, 4), (2, 5, 3), (3, 5)]
    yield form(*(normal(*shape) for shape in shapes)).named(same_bits=False, batch=(0, 1, 2))


def _errors_of_attention() -> Iterator[ErrorInput]:
    q, k, v = normal(2, 3, 4), normal(2, 5, 4), normal(2, 5, 6)
    seen, bias = ones(3, 5, dtype=bool), ones(3, 5)
    yield refused(RuntimeError, "at least 2 dimensional, but got query.ndim: 1", q[0, 0], k, v)
    yield refused(RuntimeError, "have the same dtype, but got query", q, k.astype(np.float16), v)
    integers = [array.astype(int) for array in (q, k, v)]
    yield refused(RuntimeError, "it takes floats", *integers)
    yield refused(RuntimeError, "not implemented for bool; it takes floats", q > 0, k > 0, v > 0)
    yield refused(NotImplementedError, "complex64", q + 0j, k + 0j, v + 0j)
    yield refused(RuntimeError, "size 4 in the last dimension of key, as in", q, k[:, :, :3], v)
    yield refused(RuntimeError, "size 5 in dimension -2 of value, as in key", q, k, v[:, :4])
    yield refused(RuntimeError, "match, but got shapes: query [2, 3, 4]", q, normal(3, 5, 4), v)
    yield refused(RuntimeError, "key [2, 5, 4], value [3, 5, 6]", q, k, normal(3, 5, 6))
    yield refused(RuntimeError, "broadcast to the shape of the scores, [2, 3", q, k, v, bias[:, :4])
    yield refused(RuntimeError, "but got shape [1, 1, 3, 5]", q, k, v, seen[None, None])
    yield refused(RuntimeError, "attn_mask.dtype: int", q, k, v, seen.astype(int))
    yield refused(RuntimeError, "float32 or to match query", q, k, v, bias.astype(np.float16))
    yield refused(RuntimeError, "not be set when is_causal=True", q, k, v, seen, 0.0, True)
    yield refused(RuntimeError, "between 0 and 1, but got 2.0", q, k, v, None, 2.0)
    yield refused(IndexError, "needs heads in dimension -3", q[0], k[0], v[0], enable_gqa=True)
    yield refused(RuntimeError, "but got 4, 2 and 2", q, normal(4, 5, 4), v, enable_gqa=True)
    yield from unlike_torch(
        # PyTorch ignores such a dropout, has its own generator, and repeats a missing head.
        refused(RuntimeError, "between 0 and 1, but got -0.5", q, k, v, None, -0.5),
        refused(RuntimeError, "between 0 and 1, but got nan", q, k, v, None, NAN),
        refused(TypeError, "'dropout_key' is missing: dropout_p=0.5", q, k, v, None, 0.5),
        refused(TypeError, "must be a JAX key", q, k, v, None, 0.5, dropout_key=1),
        refused(RuntimeError, "but got 0, 0 and 2", q, k[:0], v[:0], enable_gqa=True),
    )


_ERRORS = {"gru": _errors_of_gru, "lstm": _errors_of_lstm, "rnn_relu": _errors_of_relu}

OPS = (
    *(
        OpInfo(
            f"nn.{net.op}",
            functools.partial(net.samples, name),
            functools.partial(_forms_of_net, net.op),
            _ERRORS.get(net.op, tuple),
            wide=2,
        )
        for name, net in _NETS.items()
    ),
    OpInfo(
        "nn.functional.scaled_dot_product_attention",
        _attention_samples,
        _forms_of_attention,
        _errors_of_attention,
        plain=lambda jax, query, key, value, mask: (
            jax.nn.softmax(query @ key.swapaxes(1, 2) / 2 + mask) @ value
        ),
        wide=6,
        tolerance=10,
    ),
)

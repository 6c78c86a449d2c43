"""Samples of recurrent nets and of scaled_dot_product_attention."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.adapters.base import resolve
from conformance.cases._data import Array, values
from conformance.cases._forms import INF, normal
from conformance.cases.table import Form, OpInfo, Sample, form

_STEPS, _BATCH, _FEATURES = 4, 2, 3
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
        biases: Whether there are biases.
        lengths: The length of each sequence, or None.
        wrt: The position, among the weights of a direction, of the weight to differentiate by.
    """

    op: str
    gates: int
    hidden: int
    size: int
    directions: int
    biases: bool
    lengths: tuple[int, ...] | None
    wrt: int

    @property
    def states(self) -> int:
        """The number of arrays that pass from step to step."""
        return 2 if self.op == "lstm" else 1

    def arrays(self) -> tuple[Array, ...]:
        """Returns the input, the states, and the weights."""
        rows = self.gates * self.hidden
        weights: list[tuple[int, ...]] = [(rows, _FEATURES), (rows, self.size)]
        weights += [(rows,)] * 2 * self.biases
        weights += [(self.size, self.hidden)] * (self.size != self.hidden)
        inputs = [(_STEPS, _BATCH, _FEATURES)]
        inputs += [(self.directions, _BATCH, n) for n in (self.size, self.hidden)][: self.states]
        shapes = [*inputs, *weights * self.directions]
        return tuple(values(shape, np.float32, seed) for seed, shape in enumerate(shapes))

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
        out = np.zeros((_STEPS, _BATCH, self.directions, self.size), dtype)
        count = len(params) // self.directions
        for direction in range(self.directions):
            weights = params[direction * count :][:count]
            for example in range(_BATCH):
                state = [part[direction, example] for part in states]
                length = self.lengths[example] if self.lengths else _STEPS
                for step in range(length)[:: -1 if direction else 1]:
                    state = self._step(x[step, example], state, weights)
                    out[step, example, direction] = state[0]
        return out.reshape(_STEPS, _BATCH, -1)

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
        return [np.tanh(total) if self.op == "rnn_tanh" else np.where(total.real > 0, total, 0)]

    def gradient(self, ct: Array, *arrays: Array) -> Array:
        """Returns the gradient by an array, from the derivative by each of its elements."""
        position = 1 + self.states + self.wrt
        out = np.zeros(arrays[position].shape)
        for index in np.ndindex(out.shape):
            moved = [array.astype(complex) for array in arrays]
            moved[position][index] += 1j * _STEP_SIZE
            out[index] = np.sum(ct * self.output(*moved).imag) / _STEP_SIZE
        return out

    def sample(self, name: str) -> Sample:
        """Returns the call as a sample."""
        forward: Callable[..., Any] = self.output
        return Sample(
            name=name,
            call=self.call,
            arrays=self.arrays(),
            expected=forward,
            wrt=1 + self.states + self.wrt,
            expected_gradient=self.gradient,
        )


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


#: So many keys that a sum over them has several rounds.
_QUERIES, _KEYS, _HEAD_FEATURES, _OUTPUTS = 7, 300, 4, 3


def _attention_samples() -> Iterator[Sample]:
    mask = values((_QUERIES, _KEYS), np.float32)
    mask[0], mask[1, ::3] = -np.inf, -np.inf
    yield _sample("mask", (*_operands((2,), (2,)), mask), mask, wrt=0)
    causal = np.where(np.tri(_QUERIES, _KEYS, dtype=bool), 0, -np.inf)
    grouped = _operands((2, 4), (2, 2))
    yield _sample("causal", grouped, causal, wrt=1, is_causal=True, enable_gqa=True)
    yield _sample("values", _operands((2,), (2,)), np.zeros(()), wrt=2, scale=0.25)


def _operands(batch: tuple[int, ...], shared: tuple[int, ...]) -> tuple[Array, ...]:
    """Returns a query, and a key and a value with fewer heads."""
    return (
        values((*batch, _QUERIES, _HEAD_FEATURES), np.float32),
        values((*shared, _KEYS, _HEAD_FEATURES), np.float32, 1),
        values((*shared, _KEYS, _OUTPUTS), np.float32, 2),
    )


def _sample(
    name: str, arrays: tuple[Array, ...], bias: Array, *, wrt: int, **options: Any
) -> Sample:
    """Returns a sample.

    Args:
        name: The name of the sample.
        arrays: A query, a key, a value and perhaps a mask.
        bias: The numbers that the reference adds to the scores.
        wrt: The position of the array to differentiate with respect to.
        **options: Keywords of the op.
    """
    scale = options.get("scale", _HEAD_FEATURES**-0.5)
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


def _rnn_tanh() -> Iterator[Sample]:
    net = Net("rnn_tanh", 1, 3, 3, 1, biases=False, lengths=None, wrt=0)
    yield net.sample("weights of the input")


def _rnn_relu() -> Iterator[Sample]:
    net = Net("rnn_relu", 1, 3, 3, 2, biases=True, lengths=None, wrt=1)
    yield net.sample("both directions")


def _lstm() -> Iterator[Sample]:
    # The longer sequence comes last.
    net = Net("lstm", 4, 3, 2, 1, biases=True, lengths=(2, 4), wrt=1)
    yield net.sample("lengths and projections")


def _gru() -> Iterator[Sample]:
    # The gradient is by a bias that a gate multiplies.
    net = Net("gru", 3, 2, 2, 2, biases=True, lengths=(4, 3), wrt=3)
    yield net.sample("both directions and lengths")


def _form_of_net(
    op: str,
    *,
    layers: int = 1,
    directions: int = 1,
    size: int = 0,
    biases: bool = True,
    batch_first: bool = False,
    lengths: Sequence[int] | None = None,
) -> Form:
    """Returns a net of 4 steps, 3 sequences, 2 features, and gates of 3 elements."""
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
    states = [normal(layers * directions, batch, n) for n in (size or hidden, hidden)]
    # Elements after the end of a sequence are not read, and have no gradient.
    x = normal(steps, batch, features)
    for number, length in enumerate(lengths or ()):
        x[length:, number] = np.nan
    return form(
        x.swapaxes(0, 1) if batch_first else x,
        tuple(states) if op == "lstm" else states[0],
        [normal(*each, seed=number) for number, each in enumerate(weights)],
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
    "lstm": {
        "layers": 2,
        "directions": 2,
        "size": 2,
        "batch_first": True,
        "lengths": (3, 1, 4),
    },
    "rnn_relu": {"directions": 2, "lengths": (2, 4, 1)},
    "rnn_tanh": {"layers": 3, "biases": False, "batch_first": True},
}


def _forms_of_net(op: str) -> Iterator[Form]:
    """Yields a net with further features, and one of one layer with biases."""
    # The input, the state and a weight; the state of an lstm has two arrays.
    batch = (0, 1, 3) if op == "lstm" else (0, 1, 2)
    name = "" if op in ("gru", "lstm") else None
    yield _form_of_net(op, **_FURTHER[op])
    yield _form_of_net(op).having(name=name, same_bits=False, batch=batch)


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


OPS = (
    *(
        OpInfo(f"nn.{name}", samples, functools.partial(_forms_of_net, name), wide=2)
        for name, samples in (
            ("gru", _gru),
            ("lstm", _lstm),
            ("rnn_relu", _rnn_relu),
            ("rnn_tanh", _rnn_tanh),
        )
    ),
    OpInfo(
        "nn.functional.scaled_dot_product_attention",
        _attention_samples,
        _forms_of_attention,
        plain=lambda jax, query, key, value, mask: (
            jax.nn.softmax(query @ key.swapaxes(1, 2) / 2 + mask) @ value
        ),
        wide=6,
        tolerance=10,
    ),
)

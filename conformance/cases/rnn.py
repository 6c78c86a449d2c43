"""Samples of recurrent nets. Their reference computes one step after another."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from conformance.adapters.base import resolve
from conformance.cases._data import Array, values
from conformance.suite.sample import Sample

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
            facts={"dtype": "floating", "input_ndim": 3},
            call=self.call,
            arrays=self.arrays(),
            expected=forward,
            wrt=1 + self.states + self.wrt,
            expected_gradient=self.gradient,
        )


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def samples() -> Mapping[str, Sequence[Sample]]:
    rnn_tanh = Net("rnn_tanh", 1, 3, 3, 1, biases=False, lengths=None, wrt=0)
    rnn_relu = Net("rnn_relu", 1, 3, 3, 2, biases=True, lengths=None, wrt=1)
    # The longer sequence comes last.
    lstm = Net("lstm", 4, 3, 2, 1, biases=True, lengths=(2, 4), wrt=1)
    # The gradient is by a bias that a gate multiplies.
    gru = Net("gru", 3, 2, 2, 2, biases=True, lengths=(4, 3), wrt=3)
    return {
        "nn.rnn_tanh": (rnn_tanh.sample("weights of the input"),),
        "nn.rnn_relu": (rnn_relu.sample("both directions"),),
        "nn.lstm": (lstm.sample("lengths and projections"),),
        "nn.gru": (gru.sample("both directions and lengths"),),
    }

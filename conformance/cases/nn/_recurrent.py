"""Calls of recurrent nets, and what is right for them, step by step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from conformance.case import Sample
from conformance.cases._data import Array, values
from conformance.implementation import resolve

_STEPS, _BATCH, _FEATURES = 4, 2, 3
#: So far a number is moved along the imaginary axis for a derivative, which then is exact.
_FAR = 1e-30


@dataclasses.dataclass(frozen=True)
class Net:
    """A net of one layer, and how it is called.

    Attributes:
        op: The function's name in ``nn``.
        gates: How many gates a cell has.
        hidden: How many elements a gate has.
        size: How many h has; if that is another number, there are projections.
        directions: 1 or 2.
        biases: Whether there are biases.
        lengths: Of each sequence, or None.
        wrt: The weight to differentiate by, by its place among those of a direction.
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
        """How many arrays go from step to step."""
        return 2 if self.op == "lstm" else 1

    def arrays(self) -> tuple[Array, ...]:
        """The input, the states, and the weights."""
        rows = self.gates * self.hidden
        weights: list[tuple[int, ...]] = [(rows, _FEATURES), (rows, self.size)]
        weights += [(rows,)] * 2 * self.biases
        weights += [(self.size, self.hidden)] * (self.size != self.hidden)
        shapes = [(_STEPS, _BATCH, _FEATURES)]
        shapes += [(self.directions, _BATCH, n) for n in (self.size, self.hidden)][: self.states]
        every = [*shapes, *weights * self.directions]
        return tuple(values(shape, np.float32, seed) for seed, shape in enumerate(every))

    def call(self, namespace: Any, x: Any, *others: Any) -> Any:
        """The output of the net."""
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
        """The output by NumPy, in what the arrays hold."""
        states, params = others[: self.states], others[self.states :]
        kind = np.result_type(np.float64, *(array.dtype for array in (x, *others)))
        out = np.zeros((_STEPS, _BATCH, self.directions, self.size), kind)
        each = len(params) // self.directions
        for way in range(self.directions):
            own = params[way * each :][:each]
            for place in range(_BATCH):
                state = [part[way, place] for part in states]
                length = self.lengths[place] if self.lengths else _STEPS
                for step in range(length)[:: -1 if way else 1]:
                    state = self._step(x[step, place], state, own)
                    out[step, place, way] = state[0]
        return out.reshape(_STEPS, _BATCH, -1)

    def _step(self, x: Array, state: Sequence[Array], weights: Sequence[Array]) -> list[Array]:
        none = np.zeros(self.gates * self.hidden)
        biases = weights[2:4] if self.biases else (none, none)
        of_x = np.split(weights[0] @ x + biases[0], self.gates)
        of_h = np.split(weights[1] @ state[0] + biases[1], self.gates)
        if self.op == "gru":
            reset, keep = (_logistic(of_x[i] + of_h[i]) for i in (0, 1))
            return [(1 - keep) * np.tanh(of_x[2] + reset * of_h[2]) + keep * state[0]]
        if self.op == "lstm":
            come, keep, new, out = (a + b for a, b in zip(of_x, of_h, strict=True))
            c = _logistic(keep) * state[1] + _logistic(come) * np.tanh(new)
            h = _logistic(out) * np.tanh(c)
            return [weights[-1] @ h if self.size != self.hidden else h, c]
        total = of_x[0] + of_h[0]
        return [np.tanh(total) if self.op == "rnn_tanh" else np.where(total.real > 0, total, 0)]

    def gradient(self, ct: Array, *arrays: Array) -> Array:
        """The gradient by an array, from the derivative by each of its elements."""
        place = 1 + self.states + self.wrt
        out = np.zeros(arrays[place].shape)
        for at in np.ndindex(out.shape):
            moved = [array.astype(complex) for array in arrays]
            moved[place][at] += 1j * _FAR
            out[at] = np.sum(ct * self.output(*moved).imag) / _FAR
        return out

    def sample(self, name: str) -> Sample:
        """The call as a sample."""
        forward: Callable[..., Any] = self.output
        return Sample(
            name=name,
            facts={"dtype": "floating", "input_ndim": 3},
            call=self.call,
            arrays=self.arrays(),
            expected=forward,
            wrt=1 + self.states + self.wrt,
            expected_pullback=self.gradient,
        )


def _logistic(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))

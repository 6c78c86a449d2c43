"""Recurrent nets for tests: their shapes and arrays, and calls of impl and of PyTorch."""

import dataclasses

import numpy as np

import impl

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru": 3}


@dataclasses.dataclass(frozen=True)
class Net:
    """The arguments of a net, and the shape of its input."""

    op: str
    steps: int = 4
    batch: int = 3
    features: int = 2
    hidden: int = 3
    size: int = 0  # The size of a projection; 0 for none.
    layers: int = 1
    bidirectional: bool = False
    biases: bool = True
    batch_first: bool = False
    lengths: tuple[int, ...] | None = None

    @property
    def directions(self):
        return 1 + self.bidirectional

    @property
    def states(self):
        """The number of states."""
        return 2 if self.op == "lstm" else 1

    def shapes(self):
        """Returns the shapes of the input, of the states, and of the weights."""
        size, rows = self.size or self.hidden, GATES[self.op] * self.hidden
        times = (self.batch, self.steps) if self.batch_first else (self.steps, self.batch)
        cells = self.layers * self.directions
        states = [(cells, self.batch, size), (cells, self.batch, self.hidden)]
        weights = []
        for layer in range(self.layers):
            columns = self.directions * size if layer else self.features
            of_direction = [(rows, columns), (rows, size)] + [(rows,)] * 2 * self.biases
            of_direction += [(size, self.hidden)] * bool(self.size)
            weights += of_direction * self.directions
        return (*times, self.features), states[: self.states], weights

    def arrays(self, seed=0, dtype=np.float32):
        """Returns the input, the states and the weights, in one list."""
        rng = np.random.default_rng(seed)
        x, states, weights = self.shapes()
        return [rng.normal(size=shape).astype(dtype) for shape in (x, *states, *weights)]

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

    def in_torch(self, torch, *tensors):
        """Calls PyTorch's op with the same arrays; with lengths, it packs the sequences."""
        x, states, weights = tensors[0], tensors[1 : 1 + self.states], tensors[1 + self.states :]
        hx = tuple(states) if self.op == "lstm" else states[0]
        flags = (self.biases, self.layers, 0.0, False, self.bidirectional)
        function = getattr(torch, self.op)
        if self.lengths is None:
            return function(x, hx, weights, *flags, self.batch_first)
        utils = torch.nn.utils.rnn
        packed = utils.pack_padded_sequence(
            x, torch.tensor(self.lengths), self.batch_first, enforce_sorted=False
        )
        order, inverse = packed.sorted_indices, packed.unsorted_indices
        sorted_states = [state.index_select(1, order) for state in states]
        hx = tuple(sorted_states) if self.op == "lstm" else sorted_states[0]
        data, *final = function(packed.data, packed.batch_sizes, hx, weights, *flags)
        out, _ = utils.pad_packed_sequence(
            utils.PackedSequence(data, packed.batch_sizes, order, inverse),
            self.batch_first,
            total_length=self.steps,
        )
        return out, *(state.index_select(1, inverse) for state in final)


def drawn_net(rng, op):
    """Returns a net of any kind that PyTorch has."""
    batch, steps, hidden = (int(rng.integers(1, 5)) for _ in range(3))
    lengths = tuple(int(n) for n in rng.integers(1, steps + 1, batch))
    return Net(
        op,
        steps,
        batch,
        int(rng.integers(1, 4)),
        hidden,
        int(rng.integers(hidden)) if op == "lstm" else 0,
        int(rng.integers(1, 4)),
        *(bool(flag) for flag in rng.integers(0, 2, 3)),
        lengths if rng.integers(2) else None,
    )

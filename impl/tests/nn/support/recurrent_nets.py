"""What tests of recurrent nets share: drawn nets, and PyTorch's modules of the same weights."""

import dataclasses

import numpy as np

import impl

GATES = {"rnn_tanh": 1, "rnn_relu": 1, "lstm": 4, "gru": 3}


@dataclasses.dataclass(frozen=True)
class Net:
    """A net, and what it reads."""

    op: str
    steps: int = 4
    batch: int = 3
    features: int = 2
    hidden: int = 3
    size: int = 0  # of a projection
    layers: int = 1
    both: bool = False
    biases: bool = True
    batch_first: bool = False
    lengths: tuple[int, ...] | None = None

    @property
    def directions(self):
        return 1 + self.both

    def shapes(self):
        """Of the input, of the states, and of the weights."""
        size, rows = self.size or self.hidden, GATES[self.op] * self.hidden
        layout = (self.batch, self.steps) if self.batch_first else (self.steps, self.batch)
        many = self.layers * self.directions
        states = [(many, self.batch, size), (many, self.batch, self.hidden)]
        weights = []
        for layer in range(self.layers):
            read = self.directions * size if layer else self.features
            own = [(rows, read), (rows, size)] + [(rows,)] * 2 * self.biases
            own += [(size, self.hidden)] * bool(self.size)
            weights += own * self.directions
        return (*layout, self.features), states[: 2 if self.op == "lstm" else 1], weights

    def arrays(self, seed=0, dtype=np.float32):
        rng = np.random.default_rng(seed)
        x, states, weights = self.shapes()
        return [rng.normal(size=shape).astype(dtype) for shape in (x, *states, *weights)]

    def call(self, *arrays, dropout=0.0, train=False, **keywords):
        """All results, of one flat list of arrays."""
        count = 2 if self.op == "lstm" else 1
        x, states, weights = arrays[0], arrays[1 : 1 + count], arrays[1 + count :]
        return getattr(impl.nn, self.op)(
            x,
            states if count == 2 else states[0],
            weights,
            self.biases,
            self.layers,
            dropout,
            train,
            self.both,
            self.batch_first,
            **{"lengths": self.lengths, **keywords},
        )

    def in_torch(self, torch, *tensors):
        """As ``call``, by PyTorch, packed and unpacked where there are lengths."""
        count = 2 if self.op == "lstm" else 1
        x, states, weights = tensors[0], tensors[1 : 1 + count], tensors[1 + count :]
        hx = tuple(states) if count == 2 else states[0]
        flags = (self.biases, self.layers, 0.0, False, self.both)
        function = getattr(torch, self.op)
        if self.lengths is None:
            return function(x, hx, weights, *flags, self.batch_first)
        utils = torch.nn.utils.rnn
        packed = utils.pack_padded_sequence(
            x, torch.tensor(self.lengths), self.batch_first, enforce_sorted=False
        )
        order, back = packed.sorted_indices, packed.unsorted_indices
        sorted_states = [state.index_select(1, order) for state in states]
        hx = tuple(sorted_states) if count == 2 else sorted_states[0]
        data, *ends = function(packed.data, packed.batch_sizes, hx, weights, *flags)
        out, _ = utils.pad_packed_sequence(
            utils.PackedSequence(data, packed.batch_sizes, order, back),
            self.batch_first,
            total_length=self.steps,
        )
        return out, *(end.index_select(1, back) for end in ends)


def drawn(rng, op):
    """A net of any kind that PyTorch knows."""
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

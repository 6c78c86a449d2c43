"""Checks of the arguments of recurrent nets, and the conversion of PyTorch's weights to layers.

PyTorch passes the weights as one list. A ``Layer`` has transposed matrices: ``input`` for all gates
of both directions, so that one product serves them, and ``hidden`` with one matrix per direction.
An LSTM of one layer with biases, 4 features and 5 hidden elements, and a bidirectional ``rnn_tanh``
of the same sizes::

    lstm        params    w_ih [20, 4], w_hh [20, 5], b_ih [20], b_hh [20]
                layer     input [4, 20], hidden [1, 5, 20], bias [20], the sum of both biases
    rnn_tanh    params    w_ih [5, 4], w_hh [5, 5], b_ih [5], b_hh [5], and again for _reverse
                layer     input [4, 10], hidden [2, 5, 5], bias [10]
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, eager
from impl.nn import _dropout as dropout_arguments
from impl.nn._recurrent import Layer, State, accumulator_of


@dataclasses.dataclass(frozen=True)
class Net:
    """The structure of a net.

    Attributes:
        function: The name of the op, for messages.
        gates: The number of gates of a cell.
        layers: The number of layers.
        directions: The number of directions: 2 if sequences are also read backwards, else 1.
        biases: Whether cells have biases.
        projects: Whether h is a projection of the cell's output.
    """

    function: str
    gates: int
    layers: int
    directions: int
    biases: bool
    projects: bool

    @property
    def weights_per_direction(self) -> int:
        """The number of arrays of weights for one direction of a layer."""
        return 2 + 2 * self.biases + self.projects

    def names(self) -> list[str]:
        """Returns PyTorch's names of the weights, in their order."""
        kinds = ["weight_ih", "weight_hh"] + ["bias_ih", "bias_hh"] * self.biases
        kinds += ["weight_hr"] * self.projects
        return [
            f"{kind}_l{layer}{'_reverse' * back}"
            for layer in range(self.layers)
            for back in range(self.directions)
            for kind in kinds
        ]

    def shapes(self, features: int, hidden: int, size: int) -> list[tuple[int, ...]]:
        """Returns the expected shapes of the weights, in order; ``size`` is the size of h."""
        rows = self.gates * hidden
        shapes: list[tuple[int, ...]] = []
        for layer in range(self.layers):
            columns = self.directions * size if layer else features
            of_direction: list[tuple[int, ...]] = [(rows, columns), (rows, size)]
            of_direction += [(rows,), (rows,)] * self.biases + [(size, hidden)] * self.projects
            shapes += of_direction * self.directions
        return shapes


def net_of(
    function: str,
    gates: int,
    params: Any,
    *,
    has_biases: bool,
    num_layers: Any,
    bidirectional: bool,
    may_project: bool,
) -> tuple[Net, list[jax.Array]]:
    """Returns the structure of a net, and its weights as arrays.

    The number of weights tells whether a net has projections.

    Raises:
        RuntimeError: There is no layer, or the number of weights does not fit.
        TypeError: An argument is of the wrong type.
    """
    if isinstance(has_biases, list | tuple):
        raise TypeError(
            f"{function}(): argument 'has_biases' must be bool, not {type(has_biases).__name__}; "
            "pass sequences that are packed padded, with 'lengths'"
        )
    arguments.flag(function, "has_biases", has_biases)
    arguments.flag(function, "bidirectional", bidirectional)
    layers = arguments.integer(function, "num_layers", num_layers)
    if layers < 1:
        raise RuntimeError(f"{function}(): num_layers must be at least 1, but got {layers}")
    weights = _arrays(function, "params", params)
    directions = 1 + bidirectional
    plain = Net(function, gates, layers, directions, has_biases, projects=False)
    nets = [plain, dataclasses.replace(plain, projects=True)][: 1 + may_project]
    for net in nets:
        if len(weights) == len(net.names()):
            return net, weights
    allowed = " or, with projections, ".join(str(len(net.names())) for net in nets)
    raise RuntimeError(
        f"{function}(): got an incorrect number of RNN parameters: {len(weights)}; {layers} "
        f"layer(s) in {directions} direction(s) {'with' if has_biases else 'without'} biases have "
        f"{allowed}: {', '.join(plain.names()[: plain.weights_per_direction])} and so on"
    )


def sequences(function: str, input: Any, *, batch_first: bool) -> jax.Array:
    """Returns ``input`` as an array of shape [steps, batch, features].

    Raises:
        IndexError: It has fewer dimensions.
        NotImplementedError: It is of bools.
        RuntimeError: It has more dimensions, no step, or is of integers.
        TypeError: It is not an array.
    """
    arguments.flag(function, "batch_first", batch_first)
    x = arguments.array(function, "input", input)
    if x.ndim != 3:
        layout = "[batch, steps, features]" if batch_first else "[steps, batch, features]"
        raise (IndexError if x.ndim < 3 else RuntimeError)(
            f"{function}(): input must have 3 dimensions, {layout}, but got shape {list(x.shape)}"
        )
    kind = arguments.dtype_kind(x.dtype)
    if kind in ("bool", "integer"):
        raise (NotImplementedError if kind == "bool" else RuntimeError)(
            f"{function}(): not implemented for {x.dtype}; it takes floats and complex numbers"
        )
    x = jnp.swapaxes(x, 0, 1) if batch_first else x
    if len(x) == 0:
        raise RuntimeError(
            f"{function}(): Expected sequence length to be larger than 0, but got input of shape "
            f"{list(np.shape(input))}"
        )
    return x


def states_of(function: str, hx: Any, count: int) -> State:
    """Returns the ``count`` arrays of ``hx``, which is an array if ``count`` is 1.

    Raises:
        RuntimeError: ``hx`` has another number of arrays.
        TypeError: ``hx`` has another type.
    """
    if count == 1:
        return (arguments.array(function, "hx", hx),)
    states = _arrays(function, "hx", hx)
    if len(states) != count:
        raise RuntimeError(
            f"{function}(): expects two hidden states, (h_0, c_0), but got {len(states)}"
        )
    return tuple(states)


def check_shapes(net: Net, x: jax.Array, states: State, weights: Sequence[jax.Array]) -> None:
    """Checks the shapes and dtypes of states and weights against the input and the net.

    Raises:
        RuntimeError: A shape or a dtype does not fit.
    """
    _, batch, features = x.shape
    hidden_weight = weights[1]
    if hidden_weight.ndim != 2 or hidden_weight.shape[0] % net.gates:
        raise RuntimeError(
            f"{net.function}(): params[1] (weight_hh_l0) must be a matrix with {net.gates} rows "
            f"for each hidden element, but got shape {list(hidden_weight.shape)}"
        )
    hidden, size = hidden_weight.shape[0] // net.gates, hidden_weight.shape[1]
    if not net.projects:
        size = hidden
    cells = net.layers * net.directions
    of_states: list[tuple[int, ...]] = [(cells, batch, size), (cells, batch, hidden)]
    names = ["hx"] if len(states) == 1 else ["hx[0]", "hx[1]"]
    expected = list(zip(names, states, of_states, strict=False))
    labels = [f"params[{i}] ({name})" for i, name in enumerate(net.names())]
    expected += zip(labels, weights, net.shapes(features, hidden, size), strict=True)
    for name, value, shape in expected:
        if value.dtype != x.dtype:
            raise RuntimeError(
                f"{net.function}(): input ({x.dtype}) and {name} ({value.dtype}) must have the "
                "same dtype; convert one of them"
            )
        if value.shape != shape:
            raise RuntimeError(
                f"{net.function}(): Expected {name} of shape {list(shape)}, for {net.layers} "
                f"layer(s), {net.directions} direction(s), a batch of {batch}, {features} features "
                f"and {hidden} hidden elements, but got {list(value.shape)}"
            )


def layers_of(net: Net, weights: Sequence[jax.Array]) -> list[Layer]:
    """Returns PyTorch's flat list of weights as layers.

    Weights of h are converted to the accumulator's dtype here, so that their gradients are added
    over the steps in this dtype.
    """
    return list(_layers(net, weights))


def _layers(net: Net, weights: Sequence[jax.Array]) -> Iterator[Layer]:
    wide, count = accumulator_of(weights[0]), net.weights_per_direction
    for start in range(0, len(weights), count * net.directions):
        of_directions = [weights[start + d * count :][:count] for d in range(net.directions)]
        kinds = list(zip(*of_directions, strict=True))
        of_input = jnp.concatenate(kinds[0]).T
        hidden = jnp.stack(kinds[1]).swapaxes(1, 2).astype(wide)
        projection = jnp.stack(kinds[-1]).swapaxes(1, 2).astype(wide) if net.projects else None
        bias = inner = None
        if net.biases:
            first, second = (jnp.stack(kind).astype(wide) for kind in kinds[2:4])
            if net.gates == 3:
                # A reset gate scales the part of the new gate that comes from h, with its bias.
                size = second.shape[1] // 3
                inner = second[:, None, 2 * size :]
                second = jnp.where(jnp.arange(3 * size) < 2 * size, second, 0)
            bias = (first + second).reshape(-1)
        yield Layer(of_input, hidden, bias, inner, projection)


def lengths_of(function: str, lengths: Any, steps: int, batch: int) -> jax.Array | None:
    """Returns ``lengths`` as an array of integers of shape [batch]; None stays None.

    Raises:
        RuntimeError: They are not integers, their number does not fit, or a known value is out of
            range.
        TypeError: They are neither an array nor a sequence of ints.
    """
    if lengths is None:
        return None
    if isinstance(lengths, Sequence) and not isinstance(lengths, str):
        ints = [arguments.integer(function, f"lengths[{i}]", n) for i, n in enumerate(lengths)]
        lengths = np.array(ints, np.int64)
    array = arguments.array(function, "lengths", lengths)
    if arguments.dtype_kind(array.dtype) != "integer":
        raise RuntimeError(f"{function}(): lengths must be integers, but got {array.dtype}")
    if array.shape != (batch,):
        raise RuntimeError(
            f"{function}(): Expected lengths of shape [{batch}], one for each sequence of the "
            f"batch, but got {list(array.shape)}"
        )

    def check(known: np.ndarray[Any, Any]) -> None:
        if np.any(wrong := (known < 1) | (known > steps)):
            position = int(np.argmax(wrong))
            raise RuntimeError(
                f"{function}(): Length of all samples has to be greater than 0 and at most the "
                f"number of steps, {steps}, but got {known[position]} at position {position} of "
                "argument 'lengths'"
            )

    eager.when_known(check, lengths)
    return array


def dropout_of(
    function: str, dropout: Any, key: Any, *, train: bool, layers: int
) -> tuple[float, jax.Array | None]:
    """Returns the share to drop, and the key; None in place of the key if nothing is dropped.

    Raises:
        RuntimeError: The share is not in [0, 1].
        TypeError: An argument is of the wrong type; or elements are to be dropped without a key.
    """
    arguments.flag(function, "train", train)
    share = dropout_arguments.share_of(function, "dropout", dropout)
    if key is not None:
        dropout_arguments.check_key(function, "key", key)
    if not train or share == 0 or layers == 1:
        return share, None
    if key is None:
        raise TypeError(
            f"{function}(): argument 'key' is missing: with train=True, dropout={dropout} draws "
            "what it drops between layers; pass a JAX key, such as impl.Generator(0).key()"
        )
    return share, key


def _arrays(function: str, name: str, value: Any) -> list[jax.Array]:
    if not isinstance(value, list | tuple):
        raise TypeError(
            f"{function}(): argument '{name}' must be tuple of arrays, not {type(value).__name__}"
        )
    return [arguments.array(function, f"{name}[{i}]", item) for i, item in enumerate(value)]

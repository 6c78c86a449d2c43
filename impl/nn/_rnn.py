"""The ops ``rnn_tanh``, ``rnn_relu``, ``lstm`` and ``gru``: recurrent nets.

This module checks the arguments; ``_recurrent`` computes the layers. The four ops are
one function with four kinds of cells. Each step reads the state of the step before. ``rnn_relu`` of
one element, with ``weight_ih`` 1 and ``weight_hh`` 0.5::

    input                1., 2., 3.
    output               1., 2.5, 4.25           2.5 is 2 + 0.5 * 1; the final h is 4.25
    second direction     2.75, 3.5, 3.           if bidirectional; the final h is 2.75
    lengths=[2]          1., 2.5, 0.             the final h is 2.5
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._core.numerics import accumulator
from impl._mode.alert import alert, alert_pullback
from impl._mode.decide import decide_both
from impl.nn import _dropout, _recurrent
from impl.nn._recurrent import Advance, Layer, State
from impl.ops._op import variant

#: For each op: its step, its number of gates and its number of states.
_CELLS: Mapping[str, tuple[Advance, int, int]] = MappingProxyType(
    {
        "rnn_tanh": (_recurrent.tanh, 1, 1),
        "rnn_relu": (_recurrent.relu, 1, 1),
        "lstm": (_recurrent.lstm, 4, 2),
        "gru": (_recurrent.gru, 3, 1),
    }
)


def _rnn(  # noqa: D417  # The ops have no ``name``.
    name: str,
    input: Array,
    hx: Array | Sequence[Array],
    params: Sequence[Array],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
    *,
    lengths: Array | Sequence[int] | None = None,
    key: jax.Array | None = None,
) -> tuple[jax.Array, ...]:
    """Computes layers of ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``, step by step.

    In float16 and bfloat16, products are added in float32 and rounded. The states, and the products
    of all inputs with ``weight_ih``, are rounded too; the rest of a step is in float32.

    Args:
        input: Shape [steps, batch, features], or [batch, steps, features] if ``batch_first``;
            floats or complex numbers.
        hx: The initial h: shape [layers * directions, batch, hidden]. All arrays have the dtype of
            ``input``.
        params: The weights of each layer, and within a layer of each direction: ``weight_ih`` of
            shape [hidden, features] (in later layers, [hidden, directions * hidden]),
            ``weight_hh`` of shape [hidden, hidden] and, if ``has_biases``, ``bias_ih`` and
            ``bias_hh`` of shape [hidden].
        has_biases: Whether ``params`` contain biases.
        num_layers: The number of layers. Each reads the output of the layer before it.
        dropout: The share of a layer's output that is dropped, in [0, 1]: the next layer reads 0 in
            place of these elements. All other elements are divided by 1 - ``dropout``. Only if
            ``train``.
        train: Whether to drop elements.
        bidirectional: Whether each layer also reads the sequences backwards, which is a second
            direction.
        batch_first: Whether ``input`` and the output begin with the batch. States never do.
        lengths: The length of each sequence, in [1, steps]: shape [batch], in any order; None
            means that all have ``steps`` steps. After the end of a sequence, ``input`` is not
            read, the output is 0 and h does not change; the second direction begins at the end of
            the sequence. These are the results of ``torch.nn.utils.rnn.pack_padded_sequence``.
            Under ``jit``, where values are unknown, a length below 1 means 0 (h stays as it was),
            and a length above ``steps`` means ``steps``.
        key: The JAX key that decides which elements are dropped, for example from
            ``impl.Generator.key()``. Equal keys drop the same elements.

    Returns:
        The output of the last layer: shape [steps, batch, directions * hidden], or with the batch
        first; and the final h, of the shape of ``hx``.

    Raises:
        IndexError: ``input`` has fewer than 3 dimensions.
        NotImplementedError: ``input`` is of bools.
        RuntimeError: Shapes, dtypes, the number of ``params``, ``lengths`` or ``dropout`` do not
            fit; or ``input`` is of integers, or has no step.
        TypeError: Elements are to be dropped, and ``key`` is None.
    """
    advance, gates, count = _CELLS[name]
    net, weights = _net_of(
        name,
        gates,
        params,
        has_biases=has_biases,
        num_layers=num_layers,
        bidirectional=bidirectional,
        may_project=count == 2,
    )
    dropout, key = _dropout_of(name, dropout, key, train=train, layers=net.layers)
    x = _sequences(name, input, batch_first=batch_first)
    if name == "rnn_relu":
        arguments.check_kind(name, x.dtype, "floating", error=RuntimeError)
    states = _states_of(name, hx, count)
    _check_shapes(net, x, states, weights)
    lengths = _lengths_of(name, lengths, *x.shape[:2])
    facts = arguments.facts(x)
    decision, pullback = decide_both(f"nn.{name}", **facts)
    layers = [*_layers(net, weights)]
    out, final_states = _recurrent.run(x, states, layers, lengths, advance, dropout, key)
    out = alert(alert_pullback(out, pullback), decision)
    final_states = tuple(alert_pullback(state, pullback) for state in final_states)
    return jnp.swapaxes(out, 0, 1) if batch_first else out, *final_states


rnn_tanh = variant(_rnn, "rnn_tanh", "torch.rnn_tanh")
rnn_relu = variant(
    _rnn,
    "rnn_relu",
    "torch.rnn_relu",
    """Computes layers of ``h = max(0, W_ih x + b_ih + W_hh h + b_hh)``, step by step.

    Arguments, results and exceptions are as for ``rnn_tanh``, with one difference: ``input`` of
    complex numbers raises RuntimeError.
    """,
)

gru = variant(
    _rnn,
    "gru",
    "torch.gru",
    """Computes layers of gated recurrent units: ``h = (1 - z) * n + z * h``.

    The gates r and z are ``W_ih x + b_ih + W_hh h + b_hh``, followed by the logistic function. n is
    ``tanh(W_in x + b_in + r * (W_hn h + b_hn))``.

    Arguments, results and exceptions are as for ``rnn_tanh``, with one difference: ``params``
    have 3 * hidden rows, a block for each of r, z and n.
    """,
)

lstm = variant(
    _rnn,
    "lstm",
    "torch.lstm",
    """Computes layers of long short-term memory: ``c = f * c + i * g`` and ``h = o * tanh(c)``.

    The gates i, f, g and o are ``W_ih x + b_ih + W_hh h + b_hh``, followed by tanh for g and by the
    logistic function for i, f and o. With projections, h is ``W_hr (o * tanh(c))``.

    Arguments, results and exceptions are as for ``rnn_tanh``, with these differences:

    - ``hx`` is a pair: the initial h of shape [layers * directions, batch, size], and the initial c
      of shape [layers * directions, batch, hidden]. Without projections, size is hidden. Another
      number of arrays raises RuntimeError.
    - ``params`` have 4 * hidden rows, a block for each of i, f, g and o. ``weight_hh`` has the
      shape [4 * hidden, size]. With projections, each direction of each layer has one more array at
      its end: ``weight_hr`` of shape [size, hidden].
    - The result has three arrays: the output of shape [steps, batch, directions * size], or with
      the batch first; the final h; and the final c.
    """,
)


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


def _net_of(
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
    """
    if isinstance(has_biases, list | tuple):
        hint = "; pass sequences that are packed padded, with 'lengths'"
        raise arguments.wrong_type(function, "has_biases", "bool", has_biases, hint)
    arguments.flags(function, has_biases=has_biases, bidirectional=bidirectional)
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


def _sequences(function: str, input: Any, *, batch_first: bool) -> jax.Array:
    """Returns ``input`` as an array of shape [steps, batch, features]."""
    arguments.flags(function, batch_first=batch_first)
    x = arguments.array(function, "input", input)
    if x.ndim != 3:
        layout = "[batch, steps, features]" if batch_first else "[steps, batch, features]"
        raise (IndexError if x.ndim < 3 else RuntimeError)(
            f"{function}(): input must have 3 dimensions, {layout}, but got shape {list(x.shape)}"
        )
    kind = arguments.dtype_kind(x.dtype)
    error = NotImplementedError if kind == "bool" else RuntimeError
    arguments.check_kind(function, x.dtype, "floating", "complex", error=error)
    x = jnp.swapaxes(x, 0, 1) if batch_first else x
    if len(x) == 0:
        raise RuntimeError(
            f"{function}(): Expected sequence length to be larger than 0, but got input of shape "
            f"{list(np.shape(input))}"
        )
    return x


def _states_of(function: str, hx: Any, count: int) -> State:
    """Returns the ``count`` arrays of ``hx``, which is an array if ``count`` is 1."""
    if count == 1:
        return (arguments.array(function, "hx", hx),)
    states = _arrays(function, "hx", hx)
    if len(states) != count:
        raise RuntimeError(
            f"{function}(): expects two hidden states, (h_0, c_0), but got {len(states)}"
        )
    return tuple(states)


def _check_shapes(net: Net, x: jax.Array, states: State, weights: Sequence[jax.Array]) -> None:
    """Checks the shapes and dtypes of states and weights against the input and the net."""
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
        arguments.same_dtype(net.function, x, **{name: value})
        if value.shape != shape:
            raise RuntimeError(
                f"{net.function}(): Expected {name} of shape {list(shape)}, for {net.layers} "
                f"layer(s), {net.directions} direction(s), a batch of {batch}, {features} features "
                f"and {hidden} hidden elements, but got {list(value.shape)}"
            )


def _layers(net: Net, weights: Sequence[jax.Array]) -> Iterator[Layer]:
    """Yields PyTorch's flat list of weights as layers.

    Weights of h are converted to the accumulator's dtype here, so that their gradients are added
    over the steps in this dtype.
    """
    wide, count = accumulator(weights[0].dtype), net.weights_per_direction
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


def _lengths_of(function: str, lengths: Any, steps: int, batch: int) -> jax.Array | None:
    """Returns ``lengths`` as an array of integers of shape [batch]; None stays None."""
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


def _dropout_of(
    function: str, dropout: Any, key: Any, *, train: bool, layers: int
) -> tuple[float, jax.Array | None]:
    """Returns the share to drop, and the key; None in place of the key if nothing is dropped."""
    arguments.flags(function, train=train)
    share = _dropout.share_of(function, "dropout", dropout)
    if key is not None:
        _dropout.check_key(function, "key", key)
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
        raise arguments.wrong_type(function, name, "tuple of arrays", value)
    return [arguments.array(function, f"{name}[{i}]", item) for i, item in enumerate(value)]

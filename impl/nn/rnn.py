"""The ops ``rnn_tanh``, ``rnn_relu``, ``lstm`` and ``gru``: recurrent nets.

``_recurrent_arguments`` checks the arguments; ``_recurrent`` computes the layers. The four ops are
one function with four kinds of cells. Each step reads the state of the step before. ``rnn_relu`` of
one element, with ``weight_ih`` 1 and ``weight_hh`` 0.5::

    input                1., 2., 3.
    output               1., 2.5, 4.25           2.5 is 2 + 0.5 * 1; the final h is 4.25
    second direction     2.75, 3.5, 3.           if bidirectional; the final h is 2.75
    lengths=[2]          1., 2.5, 0.             the final h is 2.5
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments, eager
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert, alert_pullback
from impl.nn import _recurrent
from impl.nn import _recurrent_arguments as net_arguments
from impl.nn._recurrent import Advance, Rules, State


@eager.compiled
def rnn_tanh(
    input: Array,
    hx: Array,
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
) -> tuple[jax.Array, jax.Array]:
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
        TypeError: An argument is of the wrong type; or elements are to be dropped, and ``key`` is
            None.

    Source: ``torch.rnn_tanh``, which ``torch.nn.RNN`` calls. The spec's rows state what the mode
    does, and the guarantee.
    """
    call = _Call(input, hx, params, num_layers, dropout, lengths, key)
    flags = _Flags(has_biases, train, bidirectional, batch_first)
    out, (h,) = _run("rnn_tanh", call, flags)
    return out, h


@eager.compiled
def rnn_relu(
    input: Array,
    hx: Array,
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
) -> tuple[jax.Array, jax.Array]:
    """Computes layers of ``h = max(0, W_ih x + b_ih + W_hh h + b_hh)``, step by step.

    Arguments, results and exceptions are as for ``rnn_tanh``, with one difference: ``input`` of
    complex numbers raises RuntimeError.

    Source: ``torch.rnn_relu``, which ``torch.nn.RNN`` calls. The spec's rows state what the mode
    does, and the guarantee.
    """
    call = _Call(input, hx, params, num_layers, dropout, lengths, key)
    flags = _Flags(has_biases, train, bidirectional, batch_first)
    out, (h,) = _run("rnn_relu", call, flags)
    return out, h


@eager.compiled
def lstm(
    input: Array,
    hx: Sequence[Array],
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
) -> tuple[jax.Array, jax.Array, jax.Array]:
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

    Source: ``torch.lstm``, which ``torch.nn.LSTM`` calls. The spec's rows state what the mode does,
    and the guarantee.
    """
    call = _Call(input, hx, params, num_layers, dropout, lengths, key)
    flags = _Flags(has_biases, train, bidirectional, batch_first)
    out, (h, c) = _run("lstm", call, flags)
    return out, h, c


@eager.compiled
def gru(
    input: Array,
    hx: Array,
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
) -> tuple[jax.Array, jax.Array]:
    """Computes layers of gated recurrent units: ``h = (1 - z) * n + z * h``.

    The gates r and z are ``W_ih x + b_ih + W_hh h + b_hh``, followed by the logistic function. n is
    ``tanh(W_in x + b_in + r * (W_hn h + b_hn))``.

    Arguments, results and exceptions are as for ``rnn_tanh``, with one difference: ``params``
    have 3 * hidden rows, a block for each of r, z and n.

    Source: ``torch.gru``, which ``torch.nn.GRU`` calls. The spec's rows state what the mode does,
    and the guarantee.
    """
    call = _Call(input, hx, params, num_layers, dropout, lengths, key)
    flags = _Flags(has_biases, train, bidirectional, batch_first)
    out, (h,) = _run("gru", call, flags)
    return out, h


@dataclasses.dataclass(frozen=True)
class _Call:
    """The arguments that need more than a check of their type."""

    input: Any
    hx: Any
    params: Any
    num_layers: Any
    dropout: Any
    lengths: Any
    key: Any


@dataclasses.dataclass(frozen=True)
class _Flags:
    """The arguments that must be bools."""

    has_biases: bool
    train: bool
    bidirectional: bool
    batch_first: bool


#: For each op: its step, its number of gates and its number of states.
_CELLS: Mapping[str, tuple[Advance, int, int]] = MappingProxyType(
    {
        "rnn_tanh": (_recurrent.tanh, 1, 1),
        "rnn_relu": (_recurrent.relu, 1, 1),
        "lstm": (_recurrent.lstm, 4, 2),
        "gru": (_recurrent.gru, 3, 1),
    }
)


def _run(name: str, call: _Call, flags: _Flags) -> tuple[jax.Array, State]:
    advance, gates, count = _CELLS[name]
    net, weights = net_arguments.net_of(
        name,
        gates,
        call.params,
        has_biases=flags.has_biases,
        num_layers=call.num_layers,
        bidirectional=flags.bidirectional,
        may_project=count == 2,
    )
    dropout, key = net_arguments.dropout_of(
        name, call.dropout, call.key, train=flags.train, layers=net.layers
    )
    x = net_arguments.sequences(name, call.input, batch_first=flags.batch_first)
    if name == "rnn_relu" and arguments.dtype_kind(x.dtype) == "complex":
        raise RuntimeError(f"{name}(): not implemented for {x.dtype}; it takes floats")
    states = net_arguments.states_of(name, call.hx, count)
    net_arguments.check_shapes(net, x, states, weights)
    lengths = net_arguments.lengths_of(name, call.lengths, *x.shape[:2])
    facts = arguments.facts(x)
    decision, pullback = decide(f"nn.{name}", **facts), decide(f"nn.{name}", "backward", **facts)
    rules = Rules(advance, dropout, key)
    layers = net_arguments.layers_of(net, weights)
    out, final_states = _recurrent.run(x, states, layers, lengths, rules)
    out = alert(alert_pullback(out, pullback), decision)
    final_states = tuple(alert_pullback(state, pullback) for state in final_states)
    return jnp.swapaxes(out, 0, 1) if flags.batch_first else out, final_states

"""impl.nn.rnn_tanh, rnn_relu, lstm and gru."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from impl._core import arguments
from impl._core.arguments import Array
from impl._mode.decide import decide
from impl._primitives.alert import alert
from impl.nn import _recurrent
from impl.nn import _recurrent_arguments as net_arguments
from impl.nn._recurrent import Advance, Rules, State


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
    """Layers of ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)``, step by step.

    Args:
        input: Shape [steps, batch, features], or [batch, steps, features] if ``batch_first``;
            floats or complex numbers. float16 and bfloat16 are multiplied with sums in float32;
            what is between a step's products is in float32; products, what the inputs add to a
            step, and states are rounded.
        hx: The first h: shape [layers * directions, batch, hidden], of the dtype of ``input``, as
            all arrays are.
        params: For each layer, and within it for each direction, ``weight_ih`` of shape [hidden,
            features] (for later layers, [hidden, directions * hidden]), ``weight_hh`` of shape
            [hidden, hidden] and, if ``has_biases``, ``bias_ih`` and ``bias_hh`` of shape [hidden].
        has_biases: Whether there are biases.
        num_layers: How many layers there are; each reads what the one before gives.
        dropout: The share, in [0, 1], of a layer's elements that the next one gets as 0 if
            ``train``; the others are divided by the share of those that stay.
        train: Whether to drop any.
        bidirectional: Whether each layer reads the sequences backwards too.
        batch_first: The layout of ``input`` and of the output. That of states stays.
        lengths: For sequences of different lengths, in any order: a length in [1, steps] for each
            of the batch. What follows in ``input`` is not read, the output is 0 there, h stays,
            and reading backwards begins at a sequence's own end, as of a sequence that
            ``torch.nn.utils.rnn.pack_padded_sequence`` has packed. Under ``jit``, where values are
            unknown, a length below 1 counts as 0, which leaves h as it was, and one above steps
            as steps.
        key: The JAX key that decides what is dropped, such as ``impl.Generator.key()`` hands out.
            The same one drops the same.

    Returns:
        The output, shape [steps, batch, directions * hidden] or with the batch first; and the last
        h, of the shape of ``hx``.

    Raises:
        IndexError: ``input`` has fewer than 3 dimensions.
        NotImplementedError: ``input`` is of bools.
        RuntimeError: Shapes, dtypes, the number of ``params``, ``lengths`` or ``dropout`` do not
            fit; ``input`` is of integers or has no step.
        TypeError: An argument is of the wrong type; or something is to be dropped, and there is no
            ``key``.

    Source: ``torch.rnn_tanh``, which ``torch.nn.RNN`` calls. What the mode does, and the
    guarantee, are in the spec's rows.
    """
    call = _Call(input, hx, params, num_layers, dropout, lengths, key)
    flags = _Flags(has_biases, train, bidirectional, batch_first)
    out, (h,) = _run("rnn_tanh", call, flags)
    return out, h


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
    """Layers of ``h = max(0, W_ih x + b_ih + W_hh h + b_hh)``, step by step.

    Args:
        input: As that of ``rnn_tanh``, but of floats.
        hx: As that of ``rnn_tanh``.
        params: As those of ``rnn_tanh``.
        has_biases: Whether there are biases.
        num_layers: How many layers there are.
        dropout: The share of a layer's elements that the next one gets as 0 if ``train``.
        train: Whether to drop any.
        bidirectional: Whether each layer reads the sequences backwards too.
        batch_first: The layout of ``input`` and of the output.
        lengths: As those of ``rnn_tanh``.
        key: The JAX key that decides what is dropped.

    Returns:
        As that of ``rnn_tanh``.

    Raises:
        IndexError: ``input`` has fewer than 3 dimensions.
        NotImplementedError: ``input`` is of bools.
        RuntimeError: As that of ``rnn_tanh``; or ``input`` is of complex numbers.
        TypeError: As that of ``rnn_tanh``.

    Source: ``torch.rnn_relu``, which ``torch.nn.RNN`` calls. What the mode does, and the
    guarantee, are in the spec's rows.
    """
    call = _Call(input, hx, params, num_layers, dropout, lengths, key)
    flags = _Flags(has_biases, train, bidirectional, batch_first)
    out, (h,) = _run("rnn_relu", call, flags)
    return out, h


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
    """Layers of long short-term memory: ``c = f * c + i * g`` and ``h = o * tanh(c)``.

    The gates i, f, g and o are ``W_ih x + b_ih + W_hh h + b_hh``, g through tanh and the others
    through the logistic function. With projections h is ``W_hr (o * tanh(c))``.

    Args:
        input: As that of ``rnn_tanh``.
        hx: The first h, shape [layers * directions, batch, size], and the first c, shape [layers *
            directions, batch, hidden]. Without projections, size is hidden.
        params: As those of ``rnn_tanh``, with 4 * hidden rows, a block for each of i, f, g and o,
            and ``weight_hh`` of shape [4 * hidden, size]. With one more for each layer and
            direction, the last of it, there are projections: ``weight_hr`` of shape [size, hidden].
        has_biases: Whether there are biases.
        num_layers: How many layers there are.
        dropout: The share of a layer's elements that the next one gets as 0 if ``train``.
        train: Whether to drop any.
        bidirectional: Whether each layer reads the sequences backwards too.
        batch_first: The layout of ``input`` and of the output.
        lengths: As those of ``rnn_tanh``.
        key: The JAX key that decides what is dropped.

    Returns:
        The output, shape [steps, batch, directions * size] or with the batch first; and the last h
        and the last c, of the shapes of ``hx``.

    Raises:
        IndexError: ``input`` has fewer than 3 dimensions.
        NotImplementedError: ``input`` is of bools.
        RuntimeError: As that of ``rnn_tanh``; or ``hx`` are not two.
        TypeError: As that of ``rnn_tanh``.

    Source: ``torch.lstm``, which ``torch.nn.LSTM`` calls. What the mode does, and the guarantee,
    are in the spec's rows.
    """
    call = _Call(input, hx, params, num_layers, dropout, lengths, key)
    flags = _Flags(has_biases, train, bidirectional, batch_first)
    out, (h, c) = _run("lstm", call, flags)
    return out, h, c


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
    """Layers of gated units: ``h = (1 - z) * n + z * h``.

    The gates r and z are ``W_ih x + b_ih + W_hh h + b_hh`` through the logistic function, and n is
    ``tanh(W_in x + b_in + r * (W_hn h + b_hn))``.

    Args:
        input: As that of ``rnn_tanh``.
        hx: As that of ``rnn_tanh``.
        params: As those of ``rnn_tanh``, with 3 * hidden rows, a block for each of r, z and n.
        has_biases: Whether there are biases.
        num_layers: How many layers there are.
        dropout: The share of a layer's elements that the next one gets as 0 if ``train``.
        train: Whether to drop any.
        bidirectional: Whether each layer reads the sequences backwards too.
        batch_first: The layout of ``input`` and of the output.
        lengths: As those of ``rnn_tanh``.
        key: The JAX key that decides what is dropped.

    Returns:
        As that of ``rnn_tanh``.

    Raises:
        IndexError: ``input`` has fewer than 3 dimensions.
        NotImplementedError: ``input`` is of bools.
        RuntimeError: As that of ``rnn_tanh``.
        TypeError: As that of ``rnn_tanh``.

    Source: ``torch.gru``, which ``torch.nn.GRU`` calls. What the mode does, and the guarantee, are
    in the spec's rows.
    """
    call = _Call(input, hx, params, num_layers, dropout, lengths, key)
    flags = _Flags(has_biases, train, bidirectional, batch_first)
    out, (h,) = _run("gru", call, flags)
    return out, h


@dataclasses.dataclass(frozen=True)
class _Call:
    """What all of them are called with, as it came."""

    input: Any
    hx: Any
    params: Any
    num_layers: Any
    dropout: Any
    lengths: Any
    key: Any


@dataclasses.dataclass(frozen=True)
class _Flags:
    """What of it is to be bools."""

    has_biases: bool
    train: bool
    bidirectional: bool
    batch_first: bool


#: A step of each, how many gates it has, and how many states.
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
    share, key = net_arguments.dropping(
        name, call.dropout, call.key, train=flags.train, layers=net.layers
    )
    x = net_arguments.sequences(name, call.input, batch_first=flags.batch_first)
    if name == "rnn_relu" and arguments.dtype_kind(x.dtype) == "complex":
        raise RuntimeError(f"{name}(): not implemented for {x.dtype}; it takes floats")
    states = net_arguments.states_of(name, call.hx, count)
    net_arguments.check_shapes(net, x, states, weights)
    lengths = net_arguments.lengths_of(name, call.lengths, *x.shape[:2])
    stated = arguments.facts(x)
    decision, pullback = (decide(f"nn.{name}", way, **stated) for way in ("forward", "backward"))
    rules = Rules(advance, decision, pullback, share, key)
    out, ends = _recurrent.run(x, states, net_arguments.layers_of(net, weights), lengths, rules)
    out = alert(out, decision)
    return jnp.swapaxes(out, 0, 1) if flags.batch_first else out, ends

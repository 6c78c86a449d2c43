"""Recurrent nets: layers of cells, each a loop over the steps of a sequence."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from impl._core.numerics import accumulator, convert
from impl._core.shard_axes import vary_like
from impl._mode.decide import Decision
from impl._primitives.matmul import matmul

#: What is carried from step to step, each of shape [directions, batch, size]: h, and c if any.
State: TypeAlias = tuple[jax.Array, ...]

#: From a step's gates by input, shape [directions, batch, gates * hidden] in the type that sums are
#: kept in, to the state after it.
Advance: TypeAlias = "Callable[[jax.Array, State, Layer, Rules], State]"


class Layer(NamedTuple):
    """The weights of a layer, with its directions side by side.

    Attributes:
        input: Shape [features, directions * gates * hidden].
        hidden: Shape [directions, size of h, gates * hidden].
        bias: Shape [directions * gates * hidden], or None: what is added to both products.
        inner: Shape [directions, 1, hidden], or None: a bias that a reset gate scales too.
        projection: Shape [directions, hidden, size of h], or None.
    """

    input: jax.Array
    hidden: jax.Array
    bias: jax.Array | None
    inner: jax.Array | None
    projection: jax.Array | None


@dataclasses.dataclass(frozen=True)
class Rules:
    """How a net is computed.

    Attributes:
        advance: A step.
        decision: What each platform does.
        pullback: What differentiating it does.
        dropout: The share of a layer's output that the next does not get to see.
        key: What decides which; None if nothing is dropped.
    """

    advance: Advance
    decision: Decision
    pullback: Decision
    dropout: float
    key: jax.Array | None

    def product(self, a: jax.Array, b: jax.Array) -> jax.Array:
        """[n, m, k] by [n, k, l], in the type that sums are kept in."""
        out = matmul(a, convert(b, a.dtype), decision=self.decision, pullback=self.pullback)
        return convert(out, accumulator_of(out))


def accumulator_of(value: jax.Array) -> jax.typing.DTypeLike:
    """The type in which what is done within a step is kept."""
    floats = jnp.issubdtype(value.dtype, jnp.floating)
    return accumulator(value.dtype) if floats else value.dtype


def run(
    x: jax.Array,
    states: State,
    layers: list[Layer],
    lengths: jax.Array | None,
    rules: Rules,
) -> tuple[jax.Array, State]:
    """All layers.

    Args:
        x: Shape [steps, batch, features].
        states: Each of shape [layers * directions, batch, size].
        layers: The first one first.
        lengths: Shape [batch], or None: at how many steps each sequence has ended.
        rules: How.

    Returns:
        The last layer's h at every step, of shape [steps, batch, directions * size], and the
        states after the last step, in the shapes they were given in.
    """
    inside = None if lengths is None else jnp.arange(len(x))[:, None] < lengths
    ends: list[State] = []
    for number, layer in enumerate(layers):
        if number and rules.key is not None:
            x = _dropped(x, jax.random.fold_in(rules.key, number), rules.dropout)
        directions = len(layer.hidden)
        place = slice(number * directions, (number + 1) * directions)
        x, end = _through(x, tuple(state[place] for state in states), layer, inside, rules)
        ends.append(end)
    return x, tuple(jnp.concatenate(parts) for parts in zip(*ends, strict=True))


def _through(
    x: jax.Array, state: State, layer: Layer, inside: jax.Array | None, rules: Rules
) -> tuple[jax.Array, State]:
    """One layer: the products with all inputs at once, then step by step."""
    steps, batch, features = x.shape
    directions = len(layer.hidden)
    if inside is not None:
        # What is no part of a sequence is not computed with: it may be no number.
        x = jnp.where(inside[:, :, None], x, 0)
    gates = rules.product(x.reshape(1, steps * batch, features), layer.input[None])
    gates = gates if layer.bias is None else gates + layer.bias
    # Kept for all steps in the narrow type, where there is one.
    gates = convert(gates.reshape(steps, batch, directions, layer.hidden.shape[2]), x.dtype)
    each = _by_direction(gates)
    masks = None if inside is None else _by_direction(jnp.stack([inside] * directions, 2))
    # A loop's initial value has to vary over a mesh as its results do.
    weights = [part for part in layer if part is not None]
    state = tuple(vary_like(part, each, *state, *weights) for part in state)

    def step(state: State, read: tuple[jax.Array, jax.Array | None]) -> tuple[State, jax.Array]:
        gates, there = read
        after = rules.advance(convert(gates, accumulator_of(gates)), state, layer, rules)
        after = tuple(
            convert(new, old.dtype)
            if there is None
            else jnp.where(there[..., None], convert(new, old.dtype), old)
            for new, old in zip(after, state, strict=True)
        )
        out = after[0]
        return after, out if there is None else jnp.where(there[..., None], out, 0)

    end, outputs = jax.lax.scan(step, state, (each, masks))
    return jnp.concatenate(_there_and_back(outputs, 1), 2), end


def _by_direction(values: jax.Array) -> jax.Array:
    """[steps, batch, directions, ...] as [steps, directions, batch, ...], the second backwards."""
    return jnp.stack(_there_and_back(values, 2), 1)


def _there_and_back(values: jax.Array, axis: int) -> list[jax.Array]:
    """What there is along ``axis``, the directions: the second, if any, with the last step first.

    By slices, whose gradients are no scatters.
    """
    parts = [
        jax.lax.index_in_dim(values, direction, axis, keepdims=False)
        for direction in range(values.shape[axis])
    ]
    return [jnp.flip(part, 0) if direction else part for direction, part in enumerate(parts)]


def _dropped(x: jax.Array, key: jax.Array, share: float) -> jax.Array:
    """``x`` with a share of its elements 0, and the others larger, so that means stay."""
    kept = jax.random.bernoulli(key, 1 - share, x.shape)
    scale = 1 / (1 - share) if share < 1 else 0
    return jnp.where(kept, x * jnp.asarray(scale, x.dtype), 0)


# Cells: a step of each kind of net.


def elman(
    gates: jax.Array,
    state: State,
    layer: Layer,
    rules: Rules,
    *,
    function: Callable[[jax.Array], jax.Array],
) -> State:
    """The step of a plain net."""
    return (function(gates + rules.product(state[0], layer.hidden)),)


def lstm(gates: jax.Array, state: State, layer: Layer, rules: Rules) -> State:
    """A step with gates for what comes in, what is forgotten, what is new, and what goes out."""
    h, c = state
    parts = _blocks(gates + rules.product(h, layer.hidden), 4)
    come, keep, out = (jax.nn.sigmoid(parts[i]) for i in (0, 1, 3))
    new = keep * convert(c, gates.dtype) + come * jnp.tanh(parts[2])
    # The loop carries c rounded; so is what h is made of.
    h_new = convert(out * jnp.tanh(convert(convert(new, c.dtype), gates.dtype)), h.dtype)
    if layer.projection is not None:
        h_new = rules.product(h_new, layer.projection)
    return h_new, new


def gru(gates: jax.Array, state: State, layer: Layer, rules: Rules) -> State:
    """A step with gates for what is reset, what is kept, and what is new."""
    (h,) = state
    inputs = _blocks(gates, 3)
    own = _blocks(rules.product(h, layer.hidden), 3)
    reset, keep = (jax.nn.sigmoid(inputs[i] + own[i]) for i in (0, 1))
    inner = own[2] if layer.inner is None else own[2] + layer.inner
    new = jnp.tanh(inputs[2] + reset * inner)
    return ((1 - keep) * new + keep * convert(h, gates.dtype),)


def _blocks(gates: jax.Array, count: int) -> list[jax.Array]:
    """The gates one by one.

    By slices, whose gradients are padded and added: XLA of jax 0.10 gets some of those of
    jnp.split, a concatenation, wrong on a CPU (float64, 2 directions, 4 sequences, 5 elements).
    """
    size = gates.shape[-1] // count
    return [jax.lax.slice_in_dim(gates, i * size, (i + 1) * size, axis=-1) for i in range(count)]


tanh = functools.partial(elman, function=jnp.tanh)
relu = functools.partial(elman, function=jax.nn.relu)

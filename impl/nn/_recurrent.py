"""The computation of recurrent nets: layers of cells, each a loop over the steps of a sequence.

The products of a layer with all its inputs are computed at once, before the loop. Both directions
of a layer run in the same loop, the second on reversed steps. For 2 directions of an LSTM, with a
sequence of 7 steps, a batch of 3, 4 features and 5 hidden elements, a layer computes

    gates of the input      [7 * 3, 4] x [4, 2 * 4 * 5]     one product, as [7, 2, 3, 20]
    7 times in a loop       [2, 3, 5] x [2, 5, 20]          h times its weights, added to the gates
    output                  [7, 3, 2 * 5]                   the h of both directions

The gradient of the weights of h is one product over all steps, not a sum in the loop.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from impl._core.numerics import accumulator, convert, fence
from impl._core.shard_axes import vary_like
from impl.nn._dropout import dropped
from impl.ops._products import matmul

#: The arrays that the loop carries, each of shape [directions, batch, size]: h, and for some c.
State: TypeAlias = tuple[jax.Array, ...]

#: A step of a cell. Its first argument is the part of the gates that the input decides, of shape
#: [directions, batch, gates * hidden] in the accumulator's dtype. It returns the next state.
Advance: TypeAlias = "Callable[[jax.Array, State, Repeated], State]"


class Layer(NamedTuple):
    """The weights of both directions of a layer.

    Attributes:
        input: The weights of the input: shape [features, directions * gates * hidden].
        hidden: The weights of h: shape [directions, size of h, gates * hidden].
        bias: The sum of both biases: shape [directions * gates * hidden], or None.
        inner: The bias inside the product with a reset gate: shape [directions, 1, hidden], or
            None.
        projection: The weights of the projection: shape [directions, hidden, size of h], or None.
    """

    input: jax.Array
    hidden: jax.Array
    bias: jax.Array | None
    inner: jax.Array | None
    projection: jax.Array | None


class Repeated(NamedTuple):
    """The weights of a layer that each step reads, with the shapes that they have in ``Layer``.

    Attributes:
        hidden: The weights of h.
        inner: The bias inside the product with a reset gate, or None.
        projection: The weights of the projection, or None.
        turned: The weights of h with their last two axes swapped, if there are derivatives.
        addend: A stand-in whose tangent is added to the tangent of the product with h; its value is
            not used. None for no addend.
    """

    hidden: jax.Array
    inner: jax.Array | None
    projection: jax.Array | None
    turned: jax.Array | None = None
    addend: jax.Array | None = None

    def of_h(self, h: jax.Array) -> jax.Array:
        """Multiplies h by its weights; the result is in the accumulator's dtype."""
        if self.turned is None:
            return _product(h, self.hidden)
        out: jax.Array = _of_h(h, self.hidden, self.turned, self.addend)
        return out


def _product(a: jax.Array, b: jax.Array) -> jax.Array:
    """Multiplies [n, m, k] by [n, k, l]; the result is in the accumulator's dtype."""
    out = matmul(a, convert(b, a.dtype))
    return convert(out, accumulator(out.dtype))


def run(
    x: jax.Array,
    states: State,
    layers: list[Layer],
    lengths: jax.Array | None,
    advance: Advance,
    dropout: float,
    key: jax.Array | None,
) -> tuple[jax.Array, State]:
    """Computes all layers.

    ``x`` has shape [steps, batch, features], each state [layers * directions, batch, size], and
    ``lengths``, or None, [batch]. The result is the h of the last layer at every step, of shape
    [steps, batch, directions * size], and the final states. ``dropout`` is the share of a layer's
    output that is dropped, and ``key``, or None, the JAX key that decides which elements are.
    """
    inside = None if lengths is None else jnp.arange(len(x))[:, None] < lengths[None]
    final_states: list[State] = []
    for number, layer in enumerate(layers):
        if number and key is not None:
            x = dropped(x, jax.random.fold_in(key, number), dropout)
        directions = len(layer.hidden)
        of_layer = slice(number * directions, (number + 1) * directions)
        initial = tuple(state[of_layer] for state in states)
        x, final = _layer_output(x, initial, layer, inside, advance)
        final_states.append(final)
    return x, tuple(jnp.concatenate(parts) for parts in zip(*final_states, strict=True))


def _layer_output(
    x: jax.Array, state: State, layer: Layer, inside: jax.Array | None, advance: Advance
) -> tuple[jax.Array, State]:
    """Computes one layer: the products with all inputs at once, then one step after another."""
    steps, batch, features = x.shape
    directions = len(layer.hidden)
    if inside is not None:
        # Elements after the end of a sequence may be NaN: they must not enter the products.
        x = jnp.where(inside[:, :, None], x, 0)
    gates = _product(x.reshape(1, steps * batch, features), layer.input[None])
    gates = gates if layer.bias is None else gates + layer.bias[None, None]
    # Stored for all steps in the dtype of the input, which may be narrower.
    gates = convert(gates.reshape(steps, batch, directions, layer.hidden.shape[2]), x.dtype)
    gates = _by_direction(gates)
    masks = None if inside is None else _by_direction(jnp.stack([inside] * directions, 2))
    # The initial value of a loop must vary over a mesh like its results.
    weights = [part for part in layer if part is not None]
    state = tuple(vary_like(part, gates, *state, *weights) for part in state)

    repeated = Repeated(layer.hidden, layer.inner, layer.projection)
    final, outputs = _steps(advance, gates, masks, state, repeated)
    return jnp.concatenate(_split_directions(outputs, 1), 2), final


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _steps(
    advance: Advance, gates: jax.Array, masks: jax.Array | None, state: State, weights: Repeated
) -> tuple[State, jax.Array]:
    """Takes the steps of a layer; returns the final state and each h.

    The gradient of the weights of h is one product of all steps. The transpose of the loop would
    add a matrix in each step.
    """
    return _loop(advance, gates, masks, state, weights)[0]


def _steps_jvp(advance: Advance, primals: Any, tangents: Any) -> Any:
    gates, masks, state, weights = primals
    of_gates, _, of_state, of_weights = tangents
    hidden = weights.hidden
    # XLA on a CPU would copy the weights in each step of the gradient, to swap their axes.
    turned = fence(jnp.swapaxes(hidden, 1, 2))

    def loop(gates: jax.Array, state: State, weights: Repeated) -> Any:
        return _loop(advance, gates, masks, state, weights._replace(hidden=hidden, turned=turned))

    shape = (*gates.shape[:3], hidden.shape[2])
    addend = None
    # All other steps read their gates only in a sum with the product with h.
    if advance is gru:
        addend = vary_like(jnp.zeros(shape, accumulator(gates.dtype)), gates)
    arguments = (gates, state, weights._replace(hidden=None, addend=addend))
    out, derivative, before = jax.linearize(loop, *arguments, has_aux=True)
    if not isinstance(of_weights.hidden, SymbolicZero):
        directions, size = hidden.shape[:2]
        rows = jnp.moveaxis(before, 1, 0).reshape(directions, -1, size)
        products = _product(rows, of_weights.hidden)
        products = jnp.moveaxis(products.reshape(directions, *shape[::2], shape[3]), 0, 1)
        if advance is gru:
            addend = products
        else:
            of_gates = convert(_instantiated(of_gates, gates) + products, gates.dtype)
    of_all = (of_gates, of_state, of_weights._replace(hidden=None, addend=addend))
    leaves, tree = jax.tree.flatten(arguments)
    return out, derivative(
        *jax.tree.unflatten(tree, map(_instantiated, jax.tree.leaves(of_all), leaves))
    )


_steps.defjvp(_steps_jvp, symbolic_zeros=True)


def _loop(
    advance: Advance, gates: jax.Array, masks: jax.Array | None, state: State, weights: Repeated
) -> tuple[tuple[State, jax.Array], jax.Array]:
    """Takes the steps; returns the final state and each h, and the h before each step.

    The addend of the products, if given, has one part for each step.
    """

    def step(state: State, inputs: Any) -> tuple[State, tuple[jax.Array, jax.Array]]:
        gates, mask, addend = inputs
        of_step = weights._replace(addend=addend)
        after = advance(convert(gates, accumulator(gates.dtype)), state, of_step)
        after = tuple(
            convert(new, old.dtype)
            if mask is None
            else jnp.where(mask[..., None], convert(new, old.dtype), old)
            for new, old in zip(after, state, strict=True)
        )
        out = after[0] if mask is None else jnp.where(mask[..., None], after[0], 0)
        return after, (out, state[0])

    final, (outputs, before) = jax.lax.scan(step, state, (gates, masks, weights.addend))
    return (final, outputs), before


@jax.custom_jvp
def _of_h(
    h: jax.Array, weights: jax.Array, turned: jax.Array, addend: jax.Array | None
) -> jax.Array:
    """Multiplies h by its weights. The tangent of ``addend`` is added to the product's tangent."""
    del turned, addend
    return _product(h, weights)


def _of_h_jvp(primals: Any, tangents: Any) -> Any:
    h, _, turned, addend = primals
    of_h, of_weights, _, of_addend = tangents
    # The transpose multiplies by the weights as they are stored in ``turned``.
    total = _product(_instantiated(of_h, h), jnp.swapaxes(turned, 1, 2))
    if addend is not None:
        total = _instantiated(of_addend, addend) + total
    if not isinstance(of_weights, SymbolicZero):
        total = total + _product(h, of_weights)
    return _of_h(*primals), total


_of_h.defjvp(_of_h_jvp, symbolic_zeros=True)


def _instantiated(tangent: Any, primal: jax.Array) -> Any:
    return jnp.zeros_like(primal) if isinstance(tangent, SymbolicZero) else tangent


def _by_direction(values: jax.Array) -> jax.Array:
    """Moves [steps, batch, directions, ...] to [steps, directions, batch, ...].

    The steps of the second direction are reversed.
    """
    return jnp.stack(_split_directions(values, 2), 1)


def _split_directions(values: jax.Array, axis: int) -> list[jax.Array]:
    """Returns one array for each direction along ``axis``, the second with its steps reversed.

    It uses slices, because their gradients are not scatters.
    """
    parts = [
        jax.lax.index_in_dim(values, direction, axis, keepdims=False)
        for direction in range(values.shape[axis])
    ]
    return [jnp.flip(part, 0) if direction else part for direction, part in enumerate(parts)]


# Cells: the step of each op.


def elman(
    gates: jax.Array, state: State, weights: Repeated, *, function: Callable[[jax.Array], jax.Array]
) -> State:
    """Computes a step of ``rnn_tanh`` or ``rnn_relu``."""
    return (function(gates + weights.of_h(state[0])),)


def lstm(gates: jax.Array, state: State, weights: Repeated) -> State:
    """Computes a step with an input gate, a forget gate, a cell gate and an output gate."""
    h, c = state
    inputs = gates + weights.of_h(h)
    # Of all blocks, though it uses three: XLA on a CPU then computes it first, in vector code.
    # Otherwise one loop reads so many parts of arrays that XLA cannot tell whether they overlap.
    input_gate, forget_gate, _, output_gate = _blocks(jax.nn.sigmoid(inputs), 4)
    cell_gate = jnp.tanh(_blocks(inputs, 4)[2])
    c_new = forget_gate * convert(c, gates.dtype) + input_gate * cell_gate
    # The loop carries c in its own dtype, so h must come from the rounded c.
    c_rounded = convert(convert(c_new, c.dtype), gates.dtype)
    h_new = convert(output_gate * jnp.tanh(c_rounded), h.dtype)
    if weights.projection is not None:
        h_new = _product(h_new, weights.projection)
    return h_new, c_new


def gru(gates: jax.Array, state: State, weights: Repeated) -> State:
    """Computes a step with a reset gate, an update gate and a new gate."""
    (h,) = state
    of_input = _blocks(gates, 3)
    of_hidden = _blocks(weights.of_h(h), 3)
    reset, update = (jax.nn.sigmoid(of_input[i] + of_hidden[i]) for i in (0, 1))
    inner = of_hidden[2] if weights.inner is None else of_hidden[2] + weights.inner
    new = jnp.tanh(of_input[2] + reset * inner)
    return ((1 - update) * new + update * convert(h, gates.dtype),)


def _blocks(gates: jax.Array, count: int) -> list[jax.Array]:
    """Splits the last axis into ``count`` equal blocks.

    The gradient of a slice is padded and added. ``jnp.split`` is not used: its gradient is a
    concatenation, which XLA of jax 0.10 computes wrongly on a CPU in some cases (for example
    float64, 2 directions, 4 sequences, 5 elements).
    """
    size = gates.shape[-1] // count
    return [jax.lax.slice_in_dim(gates, i * size, (i + 1) * size, axis=-1) for i in range(count)]


tanh = functools.partial(elman, function=jnp.tanh)
relu = functools.partial(elman, function=jax.nn.relu)

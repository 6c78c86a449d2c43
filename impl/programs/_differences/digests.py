"""Evaluates a JAX program with a digest of the outputs of each equation that is marked.

A digest is one word of 32 bits, computed on the device by a sum of integers, whose order changes
nothing. Each element is first mixed with its index, so that two exchanged elements count; the mixer
is ``fmix32`` of MurmurHash3 (Austin Appleby). The program is evaluated equation by equation,
inside one ``jax.jit``, and so are the bodies of calls, loops and conditions. Each marked output
stands behind an optimization barrier: its digest is of the bits that the next equation gets. Of ::

    { lambda ; x i u. let
        y = scatter-add x i u
        z = scan[jaxpr={ lambda ; c. ... } length=4] y
      in (z,) }

the words are, in this order: one of y; then, for each of the 4 iterations, one of each marked
output of the body; then one of z. A loop carries its words along, in an array of one row for
each iteration. Of a condition, the words of the branches that did not run are zeros.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from impl._core import jax_internals
from impl._core.jax_internals import jaxpr_as_fun, jaxprs
from impl._reading.control_flow import CHOICE, Body
from impl.programs._differences.marks import Node, is_digested, marked_bodies

Values: TypeAlias = list[Any]
Words: TypeAlias = list[jax.Array]


def evaluate(
    closed: Any, arguments: Sequence[Any], nodes: Sequence[Node], windows: Any
) -> tuple[Values, Words]:
    """Returns the outputs of a jaxpr, and the words of its nodes, inside a trace of JAX.

    Args:
        closed: The jaxpr with its constants.
        arguments: Its inputs.
        nodes: Its nodes.
        windows: The first iteration of the rows of each loop, and the number of those in a row, as
            ``marks.windows`` returns them.
    """
    jaxpr = jaxprs.opened(closed)
    environment = jaxprs.constants(closed)
    words = digests(environment.values()) if nodes[0].marked else []
    environment |= dict(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if jaxprs.is_literal(atom) else environment[atom]

    for equation, node in zip(jaxpr.eqns, nodes[1:], strict=True):
        with equation.ctx.manager:  # Equations within may have no tag of their own.
            operands = [read(operand) for operand in equation.invars]
            outputs, inner = _step(equation, operands, node, windows)
        if node.marked:
            outputs = behind_barrier(outputs)
        words += inner
        if node.marked:
            pairs = zip(equation.outvars, outputs, strict=True)
            words += digests([value for out, value in pairs if is_digested(out)])
        environment |= dict(zip(equation.outvars, outputs, strict=True))
    return [read(atom) for atom in jaxpr.outvars], words


def _step(equation: Any, operands: Values, node: Node, windows: Any) -> tuple[Values, Words]:
    bodies = marked_bodies(equation)
    if not bodies:
        return jax_internals.evaluated(equation, operands), []
    if equation.primitive.name == "shard_map":
        return _shard_map(equation.params, bodies[0], operands, node, windows)
    run = {"once": _call, "branch": _cond, "loop": _while if bodies[0].is_test else _scan}
    return run[bodies[0].runs](bodies, operands, node, windows)


def _call(
    bodies: Sequence[Body], operands: Values, node: Node, windows: Any
) -> tuple[Values, Words]:
    return evaluate(bodies[0].jaxpr, operands, node.inner, windows)


def _scan(
    bodies: Sequence[Body], operands: Values, node: Node, windows: Any
) -> tuple[Values, Words]:
    (body,) = bodies
    carried = len(body.carries)

    def step(state: Any, element: Any) -> Any:
        index, rows, values = state
        inputs = body.arguments(operands, values, element)
        outputs, words = evaluate(body.jaxpr, inputs, node.inner, windows)
        rows = _with_row(rows, index, words, windows[node.loop])
        return (index + 1, rows, outputs[:carried]), outputs[carried:]

    first = (np.int32(0), _no_rows(node), [operands[each.operand] for each in body.carries])
    elements = [operands[each.operand] for each in body.slices]
    (_, rows, carry), stacked = lax.scan(
        step, first, elements, length=body.length, reverse=body.reverse
    )
    return [*carry, *stacked], [rows.reshape(-1)]


def _while(
    bodies: Sequence[Body], operands: Values, node: Node, windows: Any
) -> tuple[Values, Words]:
    test, body = bodies
    of_test, of_body = _nodes_of(bodies, node)

    def goes_on(state: Any) -> Any:
        return jnp.any(jaxpr_as_fun(test.jaxpr)(*test.arguments(operands, state[2]))[0])

    def step(state: Any) -> Any:
        index, rows, values = state
        (runs,), tested = evaluate(test.jaxpr, test.arguments(operands, values), of_test, windows)
        after, words = evaluate(body.jaxpr, body.arguments(operands, values), of_body, windows)
        if jnp.ndim(runs):  # Under vmap, an element stays as it is when its own loop has ended.
            after = [_where(runs, new, old) for new, old in zip(after, values, strict=True)]
        return index + 1, _with_row(rows, index, [*tested, *words], windows[node.loop]), after

    start = (np.int32(0), _no_rows(node), [operands[each.operand] for each in body.carries])
    _, rows, values = lax.while_loop(goes_on, step, start)
    return values, [rows.reshape(-1)]


def _where(which: jax.Array, new: Any, old: Any) -> Any:
    shape = which.shape + (1,) * (jnp.ndim(new) - which.ndim)
    return jnp.where(which.reshape(shape), new, old)


def _cond(
    bodies: Sequence[Body], operands: Values, node: Node, windows: Any
) -> tuple[Values, Words]:
    groups = _nodes_of(bodies, node)
    sizes = [sum(inner.words for inner in group) for group in groups]

    def branch(position: int) -> Any:
        def run(*values: Any) -> Any:
            body = bodies[position]
            inputs = body.arguments(values)
            outputs, words = evaluate(body.jaxpr, inputs, groups[position], windows)
            before, after = sum(sizes[:position]), sum(sizes[position + 1 :])
            zeros = [jnp.zeros(size, jnp.uint32) for size in (before, after)]
            return outputs, joined([zeros[0], *words, zeros[1]])

        return run

    index = jnp.asarray(operands[CHOICE], jnp.int32)
    outputs, words = lax.switch(index, [branch(i) for i in range(len(bodies))], *operands)
    return outputs, [words]


def _nodes_of(bodies: Sequence[Body], node: Node) -> list[Sequence[Node]]:
    """Returns the nodes of each body: one for its constants, and one for each equation."""
    rest = iter(node.inner)
    return [tuple(itertools.islice(rest, 1 + len(body.opened.eqns))) for body in bodies]


def _shard_map(
    params: Mapping[str, Any], inside: Body, operands: Values, node: Node, windows: Any
) -> tuple[Values, Words]:
    mesh, axes = params["mesh"], params["newly_manual_axes"]
    along = jax.P(tuple(name for name in mesh.axis_names if name in axes))

    def body(rows: jax.Array, *values: Any) -> Any:
        outputs, words = evaluate(inside.jaxpr, values, node.inner, rows)
        return tuple(outputs), joined(words)[None]

    local = jax.shard_map(
        body,
        mesh=mesh,
        in_specs=(jax.P(), *params["in_specs"]),
        out_specs=(tuple(params["out_specs"]), along),
        axis_names=axes,
        check_vma=False,
    )
    outputs, words = local(windows, *operands)
    device = lax.broadcasted_iota(jnp.uint32, words.shape, 0) + np.uint32(1)
    # One word for all devices, since the outputs show which device differs.
    return list(outputs), [jnp.sum(_mixed(words ^ _mixed(device)), axis=0, dtype=jnp.uint32)]


def _no_rows(node: Node) -> jax.Array:
    return jnp.zeros((node.rows, node.row), jnp.uint32)


def _with_row(rows: jax.Array, index: jax.Array, words: Words, window: jax.Array) -> jax.Array:
    """Returns the rows with the digests of one iteration; iterations before the first add none."""
    start, steps = window
    since = index - start
    row = jnp.clip(since // steps, 0, len(rows) - 1)
    old = lax.dynamic_index_in_dim(rows, row, 0, keepdims=False)
    # Several iterations in a row: each permutation of them gives other words.
    new = jnp.where(since < 0, old, old * np.uint32(0x9E3779B1) + joined(words))
    updated: jax.Array = lax.dynamic_update_index_in_dim(rows, new, row, 0)
    return updated


def joined(words: Words) -> jax.Array:
    """Returns words as one array."""
    return jnp.concatenate([jnp.zeros(0, jnp.uint32), *words])


def behind_barrier(values: Values) -> Values:
    """Returns values that XLA computes before any later equation reads them."""
    arrays = [i for i, value in enumerate(values) if _is_plain_array(value)]
    fenced = lax.optimization_barrier([values[i] for i in arrays])
    for i, value in zip(arrays, fenced, strict=True):
        values[i] = value
    return values


def _is_plain_array(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    special = jax.dtypes.extended
    return dtype is not None and hasattr(value, "shape") and not jnp.issubdtype(dtype, special)


def digests(values: Iterable[Any]) -> Words:
    """Returns the word of each value."""
    return [_digest(jax.random.key_data(v) if _is_key(v) else v) for v in values]


def _is_key(value: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(value), jax.dtypes.prng_key)


@jax.jit
def _digest(value: jax.Array) -> jax.Array:
    """Returns the word of an array: the sum of its bits, each word mixed with its index."""
    value = jnp.asarray(value)
    if jnp.issubdtype(value.dtype, jnp.complexfloating):
        real, imaginary = _digest(value.real), _digest(value.imag)
        whole: jax.Array = real + imaginary * np.uint32(0x85EBCA6B)
        return whole
    words = _bits(value)
    index = lax.full_like(words, 1)
    strides = [math.prod(words.shape[axis + 1 :]) for axis in range(words.ndim)]
    for axis, stride in enumerate(strides):
        along = lax.broadcasted_iota(jnp.uint32, words.shape, axis)
        index = index + along * np.uint32(stride % 2**32)
    # One sum without a reshape: compiling it for each mark is most of the cost of marks, and XLA
    # gathers a sharded array to reshape it.
    return jnp.sum(_mixed(words ^ index * np.uint32(0x9E3779B1)), dtype=jnp.uint32).reshape(1)


def _bits(value: jax.Array) -> jax.Array:
    """Returns the bits of an array of numbers or bools as words of 32 bits."""
    if value.dtype == bool:
        return value.astype(jnp.uint32)
    floats = jnp.issubdtype(value.dtype, jnp.floating)
    bits = jnp.finfo(value.dtype).bits if floats else jnp.iinfo(value.dtype).bits
    unsigned = {2: "uint2", 4: "uint4", 8: "uint8", 16: "uint16"}.get(bits, "uint32")
    return lax.bitcast_convert_type(value, jnp.dtype(unsigned)).astype(jnp.uint32)


def _mixed(words: jax.Array) -> jax.Array:
    words = (words ^ (words >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    words = (words ^ (words >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return words ^ (words >> np.uint32(16))

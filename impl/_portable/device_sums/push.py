"""Moves the sums over devices in the body of a ``shard_map`` back to where their terms arise.

``rewritten`` copies the equations of a body into a draft. At a ``psum``, it asks for the sum over
devices of the operand, and looks at the equation that computes the operand:

- A linear operation, such as an addition, a move, or a product with a replicated factor, becomes
  the same operation on the sums of its operands. So the search goes on at the operands.
- An operation that adds elements, such as ``dot_general``, becomes one joined sum of the elements
  of all devices if its operands are sharded: the search ends. If its operands are terms of a sum
  already, the search goes on at the operands.
- A joined sum over other mesh axes becomes a joined sum over both.
- A loop, a condition or a checkpoint gets another output: the search goes on in its body.
- For any other value, the draft gets a ``psum`` of it. If the search finds only such values, the
  draft gets the old ``psum`` instead.

The equations on the way stay in the draft too, since other equations may read their results. JAX's
removal of dead code drops the rest. The sum of a scan over micro-batches, for example, ::

    { lambda ; a:f32[3,2,4]. let
        b:f32[4] = broadcast_in_dim 0.0
        c:f32[4] = scan[jaxpr={ lambda ; d:f32[4] e:f32[2,4]. let
            f:f32[4] = reduce_sum[axes=(0,)] e
            g:f32[4] = add d f
          in (g,) } ...] b a
        h:f32[4] = psum[axes=('d',)] c
      in (h,) }

becomes a scan that carries the sum over devices, and begins with the ``psum`` of zeros::

    { lambda ; a:f32[3,2,4]. let
        b:f32[4] = broadcast_in_dim 0.0
        c:f32[4] = psum[axes=('d',)] b
        d:f32[4] = scan[jaxpr={ lambda ; e:f32[4] f:f32[2,4]. let
            g:f32[4] = samebits_whole[name=reduce_sum axis_names=('d',) ...] f
            h:f32[4] = add e g
          in (h,) } ...] c a
      in (d,) }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax.numpy as jnp

from impl._core.jax_internals import jaxprs
from impl._mode import modes
from impl._portable.device_sums import linear, local_first
from impl._portable.device_sums.draft import DeviceSum, Draft, NestDraft, Summed
from impl._portable.device_sums.equations import as_whole, over_more_devices, part_p, whole_p
from impl._portable.device_sums.flow import Flow
from impl._portable.device_sums.linear import Atom
from impl._portable.device_sums.shardings import Sharding
from impl._portable.rule import rule_of
from impl._reading import control_flow

_PSUM_SCATTER = "reduce_scatter"


def rewritten(jaxpr: Any, inputs: Sequence[Sharding], sizes: Mapping[str, int]) -> Any:
    """Returns the body of a ``shard_map`` with sums over devices where their terms arise.

    Args:
        jaxpr: The body, without constants.
        inputs: The sharding of each of its inputs.
        sizes: The size of each mesh axis.
    """
    draft = Draft(jaxpr, inputs, Flow(sizes), modes.current())
    _write(draft)
    return draft.finished()


def _write(draft: Draft) -> None:
    """Copies the equations of the old jaxpr into a draft, with sums over devices moved."""
    for equation in draft.source.eqns:
        operands = [draft.replacement(atom) for atom in equation.invars]
        _write_equation(draft, equation.replace(invars=operands))
    draft.outputs = [draft.replacement(atom) for atom in draft.source.outvars]


def _write_equation(draft: Draft, equation: Any) -> None:
    """Copies one equation, whose operands are variables of the new jaxpr."""
    name = str(equation.primitive.name)
    if name in local_first.PSUMS:
        total = _joined_psum(draft, equation)
        if total is not None:
            draft.replace(equation.outvars[0], total)
            return
    if name == _PSUM_SCATTER and _write_slice_of_sum(draft, equation):
        return
    nest = draft.flow.nest(equation, [draft.sharding(atom) for atom in equation.invars])
    if nest is None:
        draft.append(equation)
        return
    drafts = [
        Draft(body.opened, inputs, draft.flow, draft.mode_of(equation))
        for body, inputs in zip(nest.bodies, nest.inputs, strict=True)
    ]
    for each in drafts:
        _write(each)
    draft.append(NestDraft(equation, nest.bodies, drafts, len(nest.bodies[-1].carries)))


def _write_slice_of_sum(draft: Draft, equation: Any) -> bool:
    """Writes a ``psum_scatter`` as a joined sum and its slice; returns False if none is joined."""
    params = equation.params
    names = params["axis_name"]
    names = tuple(names) if isinstance(names, (tuple, list)) else (names,)
    psum = jaxprs.psum_like(equation, names, params["axis_index_groups"])
    total = _joined_psum(draft, psum)
    if total is None:
        return False
    draft.append(equation.replace(primitive=part_p, invars=[total], effects=frozenset()))
    return True


def _joined_psum(draft: Draft, equation: Any) -> Atom | None:
    """Returns the joined sum that stands for a ``psum``; None if it stays as it is.

    A ``psum`` stays as it is if it adds integers, which it does not round, or complex numbers, or
    if it adds in groups of devices, or over an axis that is not an axis of the mesh.
    """
    if not draft.is_joinable(equation):
        return None
    (operand,) = equation.invars
    total = _summed(draft, operand, DeviceSum(tuple(equation.params["axes"]), equation))
    return total.atom if total.is_joined else None


def _summed(draft: Draft, atom: Atom, over: DeviceSum) -> Summed:
    """Returns the sum of a value over devices; a draft computes each such sum once.

    Along an axis where the value is replicated, a sum has nothing to be joined with: a ``psum``
    multiplies the value by the number of devices.
    """
    if jaxprs.is_literal(atom):
        return Summed(draft.append_psum(atom, over), is_joined=False)
    key = (atom, over.axes)
    if key in draft.sums:
        return draft.sums[key]
    varying = [a for a in over.axes if a in draft.sharding(atom)]
    rest = tuple(axis for axis in over.axes if axis not in varying)
    joined = _pushed(draft, atom, over.along(tuple(varying))) if varying else None
    if joined is None:
        total = draft.append_psum(atom, over)
    else:
        total = draft.append_psum(joined, over.along(rest)) if rest else joined
    draft.sums[key] = Summed(total, is_joined=joined is not None)
    return draft.sums[key]


def _pushed(draft: Draft, atom: Atom, over: DeviceSum) -> Atom | None:
    """Returns the sum of a value, moved past the equation that computes it.

    Returns:
        None if no sum over devices is joined there, or the equation is in a scope that is not
        portable.
    """
    producer = draft.producers.get(atom)
    if producer is None:
        return None
    is_nest = isinstance(producer, NestDraft)
    if not draft.mode_of(producer.equation if is_nest else producer).portable:
        return None
    if is_nest:
        return _pushed_into_bodies(draft, producer, atom, over)
    rule = rule_of(producer)
    if rule.over_devices is not None:
        return _joined_operation(draft, producer, over)
    if producer.primitive is whole_p:
        out = draft.summed_variable(atom, over.axes)
        draft.append(over_more_devices(producer, over.axes, out))
        return out
    if rule.linear == "each":
        operand = producer.invars[producer.outvars.index(atom)]
        return _pushed_to_operand(draft, operand, atom, over)
    operands = linear.passed(producer, lambda each: draft.is_replicated(each, over.axes))
    return _pushed_to_operands(draft, producer, atom, operands, over) if operands else None


def _pushed_to_operand(draft: Draft, operand: Atom, atom: Atom, over: DeviceSum) -> Atom | None:
    """Returns the sum of a result that equals an operand; None if it is not joined.

    With ``check_vma``, types tell over which axes a value varies, and ``psum`` takes only a value
    that varies over its axes. So the type of the operand has to vary where the result's type does.
    """
    if jaxprs.is_literal(operand):
        return None
    if not jaxprs.varying(operand.aval) >= jaxprs.varying(atom.aval) & set(over.axes):
        return None
    total = _summed(draft, operand, over)
    return total.atom if total.is_joined else None


def _pushed_to_operands(
    draft: Draft, equation: Any, atom: Atom, operands: Sequence[int], over: DeviceSum
) -> Atom | None:
    """Returns the linear result for the sums of operands; None if no sum is joined.

    The sum of an integer is exact, so it need not be joined.
    """
    sums = {i: _summed(draft, equation.invars[i], over) for i in operands}
    are_exact = [jnp.issubdtype(equation.invars[i].aval.dtype, jnp.integer) for i in operands]
    if not any(are_exact) and not any(total.is_joined for total in sums.values()):
        return None
    outs = [draft.summed_variable(out, over.axes) for out in equation.outvars]
    new = _with_sums(draft, equation.invars, sums, over)
    draft.append(equation.replace(invars=new, outvars=outs))
    return outs[equation.outvars.index(atom)]


def _with_sums(
    draft: Draft, operands: Sequence[Atom], sums: Mapping[int, Summed], over: DeviceSum
) -> list[Atom]:
    """Returns operands, with sums in place of some of them."""
    return [
        sums[i].atom if i in sums else draft.typed_replicated(operand, over)
        for i, operand in enumerate(operands)
    ]


def _joined_operation(draft: Draft, equation: Any, over: DeviceSum) -> Atom:
    """Returns the sum over devices of an operation that adds elements, as one joined sum.

    Along axes over which its operands are terms already, the sum moves on to the operands. If that
    holds for all axes, the operation itself stays as it is.
    """
    operands, rest = list(equation.invars), list(over.axes)
    shardings = [draft.sharding(each) for each in operands]
    for chosen, axes in linear.having_terms(equation, shardings, over.axes).items():
        sums = {i: _summed(draft, operands[i], over.along(axes)) for i in chosen}
        if any(total.is_joined for total in sums.values()):
            operands = _with_sums(draft, operands, sums, over.along(axes))
            rest = [axis for axis in rest if axis not in axes]
    out = draft.summed_variable(equation.outvars[0], over.axes)
    operation = equation.replace(invars=operands, outvars=[out])
    if rest:
        draft.append(as_whole(operation, over.like, tuple(rest)))
    else:
        draft.append(operation)
    return out


def _pushed_into_bodies(draft: Draft, nest: NestDraft, atom: Atom, over: DeviceSum) -> Atom | None:
    """Returns the sum of an output of a nest as another output; None if no body joins its sum.

    A sum over devices waits for all of them. So no sum moves into a ``while``, where devices may
    stop at different iterations, nor into a branch that other devices may not take.
    """
    position = nest.equation.outvars.index(atom)
    runs = nest.bodies[0].runs
    if any(body.is_test for body in nest.bodies):
        return None
    if runs == "loop" and position < nest.carried:
        return _pushed_into_carry(draft, nest, position, over)
    if runs == "branch":
        choice = nest.equation.invars[control_flow.CHOICE]
        if not draft.is_replicated(choice, over.axes):
            return None
    sums = [_summed(body, body.outputs[position], over) for body in nest.drafts]
    if not any(total.is_joined for total in sums):
        return None
    for body, total in zip(nest.drafts, sums, strict=True):
        body.outputs.append(total.atom)
    return _added_output(draft, nest, len(nest.equation.outvars), atom, over)


def _pushed_into_carry(
    draft: Draft, nest: NestDraft, position: int, over: DeviceSum
) -> Atom | None:
    """Returns the sum of a value that a scan carries, which the scan then carries too.

    In the body, the sum of the carried input is the new input. So the sum of ``carry + term`` is
    the new input plus the sum of ``term``, which may be joined.

    Args:
        draft: The draft with the scan.
        nest: The scan.
        position: The position of the output.
        over: The sum.

    Returns:
        None if no sum is joined in the body.
    """
    (body,) = nest.drafts
    carried_in, new_position = nest.first_carry + position, nest.first_carry + nest.carried
    carried = body.inputs[carried_in]
    new_input = body.summed_variable(carried, over.axes)
    others, body.sums = body.sums, {(carried, over.axes): Summed(new_input, is_joined=False)}
    total = _summed(body, body.outputs[position], over)
    body.sums = others
    if not total.is_joined:
        return None
    body.inputs.insert(new_position, new_input)
    body.outputs.insert(nest.carried, total.atom)
    initial = _summed(draft, nest.equation.invars[carried_in], over)
    nest.add_operand(new_position, initial.atom)
    nest.carried += 1
    old = nest.equation.outvars[position]
    return _added_output(draft, nest, nest.carried - 1, old, over)


def _added_output(
    draft: Draft, nest: NestDraft, position: int, like: Atom, over: DeviceSum
) -> Atom:
    """Returns a new output of a nest, for the sum of one of its outputs."""
    new = draft.summed_variable(like, over.axes)
    nest.add_output(position, new)
    draft.producers[new] = nest
    return new

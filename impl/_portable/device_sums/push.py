"""Moves the sums over devices in the body of a ``shard_map`` back to where their terms arise.

``rewritten`` copies the equations in their order. It rewrites a scan, a condition or a checkpoint
with its bodies, and a ``psum_scatter`` becomes a joined sum and its slice.

``joined_psum`` gets the equation of a ``psum`` and a draft with the equations before it. It asks
for the sum over devices of the operand, and looks at the equation that computes the operand:

- A linear operation, such as an addition, a move, or a product with a replicated factor, becomes
  the same operation on the sums of its operands. So the search goes on at the operands.
- An operation that adds elements, such as ``dot_general``, becomes one joined sum of the elements
  of all devices if its operands are sharded: the search ends. If its operands are terms of a sum
  already, the search goes on at the operands.
- A joined sum over other mesh axes becomes a joined sum over both.
- A loop, a condition or a checkpoint gets another output: the search goes on in its body. At an
  input of the body, it goes on at the operand outside, whose sum becomes another input. At a value
  that a scan carries, the scan carries its sum, too.
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

The lowering rule of ``shard_map`` passes the parameters of its equation to ``with_joined_sums``,
which calls ``rewritten``. A joined sum is lowered as ``Rule.over_devices`` of its operation
computes it, on all the devices that its parameters name.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.interpreters import mlir

from impl._core.numerics import fence
from impl._exact import arithmetic
from impl._jax import jaxprs, lowering, tags
from impl._mode import modes
from impl._mode.modes import Mode
from impl._portable import shared
from impl._portable.device_sums import draft, flow
from impl._portable.device_sums.draft import (
    PSUMS,
    DeviceSum,
    Draft,
    Names,
    NestDraft,
    Summed,
    as_whole,
    over_more_devices,
    part_p,
    whole_p,
)
from impl._portable.device_sums.flow import Atom, Flow, Nest
from impl._portable.device_sums.shardings import Sharding, unknown
from impl._portable.rule import RULES, Target, rule_of
from impl._reading import control_flow
from impl._reading.control_flow import every_jaxpr
from impl._soft_float64 import engines

_PSUM_SCATTER = "reduce_scatter"


def rewritten(jaxpr: Any, inputs: Sequence[Sharding], sizes: Mapping[str, int]) -> Any:
    """Returns the body of a ``shard_map`` with sums over devices where their terms arise."""
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
    if name in PSUMS:
        total = joined_psum(draft, equation)
        if total is not None:
            draft.replace(equation.outvars[0], total)
            return
    if name == _PSUM_SCATTER and _write_slice_of_sum(draft, equation):
        return
    nest = draft.flow.nest(equation, [draft.sharding(atom) for atom in equation.invars])
    if nest is None:
        draft.append(equation)
        return
    written = _written(draft, equation, nest, carries_sums=True)
    # Without a sum that is joined, the values that a scan carries keep their psums.
    draft.append(written or _written(draft, equation, nest, carries_sums=False))


def _written(draft: Draft, equation: Any, nest: Nest, *, carries_sums: bool) -> NestDraft | None:
    """Returns an equation with bodies; None if a scan carries sums of which none is joined."""
    drafts = [
        Draft(body.opened, inputs, draft.flow, draft.mode_of(equation))
        for body, inputs in zip(nest.bodies, nest.inputs, strict=True)
    ]
    new = NestDraft.of(equation, nest.bodies, drafts, draft)
    for each in drafts:
        each.carries = {} if carries_sums and new.is_scan else None
        _write(each)
        if each.carries and not carry_sums(draft, new, ()):
            return None
        each.carries = None
    return new


def _write_slice_of_sum(draft: Draft, equation: Any) -> bool:
    """Writes a ``psum_scatter`` as a joined sum and its slice; returns False if none is joined."""
    params = equation.params
    names = params["axis_name"]
    names = tuple(names) if isinstance(names, (tuple, list)) else (names,)
    psum = jaxprs.psum_like(equation, names, params["axis_index_groups"])
    total = joined_psum(draft, psum)
    if total is None:
        return False
    draft.append(equation.replace(primitive=part_p, invars=[total], effects=frozenset()))
    return True


def joined_psum(draft: Draft, equation: Any) -> Atom | None:
    """Returns the joined sum that stands for a ``psum``; None if it stays as it is.

    A ``psum`` stays as it is if it adds integers, which it does not round, or complex numbers, or
    if it adds in groups of devices, or over an axis that is not an axis of the mesh.
    """
    if not draft.is_joinable(equation):
        return None
    (operand,) = equation.invars
    total = _summed(draft, operand, DeviceSum(tuple(equation.params["axes"]), equation))
    return total.atom if total.has_moved else None


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
    total = _pushed(draft, atom, over.along(tuple(varying))) if varying else None
    if total is None:
        total = Summed(draft.append_psum(atom, over), is_joined=False)
    elif rest:
        total = total._replace(atom=draft.append_psum(total.atom, over.along(rest)))
    draft.sums[key] = total
    return total


def _pushed(draft: Draft, atom: Atom, over: DeviceSum) -> Summed | None:
    """Returns the sum of a value, moved past the equation that computes it.

    Returns:
        None if no sum over devices is joined there, or the equation is in a scope that is not
        portable.
    """
    producer = draft.producers.get(atom)
    if producer is None:
        return _sum_of_input(draft, atom, over)
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
        return Summed(out, is_joined=True)
    if rule.linear == "each":
        operand = producer.invars[producer.outvars.index(atom)]
        return _pushed_to_operand(draft, operand, atom, over)
    operands = flow.passed(producer, lambda each: draft.is_replicated(each, over.axes))
    return _pushed_to_operands(draft, producer, atom, operands, over) if operands else None


def _pushed_to_operand(draft: Draft, operand: Atom, atom: Atom, over: DeviceSum) -> Summed | None:
    """Returns the sum of a result that equals an operand; None if it is not joined.

    With ``check_vma``, types tell over which axes a value varies, and ``psum`` takes only a value
    that varies over its axes. So the type of the operand has to vary where the result's type does.
    """
    if jaxprs.is_literal(operand):
        return None
    if not jaxprs.varying(operand.aval) >= jaxprs.varying(atom.aval) & set(over.axes):
        return None
    total = _summed(draft, operand, over)
    return total if total.has_moved else None


def _pushed_to_operands(
    draft: Draft, equation: Any, atom: Atom, operands: Sequence[int], over: DeviceSum
) -> Summed | None:
    """Returns the linear result for the sums of operands; None if no sum is joined.

    The sum of an integer is exact, so it need not be joined.
    """
    sums = {i: _summed(draft, equation.invars[i], over) for i in operands}
    are_exact = [jnp.issubdtype(equation.invars[i].aval.dtype, jnp.integer) for i in operands]
    if not any(are_exact) and not any(total.has_moved for total in sums.values()):
        return None
    outs = [draft.summed_variable(out, over.axes) for out in equation.outvars]
    new = _with_sums(draft, equation.invars, sums, over)
    draft.append(equation.replace(invars=new, outvars=outs))
    total = Summed.of(outs[equation.outvars.index(atom)], sums.values())
    return total._replace(is_joined=total.is_joined or any(are_exact))


def _with_sums(
    draft: Draft, operands: Sequence[Atom], sums: Mapping[int, Summed], over: DeviceSum
) -> list[Atom]:
    """Returns operands, with sums in place of some of them."""
    return [
        sums[i].atom if i in sums else draft.typed_replicated(operand, over)
        for i, operand in enumerate(operands)
    ]


def _joined_operation(draft: Draft, equation: Any, over: DeviceSum) -> Summed:
    """Returns the sum over devices of an operation that adds elements, as one joined sum.

    Along axes over which its operands are terms already, the sum moves on to the operands. If that
    holds for all axes, the operation itself stays as it is.
    """
    operands, rest = list(equation.invars), list(over.axes)
    shardings = [draft.sharding(each) for each in operands]
    moved: list[Summed] = []
    passes = flow.having_terms(equation, shardings, over.axes, draft.producers)
    for chosen, axes in passes.items():
        sums = {i: _summed(draft, operands[i], over.along(axes)) for i in chosen}
        if any(total.has_moved for total in sums.values()):
            operands = _with_sums(draft, operands, sums, over.along(axes))
            rest = [axis for axis in rest if axis not in axes]
            moved += sums.values()
    out = draft.summed_variable(equation.outvars[0], over.axes)
    operation = equation.replace(invars=operands, outvars=[out])
    if rest:
        draft.append(as_whole(operation, over.like, tuple(rest)))
        return Summed(out, is_joined=True)
    draft.append(operation)
    return Summed.of(out, moved)


def _pushed_into_bodies(
    draft: Draft, nest: NestDraft, atom: Atom, over: DeviceSum
) -> Summed | None:
    """Returns the sum of an output of a nest as another output; None if no body joins its sum.

    A sum over devices waits for all of them. So no sum moves into a ``while``, where devices may
    stop at different iterations, nor into a branch that other devices may not take.
    """
    position = nest.equation.outvars.index(atom)
    if nest.is_scan:
        return _pushed_into_scan(draft, nest, position, over)
    if nest.bodies[0].runs == "loop":
        return None
    if nest.bodies[0].runs == "branch":
        choice = nest.equation.invars[control_flow.CHOICE]
        if not draft.is_replicated(choice, over.axes):
            return None
    sums = [_summed(body, body.outputs[position], over) for body in nest.drafts]
    if not any(total.has_moved for total in sums):
        return None
    for body, total in zip(nest.drafts, sums, strict=True):
        body.outputs.append(total.atom)
    out = _added_output(draft, nest, len(nest.equation.outvars), atom, over)
    return Summed.of(out, sums)


def _pushed_into_scan(
    draft: Draft, nest: NestDraft, position: int, over: DeviceSum
) -> Summed | None:
    """Returns the sum of an output of a scan, which carries the sums that it needs.

    In the body, the sum of a carried input is a new carried input. So the sum of ``carry + term``
    is the new input plus the sum of ``term``, which may be joined. If a carried value is computed
    from other carried values, the scan carries their sums, too.

    Returns:
        None if no sum is joined, neither in the body nor before the scan.
    """
    (body,) = nest.drafts
    others, body.sums, body.carries = body.sums, {}, {}
    own: list[Summed] = []
    if position < nest.carried:
        body.sum_to_carry(position, over)
    else:
        own = [_summed(body, body.outputs[position], over)]
    old = nest.equation.outvars[position]
    outs = carry_sums(draft, nest, own)
    body.carries, body.sums = None, others
    if outs is None:
        return None
    for total in own:
        body.outputs.append(total.atom)
        end = len(nest.equation.outvars)
        outs[position, over.axes] = _added_output(draft, nest, end, old, over)
    return Summed(outs[position, over.axes], is_joined=True)


def carry_sums(
    draft: Draft, nest: NestDraft, others: Sequence[Summed]
) -> dict[tuple[int, Names], Atom] | None:
    """Lets a scan carry the sums of carried values for which its body asked.

    Args:
        draft: The draft with the scan.
        nest: The scan.
        others: Further sums of the body, one of which may be joined.

    Returns:
        The sums after the scan; None if no sum is joined, neither in the body nor before the scan.
    """
    (body,) = nest.drafts
    carries, pairs = body.carries or {}, list[tuple[Summed, Summed]]()
    # The sum of a carried value may ask for the sums of further ones.
    while len(pairs) < len(carries):
        (number, _), (_, over) = list(carries.items())[len(pairs)]
        first = nest.equation.invars[nest.constants + number]
        pairs.append((_summed(draft, first, over), _summed(body, body.outputs[number], over)))
    if not any(each.is_joined for each in (*others, *itertools.chain(*pairs))):
        return None
    outs = dict[tuple[int, Names], Atom]()
    for (key, (new, over)), (before, after) in zip(carries.items(), pairs, strict=True):
        at = nest.constants + nest.carried
        body.inputs.insert(at, new)
        body.outputs.insert(nest.carried, after.atom)
        nest.add_operand(at, before.atom)
        like = nest.equation.outvars[key[0]]
        outs[key] = _added_output(draft, nest, nest.carried, like, over)
        nest.carried += 1
    return outs


def _sum_of_input(draft: Draft, atom: Atom, over: DeviceSum) -> Summed | None:
    """Returns the sum of an input of a body as another input; None if it is not joined outside.

    A constant of a scan, a slice, and an operand of a branch or a checkpoint get the sum of the
    operand outside. A carried value gets a sum that is carried, while a sum moves into the scan.
    """
    nest, around = draft.nest, draft.around
    if nest is None or around is None or atom not in draft.inputs:
        return None
    at = draft.inputs.index(atom)
    carry = range(nest.constants, nest.constants + nest.carried)
    if nest.is_scan and at in carry:
        new = draft.sum_to_carry(at - nest.constants, over)
        return new and Summed(new, is_joined=False, is_carried=True)
    if any(body.is_test for body in nest.bodies):
        return None
    first = 1 + control_flow.CHOICE if nest.bodies[0].runs == "branch" else 0
    total = _summed(around, nest.equation.invars[first + at], over)
    if not total.has_moved:
        return None
    # Constants come first, and slices last.
    new_at = nest.constants if nest.is_scan and at < nest.constants else len(draft.inputs)
    new = draft.summed_variable(atom, over.axes)
    for body in nest.drafts:
        body.inputs.insert(new_at, new if body is draft else body.summed_variable(atom, over.axes))
    nest.add_operand(first + new_at, total.atom)
    if nest.is_scan and at < nest.constants:
        nest.constants += 1
    return total._replace(atom=new)


def _added_output(
    draft: Draft, nest: NestDraft, position: int, like: Atom, over: DeviceSum
) -> Atom:
    """Returns a new output of a nest, for the sum of one of its outputs."""
    new = draft.summed_variable(like, over.axes)
    nest.add_output(position, new)
    draft.producers[new] = nest
    return new


def _lower_whole(
    context: Any, *operands: Any, name: str, params: Any, axis_names: Names, result: Any
) -> Any:
    """Lowers a joined sum of elements that are sharded over the mesh axes ``axis_names``."""
    del result
    record, target = RULES[name], Target.of(context)
    over_devices: Any = record.over_devices
    keywords = {**dict(params), "axis_names": axis_names, **record.keywords(target)}
    function = functools.partial(over_devices, **keywords)

    def run(*operands: jax.Array) -> jax.Array:
        result: jax.Array = fence(function(*operands))
        return result

    rule = engines.Lowered(context, run, multiple_results=False)
    operands = tuple(shared.sealed(context, operands))
    with (
        arithmetic.wide(),
        arithmetic.where_subnormals(are_kept=target.flushes),
        lowering.without_varying_types(lowering.natively(context)) as own,
    ):
        return rule(own, *operands)


mlir.register_lowering(draft.whole_p, _lower_whole)
mlir.register_lowering(draft.same_p, lambda _, value, **__: [value])


def _part(
    value: jax.Array, *, axis_name: Any, axis_size: int, scatter_dimension: int, tiled: bool
) -> jax.Array:
    """Returns the slice that ``psum_scatter`` gives this device, of the whole sum."""
    size = value.shape[scatter_dimension] // axis_size
    start = lax.axis_index(axis_name) * size
    part = lax.dynamic_slice_in_dim(value, start, size, scatter_dimension)
    return part if tiled else lax.squeeze(part, (scatter_dimension,))


def _lower_part(context: Any, value: Any, *, axis_index_groups: None, **params: Any) -> Any:
    """Lowers the slice of a sum; a sum in groups of devices is not joined."""
    del axis_index_groups
    rule = mlir.lower_fun(functools.partial(_part, **params), multiple_results=False)
    return rule(lowering.natively(context), value)


mlir.register_lowering(draft.part_p, _lower_part)


def asks_for_portable(jaxpr: Any) -> bool:
    """Returns whether a scope inside of a jaxpr asks for the guarantee ``portable``."""
    for equation in jaxprs.opened(jaxpr).eqns:
        mode: Mode | None = tags.of(equation)
        if mode is not None and mode.portable:
            return True
        if any(map(asks_for_portable, every_jaxpr(equation))):
            return True
    return False


def with_joined_sums(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a ``shard_map``, with joined sums in its body.

    Args:
        params: The parameters of its equation.

    Returns:
        The parameters as they are, if neither the mode nor a scope inside asks for ``portable``. A
        sum over one device is joined too: where it stands, it would make 0 of -0.
    """
    if not (modes.current().portable or asks_for_portable(params["jaxpr"])):
        return dict(params)
    mesh, jaxpr = params["mesh"], params["jaxpr"]
    own = params["newly_manual_axes"]
    # The specs of a shard_map say nothing about the axes of a shard_map around it.
    outer = set(mesh.manual_axes) - own
    sizes = {name: size for name, size in mesh.shape.items() if name in own | outer}
    inputs: list[Sharding] = []
    for spec in params["in_specs"]:
        dimensions = jaxprs.cut_axes(spec).items()
        inputs.append({**unknown(outer), **{axis: d for axis, d in dimensions if axis in own}})
    new = rewritten(jaxprs.opened(jaxpr), inputs, sizes)
    return {**params, "jaxpr": jaxprs.reclosed(jaxpr, new)}

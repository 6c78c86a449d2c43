"""Rewrites the body of a ``shard_map``: the equations stay in their order, the sums move.

``push`` moves each ``psum``. A scan, a condition or a checkpoint is rewritten with its bodies, and
a ``psum_scatter`` becomes a joined sum and its slice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from impl._jax import jaxprs
from impl._mode import modes
from impl._portable.device_sums import push
from impl._portable.device_sums.draft import PSUMS, Draft, NestDraft, part_p
from impl._portable.device_sums.flow import Flow, Nest
from impl._portable.device_sums.shardings import Sharding

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
    if name in PSUMS:
        total = push.joined_psum(draft, equation)
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
        if each.carries and not push.carry_sums(draft, new, ()):
            return None
        each.carries = None
    return new


def _write_slice_of_sum(draft: Draft, equation: Any) -> bool:
    """Writes a ``psum_scatter`` as a joined sum and its slice; returns False if none is joined."""
    params = equation.params
    names = params["axis_name"]
    names = tuple(names) if isinstance(names, (tuple, list)) else (names,)
    psum = jaxprs.psum_like(equation, names, params["axis_index_groups"])
    total = push.joined_psum(draft, psum)
    if total is None:
        return False
    draft.append(equation.replace(primitive=part_p, invars=[total], effects=frozenset()))
    return True

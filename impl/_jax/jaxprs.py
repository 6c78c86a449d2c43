"""Jaxprs that impl rewrites while JAX lowers a program: variables, types and equations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax._src import core
from jax._src.interpreters import pxla
from jax._src.lax.parallel import psum_p
from jax._src.state.types import RefEffect


def opened(jaxpr: Any) -> Any:
    """Returns a jaxpr without its constants."""
    return getattr(jaxpr, "jaxpr", jaxpr)


def constants(jaxpr: Any) -> dict[Any, Any]:
    """Returns the values of the constants of a jaxpr, by their variables."""
    return dict(zip(opened(jaxpr).constvars, getattr(jaxpr, "consts", ()), strict=False))


def reclosed(old: Any, new: Any) -> Any:
    """Returns ``new`` with the constants of ``old``, if ``old`` is a closed jaxpr."""
    return new if opened(old) is old else old.replace(jaxpr=new)


def without_refs(closed: Any) -> Any:
    """Returns a program whose mutable arrays are values, as JAX does before it lowers a program.

    Its mutable arguments become values, and additional outputs.
    """
    has_refs = any(
        isinstance(effect, (RefEffect, core.InternalMutableArrayEffect))
        for effect in closed.effects
    )
    return pxla._discharge_refs(closed)[0] if has_refs else closed  # noqa: SLF001  # No other way.


def is_literal(atom: Any) -> bool:
    """Returns whether an operand is a literal."""
    return isinstance(atom, core.Literal)


def variable(aval: Any) -> Any:
    """Returns a new variable of a type."""
    return core.Var(aval)


def varying(aval: Any) -> frozenset[str]:
    """Returns the mesh axes over which a type varies."""
    axes = getattr(aval, "manual_axis_type", None)
    return frozenset() if axes is None else frozenset(axes.varying)


def invariant(aval: Any, axes: Sequence[str]) -> Any:
    """Returns a type that does not vary over some mesh axes, and is otherwise the same."""
    if not varying(aval) & set(axes):
        return aval
    remaining = type(aval.manual_axis_type)(varying=varying(aval) - set(axes))
    return aval.update(manual_axis_type=remaining)


def varying_as(aval: Any, like: Any) -> Any:
    """Returns a type that varies over the mesh axes of another one, and is otherwise the same."""
    if varying(aval) >= varying(like):
        return aval
    both = type(like.manual_axis_type)(varying=varying(aval) | varying(like))
    return aval.update(manual_axis_type=both)


def stacked(aval: Any, length: int) -> Any:
    """Returns the type of values as a scan stacks them, one for each iteration."""
    return core.unmapped_aval(length, 0, aval)


def psum_like(equation: Any, axes: Sequence[str], groups: Any) -> Any:
    """Returns a sum over mesh axes in place of an equation, with its operand and its output."""
    params = {"axes": tuple(axes), "axis_index_groups": groups}
    return equation.replace(primitive=psum_p, params=params)


def named_axes(equation: Any) -> frozenset[str] | None:
    """Returns the mesh axes that an equation communicates over; None if it has other effects."""
    effects = [getattr(effect, "name", None) for effect in equation.effects]
    named = [name for name in effects if isinstance(name, str)]
    return frozenset(named) if len(named) == len(effects) else None


def cut_axes(spec: jax.sharding.PartitionSpec) -> dict[str, int]:
    """Returns the dimension that each mesh axis of a ``PartitionSpec`` shards."""
    names: dict[str, int] = {}
    for dimension, part in enumerate(spec):
        for name in part if isinstance(part, tuple) else (part,):
            if isinstance(name, str):
                names[name] = dimension
    return names


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """Returns the numbers of constants and of carried values of a scan, its first operands."""
    if "num_consts" in params:
        return int(params["num_consts"]), int(params["num_carry"])
    constants, carried, _ = params["ft_in"].unpack()  # jax 0.12 and later
    return len(constants), len(carried)


def scan_with(
    params: Mapping[str, Any], jaxpr: Any, *, constants: int, carried: int, stacked: int
) -> dict[str, Any]:
    """Returns the parameters of a scan with another jaxpr."""
    if "num_carry" in params:
        return {**params, "jaxpr": jaxpr, "num_consts": constants, "num_carry": carried}
    from jax._src import flattree  # type: ignore[attr-defined]  # noqa: PLC0415  # jax 0.12 and later

    scanned = len(opened(jaxpr).invars) - constants - carried
    none = flattree.nones
    return {
        **params,
        "jaxpr": jaxpr,
        "ft_in": flattree.pack((none(constants), none(carried), none(scanned))),
        "ft_out": flattree.pack((none(carried), none(stacked))),
    }


def sorted_equations(items: Sequence[Any]) -> list[Any]:
    """Returns equations in an order in which each comes after the equations that it needs.

    This is a topological sort by a depth-first search, which keeps the given order where possible.
    """
    makers = {out: item for item in items for out in item.outvars}
    placed: dict[int, Any] = {}
    for item in items:
        stack = [item]
        while stack:
            top = stack[-1]
            if id(top) in placed:
                stack.pop()
                continue
            needs = [makers.get(v) for v in top.invars if not is_literal(v)]
            missing = [n for n in needs if n is not None and id(n) not in placed]
            if missing:
                stack += missing[::-1]
            else:
                placed[id(stack.pop())] = top
    return list(placed.values())

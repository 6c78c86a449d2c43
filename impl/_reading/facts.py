"""Computes the facts of an equation of a JAX program that the rows of primitives ask for.

A row of the kind ``primitive`` has conditions, such as ``unique_indices = true``: whether it is
about an equation depends on the equation's parameters, on shapes, and in part on values. The
lowering rules and the audit both ask here, so that they agree. A rule knows shapes and parameters.
The audit also knows some values, such as indices that are an iota, and passes them as ``Operands``.

For the equation of ``x.at[jnp.arange(9)].add(u)``, with a float32 ``x``, a rule gets::

    {"dtype": "floating", "timed_kernels": True, "unique_indices": False, "one_update": False,
     "iota_indices": False, "same_value": False, "applies_function": False,
     "ordered_path_fits": True}

and the audit gets the same with ``iota_indices`` true: the values show that no element gets two
updates, so the result cannot depend on their order. ``spec/facts.toml`` defines each fact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import spec
from impl._jax import jaxprs, shardings
from impl._kernels.launch import MAX_ELEMENTS
from impl._reading.control_flow import every_jaxpr
from impl._reading.values import Operands

#: The scatters: the operands are the array, the indices and the updates.
SCATTERS = frozenset(
    {"scatter", "scatter-add", "scatter-sub", "scatter-mul", "scatter-min", "scatter-max"}
)
POOLS = frozenset({"select_and_scatter_add"})
_KERNELS = frozenset({"pallas_call"})
_RESHARDINGS = frozenset({"relayout", "reshard"})
#: The largest number of elements whose indices are compared one by one.
_LARGEST = 2**24


def facts_of(
    name: str,
    avals: Sequence[Any],
    params: Mapping[str, Any],
    values: Operands | None = None,
    *,
    timed_kernels: bool = True,
) -> dict[str, spec.FactValue]:
    """Returns the facts of one equation.

    Without ``values``, nothing is known of its operands' values. With ``timed_kernels``, XLA may
    pick kernels by timing when it compiles the program.
    """
    stated: dict[str, spec.FactValue] = {"dtype": _kind(avals), "timed_kernels": timed_kernels}
    if name in SCATTERS:
        stated |= {
            "unique_indices": bool(params["unique_indices"]),
            "one_update": has_one_update(avals, params["dimension_numbers"]),
            "iota_indices": values is not None and _are_distinct(avals, params, values),
            "same_value": values is not None and _is_same_value(avals, params, values),
            "applies_function": name == "scatter" and _applies(params.get("update_jaxpr")),
            "ordered_path_fits": _fits(avals),
        }
    elif name in POOLS:
        stated["ordered_path_fits"] = _fits(avals)
        stated["overlapping"] = any(
            stride < window
            for window, stride in zip(
                params["window_dimensions"], params["window_strides"], strict=True
            )
        )
    elif name in _KERNELS:
        stated["float_atomics"] = _has_float_atomics(params["jaxpr"])
    elif name in _RESHARDINGS:
        stated["unreduced"] = any(map(shardings.is_unreduced, avals))
    return stated


def has_one_update(avals: Sequence[Any], numbers: Any) -> bool:
    """Returns whether a scatter writes at most one window into each part of a batch."""
    operand, indices, updates = avals
    batch = set(numbers.scatter_indices_batching_dims)
    # A symbolic size can be any number.
    lengths = [s for axis, s in enumerate(indices.shape[:-1]) if axis not in batch]
    if all(isinstance(length, int) and length <= 1 for length in lengths):
        return True
    sizes = (*operand.shape, *indices.shape, *updates.shape)
    return any(isinstance(size, int) and size == 0 for size in sizes)


def _fits(avals: Sequence[Any]) -> bool:
    """Returns whether the ordered path can count the elements of arrays."""
    known = all(isinstance(size, int) for aval in avals for size in aval.shape)
    return known and max(math.prod(aval.shape) for aval in avals) <= MAX_ELEMENTS


def _kind(avals: Sequence[Any]) -> str:
    """Returns the most general kind of number among the operands."""
    kinds = {_kind_of(aval.dtype) for aval in avals if hasattr(aval, "dtype")}
    order = ("complex", "floating", "integer", "bool")
    return next((kind for kind in order if kind in kinds), "integer")


def _kind_of(dtype: Any) -> str:
    if jnp.issubdtype(dtype, jax.dtypes.extended):
        return "integer"  # Keys hold integers.
    for kind, parent in (("complex", jnp.complexfloating), ("floating", jnp.floating)):
        if jnp.issubdtype(dtype, parent):
            return kind
    return "bool" if dtype == np.dtype(bool) else "integer"


def _applies(update: Any) -> bool:
    """Returns whether a scatter applies a function to elements (``.at[].apply``).

    The function does not read the updates. An assignment is a scatter with an empty jaxpr.
    """
    if update is None:
        return False
    jaxpr = jaxprs.opened(update)
    return bool(jaxpr.eqns) and jaxpr.invars[1] not in {
        variable
        for equation in jaxpr.eqns
        for variable in equation.invars
        if not jaxprs.is_literal(variable)
    }


def _are_distinct(avals: Sequence[Any], params: Mapping[str, Any], values: Operands) -> bool:
    """Returns whether the known indices show that no element gets two updates."""
    operand, indices, updates = avals
    numbers = params["dimension_numbers"]
    sizes = (*operand.shape, *indices.shape, *updates.shape)
    if not all(isinstance(size, int) for size in sizes) or indices.size > _LARGEST:
        return False
    axes = numbers.scatter_dims_to_operand_dims
    windows = _windows(operand.ndim, updates.shape, numbers)
    clips = "CLIP" in str(params["mode"]).upper()
    known = [
        (column, axis)
        for column, axis in zip(values.columns(1), axes, strict=True)
        if column is not None
    ]
    offsets = math.prod(windows[axis] for _, axis in known)
    if not known or offsets * math.prod(indices.shape[:-1]) > _LARGEST:
        return False
    # One number for each element: its indices along the batch axes, then along the known axes.
    batch = list(numbers.scatter_indices_batching_dims)
    shape = indices.shape[:-1]
    total = np.zeros((math.prod(shape), 1), np.int64)
    for axis in batch:
        total = total * shape[axis] + np.indices(shape)[axis].reshape(-1, 1)
    inside = np.ones((math.prod(shape), 1), bool)
    for column, axis in known:
        start = np.broadcast_to(column, shape).astype(np.int64).reshape(-1, 1)
        last = operand.shape[axis] - windows[axis]
        if clips:
            start = np.clip(start, 0, last)
        inside &= (start >= 0) & (start <= last)
        elements = (start + np.arange(windows[axis]))[:, None, :]
        total = (total[:, :, None] * operand.shape[axis] + elements).reshape(len(total), -1)
    total = total[inside[:, 0]].reshape(-1)
    return len(np.unique(total)) == len(total)


def _is_same_value(avals: Sequence[Any], params: Mapping[str, Any], values: Operands) -> bool:
    """Returns whether all updates of an element are known to be equal."""
    operand, _, updates = avals
    numbers = params["dimension_numbers"]
    absent = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    present = [axis for axis in range(operand.ndim) if axis not in absent]
    whole = {
        axis
        for axis, target in zip(numbers.update_window_dims, present, strict=True)
        if target not in numbers.scatter_dims_to_operand_dims
    }
    return values.is_constant(2, [axis for axis in range(updates.ndim) if axis not in whole])


def _windows(ndim: int, updates: Sequence[int], numbers: Any) -> list[int]:
    """Returns the length of a scatter's window along each axis of the operand."""
    absent = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    lengths = iter([updates[axis] for axis in numbers.update_window_dims])
    return [1 if axis in absent else next(lengths) for axis in range(ndim)]


def _has_float_atomics(kernel: Any) -> bool:
    """Returns whether a Pallas kernel adds floats with atomics, or swaps, which can add them too.

    Extremes and sums of integers are the same in every order.
    """
    return any(
        _is_racing_atomic(equation) or any(map(_has_float_atomics, every_jaxpr(equation)))
        for equation in jaxprs.opened(kernel).eqns
    )


def _is_racing_atomic(equation: Any) -> bool:
    if "atomic" not in equation.primitive.name:
        return False
    kind = str(getattr(equation.params.get("atomic_type"), "value", equation.primitive.name))
    if kind in ("max", "min", "and", "or", "xor"):
        return False
    dtypes = [out.aval.dtype for out in equation.outvars if hasattr(out.aval, "dtype")]
    return kind != "add" or any(_kind_of(dtype) in ("floating", "complex") for dtype in dtypes)

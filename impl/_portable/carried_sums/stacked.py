"""Sums whose factors a ``scan`` stacks: one operation after the loop, on the terms of all steps.

The exact sum of ``x.T @ y`` over the iterations is one product of the stacked ``x`` and ``y``. A
state (``impl._exact.unrounded``) has the same bits and costs more: it takes three products of
float64, where one suffices here::

    x:f32[4,128,64], y:f32[4,128,192]       4 iterations, as the scan stacks them
    dot_general[(([0, 1], [0, 1]), ...)]    one sum of 512 terms for each of 64 * 192 elements

The stacked factors take memory, which micro-batches are meant to save. So ``chosen`` stacks them
only where they take no more than the states of the same sums would (``BYTES_OF_SUM``), with the
float64 of one operation at a time if the engine makes copies. Factors of a product grow with the
rows of all micro-batches, and states with the weights: of 32 layers of 4,096 inputs and outputs,
46,000 rows are stacked, and 49,000 without copies.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax import lax

from impl import _jax
from impl._jax import jaxprs
from impl._portable.carried_sums.plan import Atom, Total
from impl._portable.carried_sums.write import Along, Factors
from impl._portable.device_sums.draft import whole_p

#: The temporary memory of a scan that carries states, for each sum, as XLA for CPUs plans it: the
#: states of 24 bytes, the totals of a second count, and copies of both. Calls of the engine
#: ``native`` make no copies, and need 64.
BYTES_OF_SUM = 96
#: The bytes of a float64, in which factors are multiplied.
_WIDE = 8


def chosen(
    candidates: Sequence[Factors],
    sums: Mapping[Total, int],
    length: int,
    free: Sequence[Atom],
    *,
    are_copied: bool,
) -> list[Factors]:
    """Returns the factors that a scan stacks: they take no more memory than states would.

    Operations with few bytes for each sum come first. The memory that they save is left for the
    next ones, such as the gradient of a bias, whose one operand may be stacked already: ``free``
    variables take no memory. ``sums`` is the number of sums of each operation, which may copy its
    factors to float64.
    """
    taken: set[Atom] = {*free}
    waiting = [each for each in candidates if _with_more_terms(each.total.equation, each.atoms)]
    order: list[Factors] = []
    stacked, widest, allowed, number = 0, 0, 0, 0

    def bytes_of(each: Factors) -> int:
        new = {atom for atom in each.atoms if atom is not None} - taken
        return sum(length * math.prod(a.aval.shape) * a.aval.dtype.itemsize for a in new)

    while waiting:
        first = min(waiting, key=lambda each: bytes_of(each) / sums[each.total])
        waiting.remove(first)
        order.append(first)
        stacked += bytes_of(first)
        if are_copied:
            widest = max(widest, _wide_bytes(first, length))
        allowed += BYTES_OF_SUM * sums[first.total]
        taken.update(atom for atom in first.atoms if atom is not None)
        if stacked + widest <= allowed:
            number = len(order)
    return order[:number]


def _wide_bytes(factors: Factors, length: int) -> int:
    """Returns the bytes of the factors of an operation, as float64, for one layer."""
    elements = 0
    for atom in factors.atoms:
        if atom is not None:
            pairs = zip(("own", *factors.along), (1, *atom.aval.shape), strict=False)
            layers = math.prod(size for along, size in pairs if along == "each")
            elements += math.prod(atom.aval.shape) // layers
    return _WIDE * length * elements


def total(factors: Factors, operands: Sequence[jax.Array | None]) -> jax.Array:
    """Returns the rounded sums of an operation, from the operands of all iterations.

    Args:
        factors: The operation, and what the leading axes of its operands are.
        operands: The stacked operands, with the axis of the outermost loop first; None for zeros.

    Returns:
        The sums. For each loop that has a sum in each iteration, they have a leading axis.
    """
    along: tuple[Along, ...] = ("sum", *factors.along)
    summed, apart = (
        [i for i, each in enumerate(along) if each == kind] for kind in ("sum", "each")
    )
    equation = factors.total.equation
    new = _with_more_terms(equation, factors.atoms)
    assert new is not None  # noqa: S101  # ``chosen`` has asked.

    def ordered(operand: jax.Array) -> jax.Array:
        rest = range(len(along), operand.ndim)
        moved = lax.transpose(operand, (*apart, *summed, *rest))
        sizes = moved.shape[: len(apart)], moved.shape[len(along) :]
        terms = math.prod(moved.shape[len(apart) : len(along)])
        return lax.reshape(moved, (*sizes[0], terms, *sizes[1]))

    present = [ordered(each) for each in operands if each is not None]

    def one(present: Sequence[jax.Array]) -> jax.Array:
        rest = iter(present)
        own = [
            lax.full(atom.aval.shape, 0, atom.aval.dtype) if each is None else next(rest)
            for each, atom in zip(operands, equation.invars, strict=True)
        ]
        return new(own)

    function: Callable[[Sequence[jax.Array]], jax.Array] = one
    for _ in apart:  # One layer after the other has its factors in float64.
        function = functools.partial(lax.map, function)
    return function(present)


def _with_more_terms(
    equation: Any, atoms: Sequence[Atom | None]
) -> Callable[[Sequence[jax.Array]], jax.Array] | None:
    """Returns an operation on operands with a new first axis, over which it adds as well.

    It is None if the operation has no such form. Atoms of None are zeros, which have no new axis.
    """
    name, _ = _operation(equation)
    # A scatter adds to zeros, and no other operand is zeros.
    are_zeros = [name == "scatter-add" and i == 0 for i in range(len(atoms))]
    is_literal = any(atom is not None and jaxprs.is_literal(atom) for atom in atoms)
    if name not in _FORMS or is_literal or are_zeros != [atom is None for atom in atoms]:
        return None
    function: Callable[[Sequence[jax.Array]], jax.Array] = _FORMS[name](equation)
    return function


def _operation(equation: Any) -> tuple[str, Mapping[str, Any]]:
    """Returns the name and the parameters of an operation, of one device or of several."""
    if equation.primitive is whole_p:
        return equation.params["name"], dict(equation.params["params"])
    return str(equation.primitive.name), equation.params


def _evaluated(equation: Any, operands: Sequence[jax.Array], **params: Any) -> jax.Array:
    """Returns the result of an operation with other parameters."""
    if equation.primitive is whole_p:
        params = {"params": tuple({**_operation(equation)[1], **params}.items())}
    new = equation.replace(params={**equation.params, **params})
    result: jax.Array = _jax.evaluated(new, operands)[0]
    return result


def _product(equation: Any) -> Any:
    contracted, batch = _operation(equation)[1]["dimension_numbers"]
    numbers = tuple((0, *_after(axes)) for axes in contracted), tuple(map(_after, batch))
    return functools.partial(_evaluated, equation, dimension_numbers=numbers)


def _sum(equation: Any) -> Any:
    axes = _operation(equation)[1]["axes"]
    return functools.partial(_evaluated, equation, axes=(0, *_after(axes)))


def _scatter(equation: Any) -> Any:
    numbers = _operation(equation)[1]["dimension_numbers"]
    numbers = numbers._replace(
        update_window_dims=_after(numbers.update_window_dims),
        scatter_indices_batching_dims=_after(numbers.scatter_indices_batching_dims),
    )
    return functools.partial(
        _evaluated,
        equation,
        dimension_numbers=numbers,
        indices_are_sorted=False,
        unique_indices=False,
    )


def _convolution(equation: Any) -> Any:
    _, params = _operation(equation)
    numbers, groups = params["dimension_numbers"], params["feature_group_count"]

    def function(operands: Sequence[jax.Array]) -> jax.Array:
        images, kernel = operands
        return _evaluated(
            equation,
            [_merged(images, numbers.lhs_spec[1], groups), _merged(kernel, numbers.rhs_spec[1], 1)],
        )

    return function


def _merged(operand: jax.Array, axis: int, groups: int) -> jax.Array:
    """Returns an operand whose first axis is a part of each group of another one."""
    terms, *shape = operand.shape
    before, own, after = shape[:axis], shape[axis], shape[axis + 1 :]
    parts = lax.reshape(operand, (terms, *before, groups, own // groups, *after))
    order = (*range(1, 2 + axis), 0, *range(2 + axis, parts.ndim))
    return lax.reshape(lax.transpose(parts, order), (*before, terms * own, *after))


def _after(axes: Sequence[int]) -> tuple[int, ...]:
    """Returns axes of an array as axes of one with a new first axis."""
    return tuple(axis + 1 for axis in axes)


#: Further terms are further contracted dimensions, summed axes, updates, or features.
_FORMS: Mapping[str, Callable[[Any], Any]] = {
    "conv_general_dilated": _convolution,
    "dot_general": _product,
    "reduce_sum": _sum,
    "scatter-add": _scatter,
}

"""Rules of sharding: the shardings of the results of an operation, given its operands'.

A function of this module is the rule of one primitive, or of several. The records of primitives
name it: ``impl._portable.rules`` has them. Each function takes an equation of the body of a
``shard_map`` and the shardings of its operands, and returns the shardings of its results. They are
the transfer functions of an abstract interpretation (Cousot and Cousot 1977,
doi:10.1145/512950.512973), whose abstract values ``shardings`` defines. With ``x`` sharded over the
mesh axis ``d``, and ``w`` replicated::

    y:f32[8,3] = dot_general x w      {"d": 0}          rows of y lie on different devices
    s:f32[3] = reduce_sum y           {"d": TERM}       each device has a term of s
    t:f32[3] = div s 8.0              {"d": TERM}       a division is linear
    u:f32[3] = mul s s                {"d": UNKNOWN}    the square of a sum is no sum of squares
    v:f32[3] = psum[axes=("d",)] t    {}                replicated
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from impl._portable.device_sums.shardings import (
    TERM,
    UNKNOWN,
    Kind,
    Part,
    Sharding,
    combined,
    contracted,
    moved,
    unknown,
    with_dimension,
    without_dimension,
)

# Elementwise operations.


def each_operand(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """Result number i has the sharding of operand number i."""
    return [dict(operand) for operand, _ in zip(operands, equation.outvars, strict=True)]


def add(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """A sum of terms is a term of a sum, if all operands that are not replicated are terms."""
    return [combined(operands, linear=lambda _: True) for _ in equation.outvars]


def multiply(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """A product is a term if one factor is a term, and the other one is replicated."""
    del equation
    return [combined(operands, linear=lambda axis: sum(axis in each for each in operands) == 1)]


def divide(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """A term divided by a replicated divisor is a term."""
    del equation
    return [combined(operands, linear=lambda axis: axis not in operands[1])]


def select(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """A choice among terms is a term if the predicate, the first operand, is replicated."""
    del equation
    return [combined(operands, linear=lambda axis: axis not in operands[0])]


def convert(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """A term stays a term in floats. A conversion to integers or bools is not linear."""
    (operand,), (out,) = equation.invars, equation.outvars
    is_linear = operand.aval.dtype.kind != "b" and out.aval.dtype.kind in "fV"
    return [combined(operands, linear=lambda _: is_linear)]


# Operations that move elements.


def transpose(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """Dimensions are permuted."""
    targets = {old: new for new, old in enumerate(equation.params["permutation"])}
    return [moved(operands[0], targets)]


def broadcast(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """A dimension gets a new number, and is unknown where it gets a new length."""
    old, new = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    pairs = enumerate(equation.params["broadcast_dimensions"])
    return [moved(operands[0], {d: to for d, to in pairs if old[d] == new[to]})]


def _numbered_without(removed: Iterable[int], rank: int) -> dict[int, int]:
    """Returns the new number of each dimension after some are removed."""
    removed = {*removed}
    return {d: new for new, d in enumerate(d for d in range(rank) if d not in removed)}


def squeeze(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """Dimensions of length 1 are removed.

    ``pmap`` gives each device one row of [devices, rows, ...]. The axis that shards the removed
    dimension 0 then shards the rows of all devices together, which are the first that remain.
    """
    rank, new_rank = (len(atom.aval.shape) for atom in (*equation.invars, *equation.outvars))
    remaining = _numbered_without(equation.params["dimensions"], rank)
    leading = {d: 0 for d in range(rank) if new_rank and not any(r <= d for r in remaining)}
    return [moved(operands[0], leading | remaining)]


def reshape(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """A dimension becomes the new one that starts at the same element and has a fitting length.

    Among the new dimensions with the same product of lengths before them, the rule takes the first
    of the same length, or else the first whose length divides the old one or is divided by it: in
    [6, 4] -> [24] and [6, 4] -> [2, 3, 4], dimension 0 becomes dimension 0; in [6, 4] -> [4, 6] it
    becomes unknown.
    """
    old, new = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    targets: dict[int, int] = {}
    for dimension, size in enumerate(old):
        outer = math.prod(old[:dimension])
        starts = [d for d in range(len(new)) if math.prod(new[:d]) == outer] if size else []
        same = [d for d in starts if new[d] == size]
        parts = [d for d in starts if new[d] != 1 and (new[d] % size == 0 or size % new[d] == 0)]
        if same or parts:
            targets[dimension] = (same or parts)[0]
    return [moved(operands[0], targets)]


def keep_lengths(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """A dimension that keeps its length is assumed to keep its elements, as in a slice.

    If another operand, such as the start of a ``dynamic_slice``, is not replicated, the result is
    unknown.
    """
    old = equation.invars[0].aval.shape
    others = unknown(axis for operand in operands[1:] for axis in operand)
    results: list[Sharding] = []
    for out in equation.outvars:
        kept = {d: d for d, size in enumerate(out.aval.shape) if old[d] == size}
        results.append({**moved(operands[0], kept), **others})
    return results


def concatenate(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """Terms remain terms. The dimension along which operands are joined becomes unknown."""
    along = equation.params["dimension"]
    joined = combined(operands, linear=lambda _: True)
    return [{axis: UNKNOWN if part == along else part for axis, part in joined.items()}]


def stack(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """Terms remain terms. There is a new dimension."""
    joined = combined(operands, linear=lambda _: True)
    return [with_dimension(joined, equation.params["axis"])]


def unstack(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """Each result is a slice without one dimension."""
    return [without_dimension(operands[0], equation.params["axis"]) for _ in equation.outvars]


def dynamic_update_slice(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """The array and the update share dimensions of one length; the start has to be replicated."""
    both = combined(operands[:2], linear=lambda _: True)
    old, new = (atom.aval.shape for atom in equation.invars[:2])
    kept = {d: d for d, size in enumerate(old) if new[d] == size}
    start = unknown(axis for operand in operands[2:] for axis in operand)
    return [{**moved(both, kept), **start}]


def gather(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """The result has the dimensions of the indices, and whole dimensions of the array.

    Slices of terms are terms if the indices are replicated.
    """
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    source, index = (atom.aval.shape for atom in equation.invars[:2])
    rank = len(equation.outvars[0].aval.shape)
    batch = [d for d in range(rank) if d not in numbers.offset_dims]
    hidden = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    windows = [d for d in range(len(source)) if d not in hidden]
    of_source = {
        d: to for d, to in zip(windows, numbers.offset_dims, strict=True) if sizes[d] == source[d]
    }
    shared = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    of_source.update({d: batch[at] for d, at in shared})
    of_index = dict(zip(range(len(index) - 1), batch, strict=True))
    slices = [moved(operands[0], of_source), moved(operands[1], of_index)]
    return [combined(slices, linear=lambda axis: axis not in operands[1])]


# Operations that add elements, or find extremes.


def reduce_sum(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """A sum along a sharded dimension is a term of the sum over the devices."""
    axes, rank = equation.params["axes"], len(equation.invars[0].aval.shape)
    targets: dict[int, Part] = {**_numbered_without(axes, rank), **dict.fromkeys(axes, TERM)}
    return [moved(operands[0], targets)]


def reduce_extreme(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """Dimensions are removed. An extreme of terms is not a term."""
    remaining = _numbered_without(equation.params["axes"], len(equation.invars[0].aval.shape))
    results: list[Sharding] = []
    for operand, _ in zip(operands, equation.outvars, strict=False):
        plain = {axis: UNKNOWN if part is TERM else part for axis, part in operand.items()}
        results.append(moved(plain, remaining))
    return results


def dot_general(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """The result has the batch dimensions, then the free ones; contracted ones become terms."""
    contracting, batch = equation.params["dimension_numbers"]
    targets: list[dict[int, Part]] = []
    start = len(batch[0])
    for atom, summed, shared in zip(equation.invars, contracting, batch, strict=True):
        rank = len(atom.aval.shape)
        free = [d for d in range(rank) if d not in (*summed, *shared)]
        targets.append(
            {
                **dict.fromkeys(summed, TERM),
                **{d: new for new, d in enumerate(shared)},
                **{d: new for new, d in enumerate(free, start)},
            }
        )
        start += len(free)
    return [contracted(operands, targets)]


def convolution(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """Batches and features of the kernel stay; sums over input channels become terms.

    Groups, and sharded spatial dimensions, which need halos, make the result unknown.
    """
    params = equation.params
    numbers = params["dimension_numbers"]
    if params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
        return [contracted(operands, [{}, {}])]
    lhs, rhs, out = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    targets: list[dict[int, Part]] = [
        {lhs[0]: out[0], lhs[1]: TERM},
        {rhs[0]: out[1], rhs[1]: TERM},
    ]
    return [contracted(operands, targets)]


def scatter_add(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """Dimensions of windows stay dimensions of the array; sharded updates become terms."""
    numbers = equation.params["dimension_numbers"]
    array, index, updates = (len(atom.aval.shape) for atom in equation.invars)
    hidden = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    windows = [d for d in range(array) if d not in hidden]
    scattered = [d for d in range(updates) if d not in numbers.update_window_dims]
    shared = dict(
        zip(numbers.scatter_indices_batching_dims, numbers.operand_batching_dims, strict=True)
    )
    of_index: dict[int, Part] = {d: shared.get(d, TERM) for d in range(index - 1)}
    of_updates = {d: of_index[at] for at, d in enumerate(scattered)}
    of_updates |= dict(zip(numbers.update_window_dims, windows, strict=True))
    # Indices are not terms of a sum.
    indices = {a: UNKNOWN if isinstance(p, Kind) else p for a, p in operands[1].items()}
    terms = [operands[0], moved(indices, of_index), moved(operands[2], of_updates)]
    return [combined(terms, linear=lambda _: True)]


# Collectives.


def replicate(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """All devices along the named axes get the same value, unless each group of them gets one."""
    params = equation.params
    names = _names(params["axes"] if "axes" in params else params["axis_name"])
    if params.get("axis_index_groups") is not None:
        return [{**operand, **unknown(names)} for operand in operands]
    return [{a: part for a, part in operand.items() if a not in names} for operand in operands]


def reduce_scatter(equation: Any, operands: Sequence[Sharding]) -> list[Sharding]:
    """Each device along the named axes gets a slice of the sum."""
    params, rank = equation.params, len(equation.invars[0].aval.shape)
    along, is_tiled = params["scatter_dimension"], params["tiled"]
    is_sharded = is_tiled and params["axis_index_groups"] is None
    targets = {d: d for d in range(rank)} if is_tiled else _numbered_without((along,), rank)
    parts = dict.fromkeys(_names(params["axis_name"]), along if is_sharded else UNKNOWN)
    return [{**moved(operands[0], targets), **parts}]


def _names(axes: Any) -> Sequence[Any]:
    """Returns the mesh axes of a parameter, which may be a name alone."""
    return axes if isinstance(axes, (tuple, list)) else (axes,)

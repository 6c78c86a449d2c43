"""How an operation changes what each device of a ``shard_map`` has of a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

#: What a device has of a value, for each mesh axis along which devices may have different values:
#: the dimension that the axis cuts, ``TERM`` or ``OTHER``. Along an axis that is not in it, all
#: devices have the same value. Only that is a promise: cuts and terms are told where they are
#: plain, and ``OTHER`` may be either.
State: TypeAlias = Mapping[str, int]
#: Each device has one term of a sum over the axis.
TERM = -1
#: Devices have values of another kind.
OTHER = -2

#: Takes an equation and the states of its operands, and returns those of its outputs.
Rule: TypeAlias = Callable[[Any, Sequence[State]], list[State]]


def _joined(states: Sequence[State], *, linear: Callable[[str], bool]) -> State:
    """Returns the state of a result whose elements are those of operands at the same place.

    Args:
        states: The states of the operands.
        linear: Returns whether terms of a sum over an axis remain terms.
    """
    result: dict[str, int] = {}
    for axis in {axis for state in states for axis in state}:
        kinds = {state[axis] for state in states if axis in state}
        cuts = {kind for kind in kinds if kind >= 0}
        if len(cuts) == 1 and TERM not in kinds:
            (result[axis],) = cuts
        else:
            result[axis] = TERM if kinds == {TERM} and linear(axis) else OTHER
    return result


def elementwise(out: Any, equation: Any, operands: Sequence[State]) -> State:
    """Returns the state of an output of an operation that is not known."""
    shape = getattr(out.aval, "shape", None)
    shapes = [getattr(atom.aval, "shape", None) for atom in equation.invars]
    if all(each in (shape, ()) for each in shapes):
        return _joined(operands, linear=lambda _: False)
    return {axis: OTHER for state in operands for axis in state}


def _sum(equation: Any, operands: Sequence[State]) -> list[State]:
    return [_joined(operands, linear=lambda _: True) for _ in equation.outvars]


def _product(equation: Any, operands: Sequence[State]) -> list[State]:
    del equation
    return [_joined(operands, linear=lambda axis: sum(axis in s for s in operands) == 1)]


def _quotient(equation: Any, operands: Sequence[State]) -> list[State]:
    del equation
    return [_joined(operands, linear=lambda axis: axis not in operands[1])]


def _select(equation: Any, operands: Sequence[State]) -> list[State]:
    del equation
    return [_joined(operands, linear=lambda axis: axis not in operands[0])]


def _each(equation: Any, operands: Sequence[State]) -> list[State]:
    return [dict(state) for state, _ in zip(operands, equation.outvars, strict=True)]


def _convert(equation: Any, operands: Sequence[State]) -> list[State]:
    (operand,), (out,) = equation.invars, equation.outvars
    is_linear = operand.aval.dtype.kind != "b" and out.aval.dtype.kind in "fV"
    return [_joined(operands, linear=lambda _: is_linear)]


def _moved(state: State, places: Mapping[int, int]) -> State:
    """Returns a state after dimensions have moved, of which some may be gone."""
    return {a: d if d == TERM else places.get(d, OTHER) for a, d in state.items()}


def _transpose(equation: Any, operands: Sequence[State]) -> list[State]:
    places = {d: i for i, d in enumerate(equation.params["permutation"])}
    return [_moved(operands[0], places)]


def _broadcast(equation: Any, operands: Sequence[State]) -> list[State]:
    old, new = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    pairs = enumerate(equation.params["broadcast_dimensions"])
    return [_moved(operands[0], {d: to for d, to in pairs if old[d] == new[to]})]


def _kept(gone: Iterable[int], rank: int) -> dict[int, int]:
    gone = {d % rank for d in gone} if rank else set()
    return {d: i for i, d in enumerate(d for d in range(rank) if d not in gone)}


def _squeeze(equation: Any, operands: Sequence[State]) -> list[State]:
    rank, left = (len(atom.aval.shape) for atom in (*equation.invars, *equation.outvars))
    places = _kept(equation.params["dimensions"], rank)
    # pmap gives a device one row of [devices, rows, ...], which cuts the rows of all of them.
    first = {d: 0 for d in range(rank) if left and not any(kept <= d for kept in places)}
    return [_moved(operands[0], first | places)]


def _reshape(equation: Any, operands: Sequence[State]) -> list[State]:
    old, new = equation.invars[0].aval.shape, equation.outvars[0].aval.shape
    places: dict[int, int] = {}
    for dimension, size in enumerate(old):
        outer = math.prod(old[:dimension])
        at = [d for d in range(len(new)) if math.prod(new[:d]) == outer]
        same = [d for d in at if new[d] == size]
        parts = [d for d in at if new[d] != 1 and (new[d] % size == 0 or size % new[d] == 0)]
        if size and (same or parts):
            places[dimension] = (same or parts)[0]
    return [_moved(operands[0], places)]


def _reduce_sum(equation: Any, operands: Sequence[State]) -> list[State]:
    axes, rank = equation.params["axes"], len(equation.invars[0].aval.shape)
    places = {**_kept(axes, rank), **dict.fromkeys(axes, TERM)}
    return [_moved(operands[0], places)]


def _reduce(equation: Any, operands: Sequence[State]) -> list[State]:
    places = _kept(equation.params["axes"], len(equation.invars[0].aval.shape))
    states = [{a: OTHER if d == TERM else d for a, d in s.items()} for s in operands]
    return [_moved(state, places) for state, _ in zip(states, equation.outvars, strict=False)]


def _same_sizes(equation: Any, operands: Sequence[State]) -> list[State]:
    """Returns the states where a dimension that keeps its size is not cut by the operation."""
    old = equation.invars[0].aval.shape
    result: list[State] = []
    for out in equation.outvars:
        kept = {d: d for d, size in enumerate(out.aval.shape) if old[d] == size}
        rest = {axis: OTHER for state in operands[1:] for axis in state}
        result.append({**_moved(operands[0], kept), **rest})
    return result


def _concatenate(equation: Any, operands: Sequence[State]) -> list[State]:
    joined = _joined(operands, linear=lambda _: True)
    along = equation.params["dimension"]
    return [{a: OTHER if d == along else d for a, d in joined.items()}]


def _stack(equation: Any, operands: Sequence[State]) -> list[State]:
    joined, along = _joined(operands, linear=lambda _: True), equation.params["axis"]
    return [{a: d + (d >= along) for a, d in joined.items()}]


def _unstack(equation: Any, operands: Sequence[State]) -> list[State]:
    places = _kept((equation.params["axis"],), len(equation.invars[0].aval.shape))
    return [_moved(operands[0], places) for _ in equation.outvars]


def _updated(equation: Any, operands: Sequence[State]) -> list[State]:
    """Returns the state of an array after a part of it has been written."""
    both = _joined(operands[:2], linear=lambda _: True)
    old, new = (atom.aval.shape for atom in equation.invars[:2])
    places = {d: d for d, size in enumerate(old) if new[d] == size}
    return [{**_moved(both, places), **{a: OTHER for s in operands[2:] for a in s}}]


def _dot(equation: Any, operands: Sequence[State]) -> list[State]:
    (summed, batch), ranks = (
        equation.params["dimension_numbers"],
        [len(atom.aval.shape) for atom in equation.invars],
    )
    free = [[d for d in range(ranks[i]) if d not in (*summed[i], *batch[i])] for i in range(2)]
    starts = (len(batch[0]), len(batch[0]) + len(free[0]))
    places = [
        {
            **dict.fromkeys(summed[i], TERM),
            **{d: k for k, d in enumerate(batch[i])},
            **{d: k + starts[i] for k, d in enumerate(free[i])},
        }
        for i in range(2)
    ]
    return [_bilinear(operands, places)]


def _bilinear(operands: Sequence[State], places: Sequence[Mapping[int, int]]) -> State:
    """Returns the state of a product, where a dimension that is added over has the place TERM."""
    result: dict[str, int] = {}
    for axis in {axis for state in operands for axis in state}:
        kinds = {
            where.get(state[axis], OTHER) if state[axis] >= 0 else state[axis] - 8
            for state, where in zip(operands, places, strict=True)
            if axis in state
        }
        own = {kind for kind in kinds if kind >= OTHER}
        if own:
            result[axis] = own.pop() if len(own) == 1 and TERM - 8 not in kinds else OTHER
        else:
            alone = sum(axis in state for state in operands) == 1
            result[axis] = TERM if kinds == {TERM - 8} and alone else OTHER
    return result


def _convolution(equation: Any, operands: Sequence[State]) -> list[State]:
    params = equation.params
    numbers = params["dimension_numbers"]
    if params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
        return [_bilinear(operands, [{}, {}])]
    lhs, rhs, out = numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec
    return [_bilinear(operands, [{lhs[0]: out[0], lhs[1]: TERM}, {rhs[0]: out[1], rhs[1]: TERM}])]


def _gather(equation: Any, operands: Sequence[State]) -> list[State]:
    numbers, sizes = equation.params["dimension_numbers"], equation.params["slice_sizes"]
    source, index = (atom.aval.shape for atom in equation.invars[:2])
    rank = len(equation.outvars[0].aval.shape)
    batch = [d for d in range(rank) if d not in numbers.offset_dims]
    hidden = (*numbers.collapsed_slice_dims, *numbers.operand_batching_dims)
    windows = [d for d in range(len(source)) if d not in hidden]
    from_source = {
        d: to for d, to in zip(windows, numbers.offset_dims, strict=True) if sizes[d] == source[d]
    }
    shared = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    from_source.update({d: batch[at] for d, at in shared})
    from_index = dict(zip(range(len(index) - 1), batch, strict=True))
    moved = [_moved(operands[0], from_source), _moved(operands[1], from_index)]
    return [_joined(moved, linear=lambda axis: axis not in operands[1])]


def _scatter_add(equation: Any, operands: Sequence[State]) -> list[State]:
    numbers = equation.params["dimension_numbers"]
    operand, index, updates = (len(atom.aval.shape) for atom in equation.invars)
    hidden = (*numbers.inserted_window_dims, *numbers.operand_batching_dims)
    windows = [d for d in range(operand) if d not in hidden]
    others = [d for d in range(updates) if d not in numbers.update_window_dims]
    shared = dict(
        zip(numbers.scatter_indices_batching_dims, numbers.operand_batching_dims, strict=True)
    )
    from_index = {d: shared.get(d, TERM) for d in range(index - 1)}
    from_updates = {d: from_index[at] for at, d in enumerate(others)}
    from_updates |= dict(zip(numbers.update_window_dims, windows, strict=True))
    moved = [
        operands[0],
        {a: from_index.get(d, OTHER) for a, d in operands[1].items()},
        _moved(operands[2], from_updates),
    ]
    return [_joined(moved, linear=lambda _: True)]


def _without_axes(equation: Any, operands: Sequence[State]) -> list[State]:
    """Returns states after all devices along some axes have got the same value."""
    params = equation.params
    names = params["axes"] if "axes" in params else params["axis_name"]
    names = names if isinstance(names, (tuple, list)) else (names,)
    if params.get("axis_index_groups") is not None:
        return [{**state, **dict.fromkeys(names, OTHER)} for state in operands]
    return [{a: d for a, d in state.items() if a not in names} for state in operands]


def _scattered(equation: Any, operands: Sequence[State]) -> list[State]:
    params, rank = equation.params, len(equation.invars[0].aval.shape)
    names, along = params["axis_name"], params["scatter_dimension"]
    names = names if isinstance(names, (tuple, list)) else (names,)
    is_cut = params["tiled"] and params["axis_index_groups"] is None
    places = {d: d for d in range(rank)} if params["tiled"] else _kept((along,), rank)
    return [{**_moved(operands[0], places), **dict.fromkeys(names, along if is_cut else OTHER)}]


#: The rules of primitives, by name.
RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("add", "add_any", "sub"), _sum),
    **dict.fromkeys(("neg", "pvary", "pcast", "copy", "copy_p", "name"), _each),
    "optimization_barrier": _each,
    "convert_element_type": _convert,
    "mul": _product,
    "div": _quotient,
    "select_n": _select,
    "transpose": _transpose,
    "broadcast_in_dim": _broadcast,
    "squeeze": _squeeze,
    "reshape": _reshape,
    "reduce_sum": _reduce_sum,
    **dict.fromkeys(("reduce_max", "reduce_min", "reduce_and", "reduce_or", "argmax"), _reduce),
    **dict.fromkeys(
        ("slice", "dynamic_slice", "split", "pad", "rev", "cumsum", "tile"), _same_sizes
    ),
    "concatenate": _concatenate,
    "stack": _stack,
    "unstack": _unstack,
    "dynamic_update_slice": _updated,
    "reduce_precision": _each,
    "dot_general": _dot,
    "conv_general_dilated": _convolution,
    "gather": _gather,
    "scatter-add": _scatter_add,
    "reduce_scatter": _scattered,
    **dict.fromkeys(("psum", "psum_invariant", "pmax", "pmin"), _without_axes),
    **dict.fromkeys(("all_gather", "all_gather_invariant"), _without_axes),
}

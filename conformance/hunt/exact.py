"""The right results of equations from their operands.

Most are exact, and rounded once: Python's integers hold sums of any length and range
(``spec.oracles``). For example, a float32 holds neither 2**24 + 1 nor the sums on the way to the
result::

    Equation("sum", (0,), {"axes": [0]}), [2**24, 1, -2**24, 2**-30]    1.0

A float64 is too short to tell whether an elementary function near the middle of two float32 was
rounded to the nearer one, so mpmath does. For example, near 0 the logistic function is less than
the middle between two float32 by x**3 / 48::

    rounded_once("logistic", np.float32([3 * 2.0**-23]))    [0.5 + 2.0**-24], [True]

Transforms and decompositions have an order of the spec, which ``spec.oracles`` follows: each
operation rounds to float64. Only the last rounding goes to the dtype.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from conformance.hunt.program import Array, Equation, dtype_of
from spec import oracles


def _sum(equation: Equation, operands: Sequence[Array]) -> Array:
    (terms,) = operands
    axes = equation.params["axes"] if equation.token == "sum" else [0]  # noqa: S105  # A token of the grammar.
    if equation.token == "window_sum":  # noqa: S105  # As above.
        terms, axes = _windows(equation, terms)
    if equation.token == "sum_of_squares":  # noqa: S105  # As above.
        terms = once(np.square(terms.astype(np.float64)), terms.dtype)
    moved = np.moveaxis(terms, axes, range(len(axes)))
    count = int(np.prod(moved.shape[: len(axes)]))
    return oracles.nearest(moved.reshape(count, *moved.shape[len(axes) :]))


def _windows(equation: Equation, terms: Array) -> tuple[Array, list[int]]:
    """Returns the terms of each window, and the axes that hold them."""
    padded = np.pad(terms, equation.params["padding"])
    sizes, rank = tuple(equation.params["sizes"]), terms.ndim
    windows = np.lib.stride_tricks.sliding_window_view(padded, sizes)
    steps = tuple(slice(None, None, step) for step in equation.params["strides"])
    return windows[steps], list(range(rank, 2 * rank))


def _running(equation: Equation, operands: Sequence[Array]) -> Array:
    axis, step = equation.params["axis"], -1 if equation.params["reverse"] else 1
    moved = np.moveaxis(operands[0], axis, 0)[::step]
    return np.moveaxis(oracles.nearest_running(moved)[::step], 0, axis)


def _product(equation: Equation, operands: Sequence[Array]) -> Array:
    factors = _FACTORS.get(equation.token)
    a, b = factors(*operands) if factors else operands
    matrix = a if a.ndim > 1 else a[None]
    result = oracles.nearest_product(matrix, b, dtype_of(equation.aval.dtype))
    return result.reshape(result.shape if a.ndim > 1 else result.shape[1:])


#: The matrices whose product a token is.
_FACTORS: dict[str, Callable[..., tuple[Array, Array]]] = {
    "gram": lambda a: (a, a.T),
    "batched_product": lambda a, b: (a, np.swapaxes(b, -1, -2)),
    "product_of_rows": lambda a, b: (a.T, b),
    "product_in_a_loop": lambda a, b: (a.T, b),
}


def _contraction(_: Equation, operands: Sequence[Array]) -> Array:
    """Contracts the last axes of an array with all axes of another one."""
    a, b = operands
    rest = a.shape[: a.ndim - b.ndim]
    rows = a.reshape(int(np.prod(rest)), b.size)
    return oracles.nearest_product(rows, b.reshape(-1, 1), a.dtype).reshape(rest)


def _convolution(equation: Equation, operands: Sequence[Array]) -> Array:
    images, kernel = operands
    params, groups = equation.params, equation.params["groups"]
    count, channels, size = images.shape
    outputs, _, taps = kernel.shape
    results = np.arange(equation.aval.shape[-1])[:, None] * params["stride"]
    positions = results + np.arange(taps) * params["dilation"] - params["padding"][0]
    inside = (positions % params["spread"] == 0) & (positions >= 0)
    inside &= positions // params["spread"] < size
    exact = oracles.nearest_convolution(
        images.reshape(count, groups, channels // groups, size),
        kernel.reshape(groups, outputs // groups, channels // groups, taps),
        np.where(inside, positions // params["spread"], -1),
        images.dtype,
    )
    return exact.reshape(equation.aval.shape)


def _scatter(equation: Equation, operands: Sequence[Array]) -> Array:
    if equation.token == "scatter_of_rows":  # noqa: S105  # A token of the grammar.
        updates, index = operands
        return oracles.nearest_scatter(np.zeros(equation.aval.shape, updates.dtype), index, updates)
    initial, index, updates = operands
    sign = -1 if equation.token == "scatter_subtract" else 1  # noqa: S105  # As above.
    return oracles.nearest_scatter(initial, index, (sign * updates).astype(updates.dtype))


def _stable_order(equation: Equation, operands: Sequence[Array]) -> Array:
    # NumPy sorts no NaN of bfloat16.
    moved = np.moveaxis(operands[0].astype(np.float64), equation.params["axis"], 0)
    order = np.moveaxis(oracles.stable_sort(moved), 0, equation.params["axis"])
    return order.astype(np.int32)


def _stable_pairs(equation: Equation, operands: Sequence[Array]) -> Array:
    order = _stable_order(equation, operands)
    return np.take_along_axis(operands[1], order, equation.params["axis"])


def _ieee(equation: Equation, operands: Sequence[Array]) -> Array:
    """Computes in float64, and rounds once."""
    dtype = dtype_of(equation.aval.dtype)
    a = operands[0].astype(np.float64)
    number = equation.params.get("number")
    b = np.asarray(0.0 if number is None else dtype.type(float(number)), np.float64)
    if len(operands) > 1:
        b = operands[1].astype(np.float64)
    with np.errstate(all="ignore"):
        return once(np.asarray(_IEEE[equation.token](a, b)), dtype)


def _magnitude(equation: Equation, operands: Sequence[Array]) -> Array:
    """Computes in float64, and rounds once; the magnitude of (inf, NaN) is infinite."""
    dtype = dtype_of(equation.aval.dtype)
    real, imaginary = (once(part, dtype) for part in (operands[0].real, operands[0].imag))
    return once(np.hypot(real.astype(np.float64), imaginary.astype(np.float64)), dtype)


def once(values: Array, dtype: np.dtype[Any]) -> Array:
    """Rounds floats to a dtype, and takes zeros for subnormal results as a CPU does."""
    with np.errstate(all="ignore"):
        return oracles.flushed(values.astype(dtype)).astype(dtype)


def _extreme(equation: Equation, operands: Sequence[Array]) -> Array:
    """Returns the greatest or lowest elements: of two arrays, along axes, or running."""
    how, _, name = equation.token.rpartition("_")
    name = name.removeprefix("cum")
    function = _GREATEST[name]
    if len(operands) > 1:
        return function(*operands)
    (values,) = operands
    if how == "reduce":
        axes = equation.params["axes"]
        moved = np.moveaxis(values, axes, range(len(axes)))
        moved = moved.reshape(-1, *moved.shape[len(axes) :])
        return functools.reduce(function, moved)
    axis, step = equation.params["axis"], -1 if equation.params["reverse"] else 1
    moved = np.moveaxis(values, axis, 0)[::step]
    running = np.stack([*itertools.accumulate(iter(moved), function)])
    return np.moveaxis(running[::step], 0, axis)


def _least(a: Array, b: Array) -> Array:
    """Returns the lower elements: -0 is lower than 0, and a NaN is the result if there is one."""
    if a.dtype.kind in "iu":
        return np.minimum(a, b)
    with np.errstate(invalid="ignore"):
        is_lower = (a < b) | (a != a)  # noqa: PLR0124  # A NaN differs from itself.
    is_zero = (a == 0) & (b == 0) & (np.signbit(a) | np.signbit(b))
    lower = np.where(is_lower, a, b)
    return np.where(is_zero, np.array(-0.0, a.dtype), lower).astype(a.dtype)


_GREATEST: dict[str, Callable[[Array, Array], Array]] = {
    "min": _least,
    "max": lambda a, b: -_least(-a, -b),
}


def _parts(_: Equation, operands: Sequence[Array]) -> Array:
    """Adds what a value, which is the first operand, is multiplied by in each of its uses."""
    parts = np.stack(operands[1:])
    total = oracles.nearest(parts)
    zeros = once(parts, parts.dtype)
    are_minus_zeros = ((zeros == 0) & np.signbit(zeros)).all(0)
    return np.where(are_minus_zeros, -np.zeros_like(total), total).astype(total.dtype)


def _eigenvalues(equation: Equation, operands: Sequence[Array]) -> Array:
    a = operands[0].astype(np.float64)
    a, scale = _scaled((a + a.T) / 2)
    diagonal, _ = oracles.rotations(a, symmetric=True)
    return once(np.sort(np.diag(diagonal)) * scale + 0.0, dtype_of(equation.aval.dtype))


def _singular_values(equation: Equation, operands: Sequence[Array]) -> Array:
    a, scale = _scaled(operands[0].astype(np.float64))
    columns, _ = oracles.rotations(a, symmetric=False)
    lengths = np.sqrt([oracles.sum_of_halves(each * each) for each in columns.T])
    return once(-np.sort(-lengths) * scale + 0.0, dtype_of(equation.aval.dtype))


def _scaled(a: Array) -> tuple[Array, float]:
    """Returns a matrix of elements below 1, and the power of two that it was divided by."""
    most = np.abs(a).max(initial=0)
    scale = float(2.0 ** np.frexp(most)[1]) if most else 1.0
    return a / scale, scale


def _transform(equation: Equation, operands: Sequence[Array]) -> Array:
    (x,) = operands
    real = x.real.astype(np.float64)
    imaginary = np.where(np.isnan(real), real, x.imag.astype(np.float64))
    with np.errstate(all="ignore"):
        parts = oracles.transform(real, imaginary)
    result = np.empty(equation.aval.shape, equation.aval.dtype)
    count = equation.aval.shape[-1]
    result.real, result.imag = (once(part[..., :count], result.real.dtype) for part in parts)
    return result


#: Operations that IEEE 754 rounds once: float64 holds the results of narrower floats well enough
#: that a second rounding changes none (Figueroa 1995, "When is double rounding innocuous?").
_IEEE: dict[str, Callable[[Array, Array], Array]] = {
    **dict.fromkeys(("add", "add_constant", "add_zeros", "add_hidden_zeros"), np.add),
    **dict.fromkeys(("sub", "subtract_constant"), np.subtract),
    **dict.fromkeys(("mul", "scale"), np.multiply),
    "divide_constant": np.divide,
    "rem": np.fmod,
}

#: The function of each check.
RESULTS: dict[str, Callable[[Equation, Sequence[Array]], Array]] = {
    "sum": _sum,
    "cumsum": _running,
    "product_of": _product,
    "contraction": _contraction,
    "convolution": _convolution,
    "scatter": _scatter,
    "stable_order": _stable_order,
    "stable_pairs": _stable_pairs,
    "ieee": _ieee,
    "magnitude": _magnitude,
    "extreme": _extreme,
    "parts": _parts,
    "eigenvalues": _eigenvalues,
    "singular_values": _singular_values,
    "transform": _transform,
}


def rounded_once(name: str, arguments: Array) -> tuple[Array, Array]:
    """Returns the nearest floats to the values of a function, as float64.

    Args:
        name: The name of a token.
        arguments: The arguments, floats.

    Returns:
        The floats, and where they hold: nowhere for functions that ``conformance.lab.elementary``
        has not, and for float64, of which the guarantee rounds each step;
        not where the argument is infinite or no number, nor where the value is not a real number,
        or is too small for a normal number.
    """
    from conformance.lab.elementary import reference  # noqa: PLC0415  # It needs mpmath.

    if name not in reference.REFERENCES or arguments.dtype == np.float64:
        return np.zeros(()), np.zeros((), bool)
    values = reference.near_values(name, arguments)
    least = 2 * float(ml_dtypes.finfo(arguments.dtype).smallest_normal)
    holds = np.isfinite(arguments.astype(np.float64)) & np.isfinite(values)
    nearest = reference.correct(name, arguments.reshape(-1)).reshape(arguments.shape)
    return nearest.astype(np.float64), holds & (np.abs(values) > least)

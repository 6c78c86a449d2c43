"""Judges the result of each equation by its own operands, as the run gave them.

Errors of earlier equations do not count, because each equation is judged alone: where a rule rounds
the exact result once, one bit more is a fault. Each token names its check:

===================  =============================================================================
check                the result of the equation
===================  =============================================================================
``sum``              is the exact sum, rounded once: Python's integers hold it (``spec.oracles``)
``cumsum``           is the exact running sum, rounded once
``product_of``       is the exact product of matrices, rounded once
``contraction``      is the exact contraction of all axes of the second array, rounded once
``convolution``      is the exact convolution, rounded once
``scatter``          is the exact sum by index, rounded once
``stable_order``     is NumPy's stable order
``stable_pairs``     is the second array in the stable order of the first one
``parts``            is the exact sum of the derivative's parts, rounded once
``extreme``          is the greatest or lowest element; 0 is greater than -0
``transform``        has the bits of the spec's order ``transform``, rounded once
``eigenvalues``      has the bits of the spec's order ``rotations``, rounded once
``singular_values``  has the bits of the same order
``ieee``             is the float of IEEE 754, zeros with their signs
``magnitude``        is the square root of the sum of both squares, rounded once
``same``             has the bits of plain JAX
``near``             is within 0.51 units in the last place of float64, or, of a function that
                     mpmath has, the exact value rounded once
``product``          is the same for a product of many factors
``poles``            is near; XLA gives NaN for infinities at the poles of the gamma functions
``loose``            is within 24 units in the last place: the token is several equations
``cancelling``       is within 24 such units of the result for the magnitudes of the operands
``complex``          is near, with the greater part as the unit
``terms``            is within half a unit, and 2**-46 of the sum of the magnitudes of the terms
``none``             is compared between settings alone
===================  =============================================================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import ml_dtypes
import numpy as np

from conformance.hunt import exact
from conformance.hunt.program import Array, Equation, Program
from conformance.hunt.tokens import TOKENS

#: How ``source.references`` computes what a check compares with.
REFERENCES = {
    "same": "same",
    "near": "wide",
    "product": "wide",
    "loose": "wide",
    "poles": "wide",
    "complex": "wide",
    "terms": "terms",
    "cancelling": "terms",
}
#: Units in the last place by which a result may differ from float64's.
_UNITS = {
    "complex": 4.0,
    "near": 0.51,
    "poles": 0.51,
    "product": 0.51,
    "terms": 0.51,
    "loose": 24.0,
    "cancelling": 24.0,
}
#: The relative error of an equation in float64.
_SLACK = 2.0**-46


@dataclasses.dataclass(frozen=True)
class Wrong:
    """A wrong element.

    Attributes:
        variable: The variable.
        index: The index of its first wrong element.
        got: The element.
        right: The right value.
        sentence: A sentence about it.
    """

    variable: int
    index: tuple[int, ...]
    got: complex
    right: complex
    sentence: str


def wrong(
    program: Program, variables: Sequence[Array], references: dict[tuple[int, str], Array]
) -> list[Wrong]:
    """Returns the first wrong element of each equation that has one.

    Args:
        program: The program.
        variables: The value of each variable.
        references: The results of plain JAX: ``value`` and ``scale`` of a variable.
    """
    elements = []
    for number, equation in enumerate(program.equations, program.primals):
        check = TOKENS[equation.token].check
        result = variables[number]
        operands = [variables[v] for v in equation.operands]
        if check == "ieee" and "float" not in equation.aval.dtype:
            continue
        if check in exact.RESULTS:
            right = exact.RESULTS[check](equation, operands)
            bad = _differs(result, right)
        elif check == "same":
            right = references[number, "value"]
            bad = _differs(result, right)
        elif check in REFERENCES:
            right = references[number, "value"]
            scale = references.get((number, "scale"), np.abs(right))
            bad = _is_far(result, right, scale, check)
            if check == "near":
                nearest, holds = exact.rounded_once(equation.token, operands[0])
                bad = np.where(holds, result.astype(np.float64) != nearest, bad)
                right = np.where(holds, nearest, right)
        else:
            continue
        if bad.any():
            elements.append(_wrong(number, equation, result, right, bad))
    return elements


def _wrong(number: int, equation: Equation, result: Array, exact: Array, bad: Array) -> Wrong:
    index = tuple(int(i) for i in np.argwhere(bad)[0])
    sentence = (
        f"{equation.token}: {int(bad.sum())} of {bad.size} elements are wrong; "
        f"at {list(index)} it gave {result[index]!s}, and the right value is {exact[index]!s}"
    )
    return Wrong(number, index, _number(result[index]), _number(exact[index]), sentence)


def _number(value: Array) -> complex:
    return complex(value) if value.dtype.kind == "c" else float(value)


def _differs(result: Array, exact: Array) -> Array:
    """Returns where two arrays have other values; zeros of another sign differ, NaN do not."""
    if result.dtype.kind in "iub":
        return np.asarray(result != exact)
    both_nan = np.isnan(result) & np.isnan(exact)
    if result.dtype.kind == "c":
        return np.asarray((result != exact) & ~both_nan)
    signs = np.signbit(result) != np.signbit(exact)
    return np.asarray(((result != exact) | signs) & ~both_nan)


def _is_far(result: Array, exact: Array, scale: Array, check: str) -> Array:
    """Returns where a result is farther from a value in float64 than its check allows."""
    if result.dtype.kind in "iub":
        return np.asarray(result != exact)
    if result.dtype.kind == "c":
        return _is_far_complex(result, exact)
    limits = ml_dtypes.finfo(result.dtype)
    tiny, greatest = float(limits.smallest_normal), float(limits.max)
    wide = result.astype(np.float64)
    with np.errstate(all="ignore"):
        magnitude = np.maximum(np.abs(exact), tiny)
        if check == "cancelling":
            magnitude = np.maximum(magnitude, scale)
        unit = np.exp2(np.floor(np.log2(np.where(np.isfinite(magnitude), magnitude, 1)))) * float(
            limits.eps
        )
        units = _UNITS[check] if result.dtype != np.float64 else 8.0
        allowed = units * unit + np.where(np.isfinite(scale), scale, 0) * _SLACK
        near = np.abs(wide - exact) <= allowed
        near |= (np.abs(exact) <= tiny * (1 + float(limits.eps))) & (np.abs(wide) <= tiny)
        beyond = np.abs(exact) + allowed >= greatest
        near |= beyond & np.isinf(wide) & (np.sign(wide) == np.sign(exact))
        near |= (wide == exact) | (np.isnan(wide) & np.isnan(exact))
        if check == "poles":
            near |= np.isnan(exact) & np.isinf(wide)
            # XLA's float64 adds greater numbers on the way to the zeros of the gamma functions.
            near |= np.abs(wide - exact) <= _SLACK
        if check in ("terms", "loose", "cancelling", "product"):
            # An infinity of an intermediate step, or of a term, may become a NaN.
            near |= ~np.isfinite(exact) | ~np.isfinite(scale) | ~np.isfinite(wide)
    return np.asarray(~near)


def _is_far_complex(result: Array, exact: Array) -> Array:
    """Returns where a complex result is far; the greater part is the unit of both."""
    with np.errstate(all="ignore"):
        unit = np.maximum(np.abs(exact.real), np.abs(exact.imag)) * 2.0**-21
        error = np.maximum(np.abs(result.real - exact.real), np.abs(result.imag - exact.imag))
        finite = np.isfinite(result) & np.isfinite(exact.astype(np.complex64))
        return np.asarray(finite & (error > np.maximum(unit, 1e-36)))

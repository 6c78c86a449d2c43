"""The results of equations that the guarantee computes in an order of the spec.

These are not the exact results, rounded once: each operation rounds to float64, in an order that
the spec writes down and ``spec.oracles`` follows. Only the last rounding goes to the dtype. For
example, the singular values of [[3, 4], [0, 0]] are 5 and 0.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from conformance.hunt.exact import once
from conformance.hunt.program import Array, Equation, dtype_of
from spec import oracles


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
    kept = equation.aval.shape[-1]
    result.real, result.imag = (once(part[..., :kept], result.real.dtype) for part in parts)
    return result


#: The function of each check.
RESULTS: dict[str, Callable[[Equation, Sequence[Array]], Array]] = {
    "eigenvalues": _eigenvalues,
    "singular_values": _singular_values,
    "transform": _transform,
}

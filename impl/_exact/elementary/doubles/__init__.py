"""Functions of float64, computed as pairs of float64.

A result has a relative error below 2**-98 before it is rounded once, unless the class of the
function in ``spec/portable.toml`` says otherwise. So it is the exact value, rounded once, unless
that is as close to the middle of two float64 as for one in 2**45 random arguments.

Each function computes a pair in one sequence of operations, as exactly as its caller asks: ``full``
keeps the first coefficients of a series as pairs, and ``quick`` fewer of them (``_function``).

The functions are in ``exponentials``, ``logarithms``, ``powers``, ``trigonometric`` and
``special_functions``, which share operations (``_pairs``) and polynomials in pieces (``_pieces``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from impl._exact.elementary.doubles import (
    exponentials,
    logarithms,
    powers,
    special_functions,
    trigonometric,
)
from impl._exact.elementary.doubles._function import Double

#: The functions by the names of JAX's primitives.
FUNCTIONS: Mapping[str, Double] = MappingProxyType(
    {
        **exponentials.FUNCTIONS,
        **logarithms.FUNCTIONS,
        **powers.FUNCTIONS,
        **special_functions.FUNCTIONS,
        **trigonometric.FUNCTIONS,
    }
)

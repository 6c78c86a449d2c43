"""The records of primitives, a module for each group. Importing this package registers them all.

``spec/portable.toml`` says in which class a primitive is, and why its bits are then the same
everywhere. Its record says how it is computed; ``impl._portable.rule`` describes the fields. A
primitive without a record is exact as JAX lowers it, or is refused.

``rounding`` has operations that round once, ``functions`` elementary functions, ``conversions``
dtypes; ``extremes`` is about the greatest and lowest elements, ``sums`` about sums and scatters,
``products`` about products and convolutions, ``linear_algebra`` about decompositions, ``moves``
about operations that move elements, ``whole_numbers`` about integers, and ``written`` about
primitives that JAX writes with others.
``exact`` has the records of exact operations, and ``_floats`` the formats of floats.
"""

from impl._portable.rule import RULES
from impl._portable.rules import (
    conversions,
    exact,
    extremes,
    functions,
    linear_algebra,
    moves,
    products,
    rounding,
    sums,
    whole_numbers,
    written,
)

__all__ = [
    "RULES",
    "conversions",
    "exact",
    "extremes",
    "functions",
    "linear_algebra",
    "moves",
    "products",
    "rounding",
    "sums",
    "whole_numbers",
    "written",
]

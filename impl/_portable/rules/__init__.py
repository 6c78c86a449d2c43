"""The records of primitives, a module for each group. Importing this package registers them all.

``spec/portable.toml`` says in which class a primitive is, and why its bits are then the same
everywhere. Its record says how it is computed; ``impl._portable.rule`` describes the fields. A
primitive without a record is exact as JAX lowers it, or is refused.

``rounding`` has operations that round once, formats of floats, and elementary functions;
``extremes`` is about the greatest and lowest elements, ``sums`` about sums and scatters,
``products`` about products of matrices, convolutions and decompositions, ``moves`` about operations
that move elements, and ``exact`` about those whose floats JAX lowers.
"""

from impl._portable.rule import RULES
from impl._portable.rules import exact, extremes, moves, products, rounding, sums

__all__ = [
    "RULES",
    "exact",
    "extremes",
    "moves",
    "products",
    "rounding",
    "sums",
]

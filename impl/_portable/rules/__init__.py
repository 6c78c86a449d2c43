"""The records of primitives, a module for each group. Importing this package registers them all.

``spec/portable.toml`` says in which class a primitive is, and why its bits are then the same
everywhere. Its record says how it is computed; ``impl._portable.rule`` describes the fields. A
primitive without a record is exact as JAX lowers it, or is refused.
"""

from impl._portable.rule import RULES
from impl._portable.rules import (
    conversions,
    extremes,
    functions,
    linear_algebra,
    moves,
    products,
    rounding,
    sums,
    written,
)

__all__ = [
    "RULES",
    "conversions",
    "extremes",
    "functions",
    "linear_algebra",
    "moves",
    "products",
    "rounding",
    "sums",
    "written",
]

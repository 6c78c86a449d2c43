"""A sum is rounded to float64 before it is rounded to its own dtype."""

from impl._exact import arithmetic

arithmetic.to_odd.__code__ = (lambda value, rest: value).__code__

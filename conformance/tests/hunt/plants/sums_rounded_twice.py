"""A sum is rounded to float64 before it is rounded to its own dtype."""

from impl._exact import arithmetic


def to_odd(near, error):
    del error
    return near


arithmetic.to_odd.__code__ = to_odd.__code__

"""The parts of a derivative are rounded after each addition, in the order of the release."""

import functools

from impl._core.jax_internals import cotangents
from impl._portable import parts


def add(values):
    return functools.reduce(cotangents.add_two, values)


parts.add.__code__ = (lambda parts: functools.reduce(cotangents.add_two, parts)).__code__

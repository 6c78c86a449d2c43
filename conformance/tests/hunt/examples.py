"""Small programs for the tests of the hunt."""

import collections

import numpy as np

from conformance.hunt import grammar
from conformance.hunt.program import Aval, Equation, Input, Program


def drawn(seed, count, only=""):
    counts = collections.Counter()
    return [grammar.draw(seed, index, counts, only) for index in range(count)]


def chain():
    """``v3 = v0 + v1; v4 = v3 * v2; v5 = sum(v4)``; results v3 and v5."""
    aval = Aval((4,), "float32")
    inputs = tuple(Input.of(np.arange(4, dtype=np.float32) + i) for i in range(3))
    equations = (
        Equation("add", (0, 1), {}, aval),
        Equation("mul", (3, 2), {}, aval),
        Equation("sum", (4,), {"axes": [0], "axis": 0}, Aval((), "float32")),
    )
    return Program(inputs, equations, (3, 5), "none", 3)

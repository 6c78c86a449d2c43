"""index_select: bad arguments."""

import pytest

from impl.tests.ops._bad_values import ONE, SCALAR, SHORT, SQUARE, V, at
from impl.tests.support.refusals import BadArguments, Call

complete = pytest.mark.usefixtures("complete")


# Bad arguments, and indices that are out of range.

CALLS: list[Call] = [
    ("index_select", (V, 1, ONE), {}, IndexError, "but got 1"),
    ("index_select", (V, 1.0, ONE), {}, TypeError, "'dim' must be int"),
    ("index_select", (V, 0, [0]), {}, TypeError, "'index' must be"),
    ("index_select", (V, 0, SHORT), {}, RuntimeError, "for index but got: int16"),
    ("index_select", (V, 0, SQUARE), {}, IndexError, "to be a vector"),
    ("index_select", (V, 0, at(0, 3)), {}, IndexError, "index 3 is out of bounds"),
    ("index_select", (V, 0, at(-1)), {}, IndexError, "index -1 is out of bounds"),
    ("index_select", (SCALAR, 0, at(0, 0)), {}, RuntimeError, "only 1 value, got 2"),
    ("index_select", (SCALAR, 0, at(1)), {}, IndexError, "out of bounds"),
]


class TestBadArguments(BadArguments):
    calls = CALLS

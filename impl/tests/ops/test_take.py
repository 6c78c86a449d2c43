"""take: bad arguments."""

import pytest

from impl.tests.ops._bad_values import V, at
from impl.tests.support.refusals import BadArguments, Call

complete = pytest.mark.usefixtures("complete")


CALLS: list[Call] = [
    ("take", (V, at(3)), {}, IndexError, "index 3 is out of bounds for an input of 3 elements"),
    ("take", (V, at(0, -4)), {}, IndexError, "at position [1]"),
    ("take", (V[:0], at(0)), {}, IndexError, "none is allowed"),
    ("take", (V, at(0.0)), {}, RuntimeError, "for index but got: float64"),
    ("take", (V, at(True)), {}, RuntimeError, "for index but got: bool"),
    ("take", (V, [0]), {}, TypeError, "'index' must be"),
    ("take", ([0.0], at(0)), {}, TypeError, "'input' must be"),
]


class TestBadArguments(BadArguments):
    calls = CALLS

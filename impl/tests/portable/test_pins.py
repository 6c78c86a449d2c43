"""Functions of JAX and their derivatives have the same bits in every release of JAX.

Tests: impl._core.jax_internals.initializers, impl._portable.rules.functions,
impl._portable.rules.linear_algebra.
"""

import tomllib

from impl._portable import pins
from impl.tests.portable import functions


def test_the_bits_of_functions_and_of_their_derivatives():
    expected = tomllib.loads(functions.FILE.read_text(encoding="utf-8"))
    found = functions.digests()
    assert {name for name in expected if found.get(name) != expected[name]} == set()
    assert set(found) == set(expected)


def test_each_derivative_that_is_pinned_is_among_them():
    known = {name.rpartition(".")[2] for name in functions.FUNCTIONS}
    assert {*pins.DERIVATIVES, *pins.RULES} <= known

"""Programs are a function of the seed, and reach every token.

Tests: conformance.hunt.grammar, conformance.hunt.pool, conformance.hunt.dice,
conformance.hunt.values.
"""

import collections
import hashlib

import numpy as np
import pytest

from conformance.hunt import grammar, program, settings, values
from conformance.hunt.dice import Dice
from conformance.hunt.program import Aval
from conformance.hunt.tokens import TOKENS
from conformance.tests.hunt.examples import drawn

pytestmark = pytest.mark.once


def test_a_seed_gives_the_same_programs_and_settings_on_every_machine():
    programs = drawn(3, 20)
    assert programs == drawn(3, 20)
    assert programs != drawn(4, 20)
    texts = [each.to_json() for each in programs]
    texts += [str(settings.draw(Dice(3, i), each, 3)) for i, each in enumerate(programs)]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    # A change of the grammar changes it. A change of Python, NumPy or JAX must not.
    assert digest == "6e47245e258c847b"


def test_programs_survive_json():
    for each in drawn(5, 20):
        assert program.from_json(each.to_json()) == each


def test_every_token_is_drawn_and_the_least_drawn_ones_are_preferred():
    counts = collections.Counter()
    for index in range(3000):
        grammar.draw(1, index, counts)
    names = {name for name, _ in counts}
    assert names == set(TOKENS)


@pytest.mark.parametrize("name", ["cholesky", "psum", "scatter_add"])
def test_only_keeps_to_programs_with_a_token_or_primitive(name):
    for each in drawn(2, 10, only=name):
        own = [TOKENS[equation.token] for equation in each.equations]
        assert any(name in token.name or name in token.primitives for token in own)


def test_only_without_a_token_is_an_error():
    with pytest.raises(ValueError, match="--only nonsense: no token contains it"):
        drawn(1, 1, only="nonsense")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64", "complex64"])
@pytest.mark.parametrize("kind", list(values.KINDS))
def test_no_value_is_subnormal_and_kinds_have_their_borders(dtype, kind):
    drawn_values = values.draw(Dice(1), Aval((400,), dtype), kind).values()
    parts = drawn_values.view(np.float32) if dtype == "complex64" else drawn_values
    wide = np.abs(parts.astype(np.float64))
    narrow = {"float16": np.float16, "float64": np.float64}.get(dtype, np.float32)
    least = float(np.finfo(narrow).smallest_normal)
    assert not ((wide > 0) & (wide < least)).any()
    if kind == "borders":
        assert np.isnan(wide).any()
        assert np.isinf(wide).any()
    if kind in ("borders", "zeros", "few"):
        zeros = np.signbit(parts[wide == 0])
        assert set(zeros.tolist()) == {True, False}

"""Rows of an embedding table: arguments, norms, and how often a row is read."""

import jax.numpy as jnp
import numpy as np
import pytest

from impl._mode.decide import Action, Decision
from impl.nn.functional import _embedding_rows

ORDERED = Decision(elsewhere=Action(path="ordered"))
WEIGHT = np.array([[3, 4], [0.3, 0.4], [0, 0]], np.float32)


@pytest.mark.parametrize(
    ("padding_idx", "rows", "result"), [(None, 3, None), (-1, 3, 2), (1, 3, 1), (0, 0, None)]
)
def test_the_padding_row_counts_from_the_front(padding_idx, rows, result):
    row = _embedding_rows.padding_row("op", padding_idx, rows, AssertionError, empty=True)
    assert row == result


def test_a_padding_row_that_does_not_exist():
    with pytest.raises(AssertionError, match="-3 through 2, but got 3"):
        _embedding_rows.padding_row("op", 3, 3, AssertionError)
    with pytest.raises(RuntimeError, match="but got 0"):
        _embedding_rows.padding_row("op", 0, 0, RuntimeError)


@pytest.mark.parametrize("norm_type", [0, 1, 2, 3.5, np.inf, -np.inf])
def test_rows_are_scaled_to_the_greatest_norm(norm_type):
    rows = _embedding_rows.read(
        jnp.asarray(WEIGHT), jnp.array([0, 1, 2, 0]), 1.0, norm_type, decision=ORDERED
    )
    norms = np.linalg.norm(WEIGHT.astype(float), norm_type, axis=1)
    expected = [row / norm if norm > 1 else row for row, norm in zip(WEIGHT, norms, strict=True)]
    np.testing.assert_allclose(rows, np.array(expected)[[0, 1, 2, 0]], rtol=1e-6)


def test_frequencies_are_at_least_one():
    counts = _embedding_rows.frequencies(jnp.array([1, 1, 2, 1]), 4, decision=ORDERED)
    assert counts.tolist() == [1, 3, 1, 1]


def test_the_facts_of_a_lookup():
    facts = _embedding_rows.facts("op", jnp.zeros((2, 2), int), jnp.asarray(WEIGHT), 1.0, 2.5)
    assert facts == {"dtype": "floating", "input_ndim": 2, "max_norm": True, "power_norm": True}
    with pytest.raises(TypeError, match="'norm_type' must be float, not bool"):
        _embedding_rows.facts("op", jnp.zeros(2, int), jnp.asarray(WEIGHT), None, True)
    with pytest.raises(RuntimeError, match="'max_norm' needs a weight of floats"):
        _embedding_rows.facts("op", jnp.zeros(2, int), jnp.zeros((2, 2), int), 1.0, 2)

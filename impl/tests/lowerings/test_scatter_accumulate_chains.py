"""Chains of the panel order, found by sorting words or pairs.

Tests: impl._families.scatter_keys.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._families import reductions, scatter_keys
from impl._lowerings import scatter_accumulate_chains, scatter_accumulate_ordered
from impl.tests.lowerings._contributions import contributions, in_panel_order
from impl.tests.support.bits import assert_same_bits


@pytest.mark.parametrize("word", [0, 32])
@pytest.mark.parametrize("parts", [1, 1 << 22])
@pytest.mark.parametrize("kind", ["shared", "rows", "own"])
def test_chains_are_found_by_words_and_by_pairs_and_folded_a_few_at_a_time(
    monkeypatch, word, parts, kind
):
    monkeypatch.setattr(scatter_keys, "_WORD", word)
    monkeypatch.setattr(scatter_accumulate_ordered, "_PARTS", parts)
    args = contributions(2, 3, 2, 2100, kind=kind)
    ordered = functools.partial(scatter_accumulate_ordered.ordered_xla, reduction=reductions.ADD)
    assert_same_bits(jax.jit(ordered)(*args), in_panel_order(*args, np.add))


@pytest.mark.parametrize("n", [100, 70000])
def test_keys_are_as_narrow_as_they_can_be(n):
    """A GPU sorts one word of 16 or 32 bits, or a pair."""

    def table(destination, destinations):
        panels = -(-n // 1024)
        return scatter_accumulate_chains.chain_table(
            destination, lambda position: position // 1024, (destinations, panels)
        )

    def sorted_dtypes(destinations):
        jaxpr = jax.make_jaxpr(lambda d: table(d, destinations))(jnp.zeros(n, jnp.int32))
        return next(
            [v.aval.dtype.name for v in e.invars] for e in jaxpr.eqns if "sort" in str(e.primitive)
        )

    if n == 100:
        assert sorted_dtypes(3) == ["uint16"]
        assert sorted_dtypes(1 << 12) == ["uint32"]
    else:
        assert sorted_dtypes(3) == ["uint32"]
        assert sorted_dtypes(1 << 20) == ["uint32", "int32"]


def test_no_loop_looks_for_the_bounds_of_chains():
    args = contributions(2, 3, 2, 2100, kind="shared")
    ordered = functools.partial(scatter_accumulate_ordered.ordered_xla, reduction=reductions.MUL)
    program = str(jax.make_jaxpr(ordered)(*map(jnp.asarray, args)))
    assert "searchsorted" not in program
    # The loops fold chains and panels.
    assert program.count("while[") + program.count("scan[") == 2

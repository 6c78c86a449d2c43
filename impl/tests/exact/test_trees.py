"""Sums in a tree of stages: each term is added once, in short chains, and no bit changes."""

import math
import re

import jax
import numpy as np
import pytest

from impl._exact import arithmetic
from impl._exact.nearest import trees
from impl._exact.nearest.trees import Tree
from impl._exact.sums import reduction
from impl.tests.exact._sums import assert_same, rough, run
from spec import oracles

#: The shape and the axes of a sum, whether its measures are computed at once, and its tree.
SUMS = {
    "columns": ((8192, 24), (0,), True, Tree((32, 16, 16, 24), ((2,), (1,), (0,)))),
    "columns of two axes": ((6, 10, 12), (0, 1), True, Tree((4, 15, 12), ((1,), (0,)))),
    "columns of axes apart": ((3, 5, 40, 9), (0, 2), True, Tree((3, 5, 4, 10, 9), ((3,), (0, 2)))),
    "short columns": ((32, 8), (0,), True, Tree((32, 8), ((0,),))),
    "columns of a prime number": ((97, 8), (0,), True, Tree((97, 8), ((0,),))),
    "few columns": ((640, 7), (0,), True, Tree((640, 7), ((0,),))),
    "columns on devices": ((640, 24), (0,), False, Tree((640, 24), ((0,),))),
    "rows": ((100, 4096), (1,), True, Tree((100, 64, 64), ((2,), (1,)))),
    "one row": ((10**6,), (0,), False, Tree((8000, 125), ((1,), (0,)))),
    "one row of a prime number": ((9973,), (0,), True, Tree((9973,), ((0,),))),
    "rows and another axis": ((96, 3, 1000), (0, 2), False, Tree((96, 3, 8, 125), ((3,), (0, 2)))),
    "few rows": ((4, 1024), (1,), True, Tree((4, 1024), ((1,),))),
}


def tree_of(name):
    shape, axes, at_once, _ = SUMS[name]
    return Tree.of(shape, axes, np.float32, at_once=at_once)


@pytest.mark.parametrize("name", SUMS)
def test_a_tree_has_short_chains(name):
    shape, axes, _, want = SUMS[name]
    tree = tree_of(name)
    assert tree == want
    count = math.prod(shape[axis] for axis in axes)
    assert math.prod(tree.shape[axis] for axis in tree.axes) == count
    assert tree.chains is None or sum(tree.chains) <= count / 2


@pytest.mark.parametrize("name", SUMS)
def test_each_term_is_added_once(name):
    shape, axes, _, _ = SUMS[name]
    tree = tree_of(name)
    terms = np.arange(math.prod(shape), dtype=np.float64).reshape(shape)
    got, magnitudes = run(lambda terms: trees.reduce_sum(terms, tree), terms.reshape(tree.shape))
    assert_same(got, terms.sum(axes))
    assert (magnitudes is None) == (len(tree.stages) == 1)
    if magnitudes is not None:
        assert_same(magnitudes, terms.sum(axes))


@pytest.mark.parametrize("name", SUMS)
def test_sums_have_the_bits_of_the_oracle(rng, name):
    shape, axes, at_once, _ = SUMS[name]
    x = rough(rng, shape)
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    rows = x.transpose([*axes, *kept]).reshape(-1, *(shape[axis] for axis in kept))
    got = run(lambda x: reduction.reduce_sum(x, axes, at_once=at_once), x)
    assert_same(got, oracles.nearest(rows))


def test_axes_may_be_in_another_order(rng):
    x = rough(rng, (40, 2, 60))
    want = oracles.nearest(x.transpose(0, 2, 1).reshape(-1, 2))
    assert_same(run(lambda x: reduction.reduce_sum(x, (2, 0)), x), want)


@pytest.mark.parametrize("add", [trees.reduce_sum, trees.measured])
def test_a_stage_is_a_sum_of_its_own_after_optimisation(add):
    """Otherwise the chain of a compiled sum would be longer than its bound says."""
    tree = Tree((64, 16, 16), ((2,), (1,), (0,)))
    terms = np.ones(tree.shape, np.float32 if add is trees.measured else np.float64)
    with arithmetic.wide():
        compiled = jax.jit(lambda terms: add(terms, tree)[0]).lower(terms).compile()
    assert len(re.findall(r" reduce\(", compiled.as_text())) == 3


@pytest.mark.parametrize("count", [10**5, 10**6, 10**7])
def test_later_stages_of_random_terms_have_small_magnitudes(rng, count):
    tree = Tree.of((count,), (0,), np.float32, at_once=True)
    terms = rng.normal(size=tree.shape)
    _, magnitudes = run(lambda terms: trees.reduce_sum(terms, tree), terms)
    (first, later), greatest = tree.chains, abs(terms).max()
    measured = first * count * greatest + later * float(magnitudes)
    assert measured < count * count * greatest / 300
    assert measured < (first + later) * count * greatest / 4


@pytest.mark.parametrize("bits", [1, 8, 11, 24])
def test_the_last_bit_of_all_terms_is_found(rng, bits):
    terms = rng.integers(1 << (bits - 1), 1 << bits, size=(64, 3)) * 2.0 ** rng.integers(
        -20, 20, size=(64, 3)
    )
    terms = np.where(rng.random(terms.shape) < 0.2, 0, terms).astype(np.float32)
    terms[-2:, 1] = np.nan, -np.inf
    found = run(lambda terms: trees.measured(terms, Tree(terms.shape, ((0,),))), terms)
    for column, last in zip(terms.T, np.asarray(found.last), strict=True):
        values = column[np.isfinite(column)].astype(np.float64) / 2.0 ** (last - 126)
        assert (values == np.round(values)).all()
    exponents = np.frexp(np.abs(terms).max(0, initial=0, where=np.isfinite(terms)))[1]
    assert (np.asarray(found.top)[[0, 2]] == exponents[[0, 2]] + 126).all()
    # Terms of few bits leave room: their sums are exact.
    lasts = np.frexp(np.where(terms == 0, np.inf, abs(terms)).min(0))[1] + 126 - bits
    assert (np.asarray(found.last)[[0, 2]] >= lasts[[0, 2]]).all()

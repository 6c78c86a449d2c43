"""States of sums hold the exact sum within their slack, and levels add up to all terms.

Tests: impl._exact.unrounded.operations, impl._exact.unrounded.states.
"""

import functools
from fractions import Fraction

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.unrounded import operations, states
from impl.tests.exact._sums import assert_same, rough
from spec.oracles.nearest import nearest, nearest_product, nearest_scatter

PRODUCT = {"dimension_numbers": (((0,), (0,)), ((), ()))}
ROWS = {
    "dimension_numbers": lax.ScatterDimensionNumbers((1,), (0,), (0,)),
    "indices_are_sorted": False,
    "unique_indices": False,
    "mode": lax.GatherScatterMode.FILL_OR_DROP,
}
FUNCTIONS = {
    "dot_general": lax.dot_general,
    "reduce_sum": lambda x, axes: x.sum(axes),
    "scatter-add": lax.scatter_add,
}


@pytest.fixture(autouse=True)
def wide():
    with arithmetic.wide():
        yield


FLOATS = ("float32", "float64")
#: The parameters of each operation.
PARAMS = {"dot_general": PRODUCT, "reduce_sum": {"axes": (0,)}, "scatter-add": ROWS}


def counted(name, level, parts):
    """Returns the state of the terms of several calls."""
    function = functools.partial(FUNCTIONS[name], **PARAMS[name])
    state = states.zeros(jax.eval_shape(function, *parts[0]).shape)
    for operands in parts:
        state = operations.added(name, PARAMS[name], (), level, state, *operands)
    return state


@functools.cache
def plain_program(name, dtype):
    """Returns the program of ``plain``, which is compiled once for operands of one shape."""

    def run(parts):
        words = states.rounded(counted(name, np.int32(states.PLAIN), parts), dtype)
        return states.values(words, dtype), interval.is_doubt(words).sum()

    return jax.jit(run)


def plain(name, parts):
    """Returns the rounded sums, and how many are in doubt."""
    values, doubts = plain_program(name, parts[0][0].dtype)(parts)
    return np.asarray(values), int(doubts)


@functools.cache
def program_by_levels(name, dtype):
    """Returns the program of ``by_levels``."""

    def run(parts):
        shape = jax.eval_shape(functools.partial(counted, name, np.int32(0)), parts).shape[1:]
        counts = states.no_counts(shape)

        def step(counts, level):
            state = counted(name, level, parts)
            return states.counted(level, counts, state, dtype=dtype), None

        # All words are in doubt.
        start = counts.at[:2].set(0xFFFFFFFF)
        levels = np.arange(states.levels(dtype), dtype=np.int32)
        words = states.words_of(lax.scan(step, start, levels)[0], dtype)
        return states.values(words, dtype), interval.is_doubt(words).any()

    return jax.jit(run)


def by_levels(name, parts):
    """Returns the sums whose terms were counted level by level."""
    values, is_doubt = program_by_levels(name, parts[0][0].dtype)(parts)
    assert not is_doubt
    return np.asarray(values)


def pieces(*arrays):
    """Returns three parts of arrays, of other lengths."""
    return [[jnp.asarray(a[i:j]) for a in arrays] for i, j in ((0, 7), (7, 8), (8, None))]


def terms_and_sums(rng, name, dtype):
    """Returns three parts of the operands of an operation, and the exact sums, rounded once."""
    a, b = (rough(rng, (24, columns), dtype, spread=8) for columns in (3, 4))
    if name == "dot_general":
        return pieces(a, b), nearest_product(a.T, b, dtype)
    if name == "reduce_sum":
        return pieces(a), nearest(a)
    index, zeros = rng.integers(0, 4, 24), np.zeros((4, 3), dtype)
    parts = [[zeros, i[:, None], updates] for i, updates in pieces(index, a)]
    return parts, nearest_scatter(zeros, index, a)


@pytest.mark.parametrize("real", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sums_of_products_rows_and_scatters_are_exact(rng, name, real):
    parts, want = terms_and_sums(rng, name, real)
    got, doubts = plain(name, parts)
    assert doubts == 0
    assert_same(got, want)
    assert_same(by_levels(name, parts), want)


def test_products_that_cancel_are_in_doubt_and_are_counted_again(rng):
    a, b = rough(rng, (12, 3)), rough(rng, (12, 4))
    a, b = np.concatenate([a, a]), np.concatenate([b, -b])
    b[-1, 0] *= 2
    assert plain("dot_general", pieces(a, b))[1] > 0
    want = nearest_product(a.T, b, np.float32)
    assert_same(by_levels("dot_general", pieces(a, b)), want)


def test_ties_of_short_numbers_are_decided_without_another_count():
    a, b, x = (np.zeros((24, columns), np.float32) for columns in (3, 4, 5))
    a[:3, 0] = b[:3, 0] = 2.0**12, 1, 2.0**-9
    a[:2, 1] = b[:2, 1] = 2.0**12, 1
    got, doubts = plain("dot_general", pieces(a, b))
    assert doubts == 0
    assert (got[0, 0], got[1, 1]) == (2.0**24 + 2, 2.0**24)
    # The last term is in the second word.
    x[:3, 0] = 2.0**24, 1, 2.0**-40
    got, doubts = plain("reduce_sum", pieces(x))
    assert (got[0], doubts) == (2.0**24 + 2, 0)


@pytest.mark.parametrize("real", FLOATS)
def test_sums_of_a_wide_range(rng, real):
    x = rough(rng, (24, 5), real, spread=100 if real == "float32" else 900)
    x[12:] = -x[:12]
    x[3] *= 1 + 2.0**-20
    # A level says that this is more than a tie, and the next one that it is less.
    tie, unit = float(np.finfo(real).eps) / 2, 2.0**-64
    x[:, 1] = [2.0**64, 2.0**64 * tie, 0.6 * unit, -0.3 * unit, -0.4 * unit, *[0] * 19]
    # A tie of float64 with far smaller terms, and terms whose sums are beyond its range.
    x[:, 0] = [1, 2.0**-53, *[0] * 18, *[2.0**127] * 2, *[-(2.0**127)] * 2]
    if real == "float64":
        x[2:5, 0] = 2.0**-1000, -(2.0**-999), 2.0**-1022
        x[-4:, 0] *= 2.0**896
    assert_same(by_levels("reduce_sum", pieces(x)), nearest(x))
    assert plain("reduce_sum", pieces(x))[1] > 0


@pytest.mark.parametrize("first", [0, 4, 8])
def test_infinities_and_nans_are_sums_of_ieee_754(first):
    # They are terms of the first call, or of a later one, which adds to a state.
    inf, nan = np.inf, np.nan
    x = np.zeros((24, 5), np.float32)
    x[first : first + 2, :4] = [inf, inf, nan, 1], [1, -inf, 1, -1]
    want = np.float32([inf, nan, nan, 0])
    assert_same(plain("reduce_sum", pieces(x))[0][:4], want)
    ones = np.ones((24, 3), np.float32)
    got, doubts = plain("dot_general", pieces(ones, x[:, :4]))
    # Next to an infinity, a product has no parts, so the bound of the last sums is greater.
    assert_same(got[0, :3], want[:3])
    assert doubts == 3
    assert_same(by_levels("dot_general", pieces(ones, x[:, :4]))[0, 3:], want[3:])


def test_a_sum_of_zeros_is_positive():
    x = np.full((24, 5), -0.0, np.float32)
    assert_same(plain("reduce_sum", pieces(x))[0], np.zeros(5, np.float32))


def test_the_slack_bounds_the_error(rng):
    # The bits of a long product are more than two words hold.
    a, b = rough(rng, (200, 4), spread=60), rough(rng, (200, 4), spread=60)
    state = jax.jit(functools.partial(counted, "dot_general", np.int32(states.PLAIN)))(pieces(a, b))
    high, low, slack = (np.asarray(each) for each in states.unpacked(state))
    for i, j in np.ndindex(4, 4):
        pairs = zip(a[:, i], b[:, j], strict=True)
        exact = sum(Fraction(float(x)) * Fraction(float(y)) for x, y in pairs)
        error = abs(Fraction(float(high[i, j])) + Fraction(float(low[i, j])) - exact)
        assert error <= Fraction(float(slack[i, j]))


def test_merging_keeps_what_two_words_do_not_hold():
    def state(value):
        return states.packed([jnp.full((1,), x, np.float64) for x in (value, 0, 0)])

    total, merged = state(1.0), jax.jit(states.merged)
    for value in (2.0**-60, 2.0**-120, 2.0**-170, 0.0):
        total = merged(total, state(value))
    *_, slack = states.unpacked(total)
    assert slack[0] >= 2.0**-170


def test_which_operations_have_states():
    f32, i32, f64 = (jax.ShapeDtypeStruct((2, 2), d) for d in (np.float32, np.int32, np.float64))
    assert operations.is_known("dot_general", [f32, f32], f32)
    assert not operations.is_known("dot_general", [f64, f64], f32)
    assert not operations.is_known("dot_general", [i32, f32], f32)
    assert not operations.is_known("dot_general", [f32, f32], f64)
    assert operations.is_known("reduce_sum", [f64], f64)
    assert not operations.is_known("exp", [f32], f32)

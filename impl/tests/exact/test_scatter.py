"""Scatters of any form, against the oracle in integers.

Tests: impl._exact.sums.reduction.
"""

import functools

import jax
import numpy as np
import pytest

from impl._exact import arithmetic
from impl._exact.sums import reduction
from impl._native import scope
from impl.tests.exact._scatters import ROWS, SCALARS, hard_scatters, of_oracle, padded
from impl.tests.exact._sums import DTYPES, assert_same, rough, run
from impl.tests.run_to_run.drawn_scatters import draw
from spec import oracles


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatters_of_any_form_have_the_bits_of_the_oracle(rng, dtype):
    drawn = [each for each in (draw(rng) for _ in range(20)) if 3 < each.updates.size < 200]
    for each in drawn[: 3 if dtype == "float32" else 1]:
        operand, updates = (rough(rng, x.shape, dtype, 7) for x in (each.operand, each.updates))
        options = {"dimension_numbers": each.numbers, "mode": each.mode}
        add = functools.partial(reduction.scatter_add, **options)
        got = run(add, operand, each.indices, updates)
        want = of_oracle(each.numbers, each.mode, operand, each.indices, updates)
        assert_same(got, want, f"{each.numbers} {each.mode}")


in_rows = functools.partial(reduction.scatter_add, dimension_numbers=ROWS, mode="drop")


def subtracted(operand, index, updates):
    return in_rows(operand, index, -updates, subtract=True)


def of_scalars(operand, index, updates):
    """Adds the first column alone."""
    first = operand[:, 0], index, updates[:, 0]
    return reduction.scatter_add(*first, dimension_numbers=SCALARS, mode="drop")[:, None]


@pytest.mark.parametrize(
    ("dtype", "name"),
    [(dtype, name) for dtype in DTYPES for name in hard_scatters(np.random.default_rng(0), dtype)],
)
def test_hard_terms_have_the_bits_of_the_oracle(rng, dtype, name):
    arrays = hard_scatters(rng, dtype)[name]
    want = oracles.nearest_scatter(*arrays)
    rows, columns = want.shape
    programs = [in_rows, of_scalars, subtracted] if dtype == "float32" else [in_rows]
    for program in programs:
        part = run(program, *padded(*arrays))[:rows, :columns]
        assert_same(part, want[:, : part.shape[1]], str(program))


def test_rows_with_unique_indices(rng):
    updates, operand = rough(rng, (200, 3), spread=40), rough(rng, (205, 3), spread=40)
    index = rng.permutation(230)[:200].astype(np.int32)
    unique = functools.partial(in_rows, unique_indices=True)
    got = run(unique, operand, index[:, None], updates)
    assert_same(got, oracles.nearest_scatter(operand, index, updates))


def test_parts_stay_apart(rng):
    values = rough(rng, (40, 6), "float64", 6)
    index = np.zeros((38, 1), np.int32)
    got = run(in_rows, values[:2], index, values[2:])
    assert_same(got[0], oracles.nearest(np.delete(values, 1, 0)))


def test_no_subnormal_enters_where_the_device_adds_them():
    args = np.zeros((2, 1), np.float32), np.zeros((3, 1), np.int32), np.zeros((3, 1), np.float32)
    with scope.within(0), arithmetic.wide():
        text = str(jax.make_jaxpr(in_rows)(*args))
    # Parts of the operand and of the updates, and the rounded sums.
    assert text.count(str(2.0**-126 * (1 - 2.0**-25))) == 3


def test_nothing_is_written_to_nothing():
    empty = np.zeros((0, 3), np.float32)
    got = run(in_rows, empty, np.zeros((2, 1), np.int32), np.ones((2, 3), np.float32))
    assert got.shape == (0, 3)
    got = run(in_rows, np.ones((2, 3), np.float32), np.zeros((0, 1), np.int32), empty)
    assert_same(got, np.ones((2, 3), np.float32))


def test_one_update_without_an_axis():
    operand, index, update = np.float32([1.0, 2.0**24]), np.array([0]), np.float32(1.0)
    program = functools.partial(reduction.scatter_add, dimension_numbers=SCALARS)
    got = run(program, operand, index, update)
    assert_same(got, np.array([2.0, 2.0**24], np.float32))

"""Scatters of any form, against the oracle in integers; and replicas of hot destinations.

Tests: impl._exact.sums.scatter.
"""

import functools

import jax
import numpy as np
import pytest

from impl._exact import arithmetic
from impl._exact.sums import scatter
from impl._exact.sums.scatter import Replicas
from impl._native import scope
from impl.tests.exact._scatters import ROWS, SCALARS, hard_scatters, of_oracle, padded
from impl.tests.exact._sums import DTYPES, assert_same, rough, run
from impl.tests.run_to_run.drawn_scatters import draw
from spec import oracles

TARGETS = ("anywhere", "device", "cpu")


@pytest.fixture(autouse=True)
def _few_replicas(monkeypatch):
    monkeypatch.setattr(scatter, "_FEW", 10)
    monkeypatch.setattr(scatter, "_SHARE", 1)
    monkeypatch.setattr(scatter, "_SLOTS", 4)


def all_places(operand, indices, updates, **options):
    return [
        scatter.scatter_add(operand, indices, updates, target=target, **options)
        for target in TARGETS
    ]


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatters_of_any_form_have_the_bits_of_the_oracle(rng, dtype):
    drawn = [each for each in (draw(rng) for _ in range(20)) if 3 < each.updates.size < 200]
    for each in drawn[: 3 if dtype == "float32" else 1]:
        operand, updates = (rough(rng, x.shape, dtype, 7) for x in (each.operand, each.updates))
        options = {"dimension_numbers": each.numbers, "mode": each.mode}
        got = run(functools.partial(all_places, **options), operand, each.indices, updates)
        want = of_oracle(each.numbers, each.mode, operand, each.indices, updates)
        for target, one in zip(TARGETS, got, strict=True):
            assert_same(one, want, f"{target} {each.numbers} {each.mode}")


def in_rows(operand, index, updates):
    return all_places(operand, index, updates, dimension_numbers=ROWS, mode="drop")


def subtracted(operand, index, updates):
    options = {"dimension_numbers": ROWS, "mode": "drop", "subtract": True}
    return all_places(operand, index, -updates, **options)


def of_scalars(operand, index, updates):
    """Adds the first column alone."""
    return [
        each[:, None]
        for each in all_places(
            operand[:, 0], index, updates[:, 0], dimension_numbers=SCALARS, mode="drop"
        )
    ]


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
        for target, got in zip(TARGETS, run(program, *padded(*arrays)), strict=True):
            part = got[:rows, :columns]
            assert_same(part, want[:, : part.shape[1]], f"{target} {program.__name__}")


def test_rows_with_unique_indices(rng):
    updates, operand = rough(rng, (200, 3), spread=40), rough(rng, (205, 3), spread=40)
    index = rng.permutation(230)[:200].astype(np.int32)
    options = {"dimension_numbers": ROWS, "mode": "drop", "unique_indices": True}
    want = oracles.nearest_scatter(operand, index, updates)
    results = run(functools.partial(all_places, **options), operand, index[:, None], updates)
    for target, result in zip(TARGETS, results, strict=True):
        assert_same(result, want, target)


def test_parts_stay_apart(rng):
    values = rough(rng, (40, 6), "float64", 6)
    index = np.zeros((38, 1), np.int32)
    program = functools.partial(scatter.scatter_add, dimension_numbers=ROWS, mode="drop")
    got = run(program, values[:2], index, values[2:])
    assert_same(got[0], oracles.nearest(np.delete(values, 1, 0)))


def test_no_subnormal_enters_where_the_device_adds_them():
    options = {"dimension_numbers": SCALARS, "mode": "drop"}
    args = np.zeros(2, np.float32), np.zeros((3, 1), np.int32), np.zeros(3, np.float32)

    def text(target):
        function = functools.partial(scatter.scatter_add, target=target, **options)
        with scope.within(0), arithmetic.wide():
            return str(jax.make_jaxpr(function)(*args))

    least = str(2.0**-126 * (1 - 2.0**-25))
    # Parts of the operand and of the updates, and the rounded sums.
    assert [text(target).count(least) for target in TARGETS] == [3, 3, 3]


def test_nothing_is_written_to_nothing():
    empty = np.zeros((0, 3), np.float32)
    function = functools.partial(all_places, dimension_numbers=ROWS, mode="drop")
    for got in run(function, empty, np.zeros((2, 1), np.int32), np.ones((2, 3), np.float32)):
        assert got.shape == (0, 3)
    for got in run(function, np.ones((2, 3), np.float32), np.zeros((0, 1), np.int32), empty):
        assert_same(got, np.ones((2, 3), np.float32))


def test_one_update_without_an_axis():
    operand, index, update = np.float32([1.0, 2.0**24]), np.array([0]), np.float32(1.0)
    program = functools.partial(all_places, dimension_numbers=SCALARS)
    for got in run(program, operand, index, update):
        assert_same(got, np.array([2.0, 2.0**24], np.float32))


N, SIZE = 4000, 500


@pytest.fixture
def small_tables(monkeypatch):
    monkeypatch.setattr(scatter, "_FEW", 100)
    monkeypatch.setattr(scatter, "_SLOTS", 32)
    monkeypatch.setattr(scatter, "_SHARE", 4)


def keys_of(rng, kind, size):
    if kind == "uniform":
        return rng.integers(0, size + 1, N)
    if kind == "zipf":
        return (rng.zipf(1.1, N) - 1) % size
    if kind == "sorted":
        return np.sort(rng.integers(0, size, N))
    # "hot": one destination is in range. Else no index is.
    return np.where(rng.random(N) < 0.9, size - 1, size) if kind == "hot" else np.full(N, size)


def run_replicas(keys, initial, updates):
    @jax.jit
    def function(keys, initial, updates):
        found = Replicas.of(keys, len(initial), width=initial[0].size)
        return found.add(initial, updates), found.rows

    return function(keys.astype(np.int32), initial, updates)


@pytest.mark.usefixtures("small_tables")
@pytest.mark.parametrize("size", [1, 7, SIZE])
@pytest.mark.parametrize("kind", ["uniform", "zipf", "sorted", "hot", "none"])
def test_replicas_change_no_result(rng, kind, size):
    keys = keys_of(rng, kind, size)
    inside = keys < size
    for shape in ((), (3,)):
        initial = rng.integers(-9, 9, (size, *shape)).astype(np.int32)
        updates = rng.integers(-99, 99, (N, *shape)).astype(np.int32)
        want = initial.copy()
        np.add.at(want, keys[inside], updates[inside])
        got, _ = run_replicas(keys, initial, updates)
        np.testing.assert_array_equal(got, want)


@pytest.mark.usefixtures("small_tables")
@pytest.mark.parametrize("size", [1, SIZE])
def test_no_row_has_many_updates_of_a_hot_destination(rng, size):
    keys = keys_of(rng, "hot", size)
    _, rows = run_replicas(keys, np.zeros(size, np.int32), np.ones(N, np.int32))
    assert np.bincount(np.asarray(rows)[keys < size]).max() <= N // 16


@pytest.mark.usefixtures("small_tables")
def test_few_or_unique_updates_have_no_replicas():
    keys = np.arange(SIZE, dtype=np.int32)
    assert Replicas.of(keys, SIZE, unique=True).copies == 1
    assert Replicas.of(keys[:50], SIZE).copies == 1

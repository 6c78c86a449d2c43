"""Scatters of any form, against the oracle in integers; and replicas of hot destinations.

Tests: impl._exact.sums.scatter.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from impl._exact import arithmetic
from impl._exact.sums import scatter
from impl._exact.sums.scatter import Replicas
from impl._native import scope
from impl.tests.exact._sums import DTYPES, assert_same, rough, run
from impl.tests.exact._terms import hard_matrix, outweighed_terms, serial_terms
from impl.tests.run_to_run.drawn_scatters import draw
from spec import oracles

TARGETS = ("anywhere", "device", "cpu")
ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))
SCALARS = lax.ScatterDimensionNumbers((), (0,), (0,))


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


def terms_of(drawn, operand, updates):
    """Returns the operand, and for each update its value at its destination and 0 elsewhere."""

    def hit(number):
        one = (jnp.arange(updates.size) == number).reshape(updates.shape)
        return drawn(jnp.zeros(operand.shape), drawn.indices, one.astype(jnp.float32))

    hits = np.asarray(jax.jit(jax.vmap(hit))(jnp.arange(updates.size)))
    zero = np.zeros((), operand.dtype)
    values = updates.reshape(-1, *(1,) * operand.ndim)
    return np.concatenate([operand[None], np.where(hits != 0, values, zero)])


def cases(rng, dtype, number):
    while number:
        drawn = draw(rng)
        if 3 < drawn.updates.size < 200:
            operand = rough(rng, drawn.operand.shape, dtype, 7)
            updates = rough(rng, drawn.updates.shape, dtype, 7)
            yield drawn, operand, updates
            number -= 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_scatters_of_any_form_have_the_bits_of_the_oracle(rng, dtype):
    for drawn, operand, updates in cases(rng, dtype, 3 if dtype == "float32" else 1):
        options = {"dimension_numbers": drawn.numbers, "mode": drawn.mode}
        got = run(functools.partial(all_places, **options), operand, drawn.indices, updates)
        want = oracles.nearest(terms_of(drawn, operand, updates))
        for target, one in zip(TARGETS, got, strict=True):
            assert_same(one, want, f"{target} {drawn.numbers} {drawn.mode}")


@pytest.mark.once
@pytest.mark.parametrize("dtype", DTYPES)
def test_hard_terms_have_the_bits_of_the_oracle_in_any_order(rng, dtype):
    values = hard_matrix(rng, 51, dtype)
    # Row 0 has an initial value that is one of the terms; row 1 has fewer terms; row 2 has none.
    operand = np.zeros((3, values.shape[1]), values.dtype)
    operand[0], operand[1:], values = values[50], -0.0, values[:50]
    index = np.zeros((50, 1), np.int32)
    index[42:] = 1
    order = rng.permutation(50)

    def program(operand, index, values):
        options = {"dimension_numbers": ROWS, "mode": "drop"}
        return [
            all_places(operand, i, v, subtract=subtract, **options)
            for i, v, subtract in (
                (index, values, False),
                (index[order], values[order], False),
                (index, -values, True),
            )
        ]

    want = oracles.nearest_scatter(operand, index[:, 0], values)
    for results in run(program, operand, index, values):
        for target, result in zip(TARGETS, results, strict=True):
            assert_same(result, want, target)


@pytest.mark.once
@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("name", serial_terms())
def test_the_order_of_a_cpu_may_be_the_worst_one(name, width):
    values = np.repeat(serial_terms()[name][:, None], width, 1)
    index = np.zeros((len(values), 1), np.int32)
    operand = np.zeros((1, width), np.float32)
    want = oracles.nearest_scatter(operand, index[:, 0], values)
    program = functools.partial(all_places, dimension_numbers=ROWS)
    for target, result in zip(TARGETS, run(program, operand, index, values), strict=True):
        assert_same(result, want, target)


def test_lower_parts_may_outweigh_higher_ones():
    values = outweighed_terms(2.0**-24).astype(np.float32)
    index, operand = (
        np.zeros((len(values), 1), np.int32),
        np.zeros((1, values.shape[1]), np.float32),
    )
    program = functools.partial(all_places, dimension_numbers=ROWS)
    for target, result in zip(TARGETS, run(program, operand, index, values), strict=True):
        assert_same(result, np.full_like(operand, 1 + 2.0**-23), target)


def test_the_last_bits_of_the_operand_decide_a_tie():
    operand = np.array([[2.0**-120], [-(2.0**-120)]], np.float32)
    index = np.array([[0], [0], [1], [1]], np.int32)
    values = np.array([[1], [2.0**-24], [1], [2.0**-24]], np.float32)
    program = functools.partial(all_places, dimension_numbers=ROWS)
    for place, result in zip(TARGETS, run(program, operand, index, values), strict=True):
        assert_same(result, np.array([[1 + 2.0**-23], [1]], np.float32), place)


def test_an_infinity_is_one_part_and_leaves_other_sums_alone():
    most, inf = float(np.finfo(np.float32).max), np.inf
    sums = {
        0: [inf, 1],
        1: [inf, -inf],
        2: [np.nan, 1],
        3: [1, 2.0**-24, 2.0**-80],
        4: [most, most],
    }
    index = np.array([[row] for row, terms in sums.items() for _ in terms], np.int32)
    values = np.concatenate(list(sums.values())).astype(np.float32)
    program = functools.partial(all_places, dimension_numbers=SCALARS)
    want = np.array([inf, np.nan, np.nan, 1 + 2.0**-23, inf], np.float32)
    for operand in (np.zeros(5, np.float32), np.array([-1, 0, 0, 0, 0], np.float32)):
        for place, result in zip(TARGETS, run(program, operand, index, values), strict=True):
            assert_same(result, want, place)


def test_float64_of_any_exponent(rng):
    values = rng.standard_normal((40, 8)) * 2.0 ** rng.integers(-1000, 1000, (40, 8))
    values[:20] = -values[20:]
    values[3], values[23] = 2.0**1023, 2.0**-1022
    # A tie that a term more than a thousand binades below it breaks, at both kinds of neighbours.
    values[:, 0], values[:, 1], values[:, 2] = 0, 0, 0
    values[:3, 0] = 1 + 2.0**-52, 2.0**-53, -(2.0**-1022)
    values[:3, 1] = 2.0**1000, -(2.0**946), 2.0**-1022
    values[:3, 2] = 2.0**1000, -(2.0**946), -(2.0**-1022)
    index = np.zeros((40, 1), np.int32)
    program = functools.partial(all_places, dimension_numbers=ROWS)
    want = oracles.nearest_scatter(np.zeros((1, 8)), index[:, 0], values)
    for target, result in zip(TARGETS, run(program, np.zeros((1, 8)), index, values), strict=True):
        assert_same(result, want, target)


@pytest.mark.parametrize("width", [1, 8])
def test_scatters_of_whole_rows(rng, width):
    updates, operand = rough(rng, (200, width), spread=40), rough(rng, (5, width), spread=40)
    index = rng.integers(-1, 6, (200, 1)).astype(np.int32)
    for unique in (False, True):
        if unique:
            index = np.arange(200, dtype=np.int32)[:, None]
        options = {"dimension_numbers": ROWS, "mode": "drop", "unique_indices": unique}
        want = oracles.nearest_scatter(operand, index[:, 0], updates)
        results = run(functools.partial(all_places, **options), operand, index, updates)
        for target, result in zip(TARGETS, results, strict=True):
            assert_same(result, want, target)


def test_a_batch_of_scatters_is_one_scatter_with_batch_axes(rng):
    operand, updates = rough(rng, (3, 5)), rough(rng, (3, 40))
    index = rng.integers(0, 5, (3, 40, 1)).astype(np.int32)

    def one(operand, index, updates):
        return lax.scatter_add(operand, index, updates, SCALARS, mode="drop")

    equations = jax.make_jaxpr(jax.vmap(one))(operand, index, updates).eqns
    (batched,) = [equation for equation in equations if equation.primitive is lax.scatter_add_p]
    options = {"dimension_numbers": batched.params["dimension_numbers"], "mode": "drop"}
    got = run(functools.partial(all_places, **options), operand, index, updates)
    want = np.array(
        [
            [
                oracles.nearest(np.append(updates[b][index[b, :, 0] == d], operand[b, d]))
                for d in range(5)
            ]
            for b in range(3)
        ],
        np.float32,
    )
    for each in got:
        assert_same(each, want)


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


@pytest.mark.parametrize("target", TARGETS)
def test_one_update_without_an_axis(target):
    operand, update = jnp.array([1.0, 2.0**24]), jnp.float32(1.0)
    whole = lax.ScatterDimensionNumbers((), (0,), (0,))
    with arithmetic.wide():
        got = jax.jit(
            functools.partial(scatter.scatter_add, target=target, dimension_numbers=whole)
        )(operand, jnp.array([0]), update)
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

"""Scatters of the engine ``native``, against the oracle and the engine of XLA.

Tests: impl._native.scatters.
"""

import functools
import itertools

import jax
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from impl._exact.sums import reduction
from impl._native import library, scatters, scope
from impl.tests.exact._scatters import ROWS, SCALARS, destinations, hard_scatters, of_oracle
from impl.tests.exact._sums import (
    DTYPES,
    assert_bounds_and_digits,
    assert_same,
    hard_matrix,
    rough,
    run,
    serial_terms,
    with_specials,
)
from impl.tests.run_to_run.drawn_scatters import draw
from spec import oracles

pytestmark = pytest.mark.skipif(not library.is_available(), reason="needs the library in C++")

MODES = ("drop", "clip", "promise_in_bounds")
numbered = lax.ScatterDimensionNumbers


def native(operand, indices, updates, **options):
    """Returns the result of the engine."""

    def program(*arrays):
        result = scatters.scatter_add(*arrays, **options)
        assert result is not None
        return result

    return run(scope.with_calls(program), operand, indices, updates)


@pytest.mark.parametrize("dtype", DTYPES)
def test_hard_terms_have_the_bits_of_the_oracle(rng, dtype):
    for name, (operand, index, values) in hard_scatters(rng, dtype).items():
        want = oracles.nearest_scatter(operand, index, values)
        rows = index[:, None].astype(np.int32)
        options = {"dimension_numbers": ROWS, "mode": "drop"}
        assert_same(native(operand, rows, values, **options), want, name)
        assert_same(native(operand, rows, -values, subtract=True, **options), want, name)
        # A column alone, as scalars and as narrow rows.
        options = {"dimension_numbers": SCALARS, "mode": "drop"}
        assert_same(native(operand[:, 0], rows, values[:, 0], **options), want[:, 0], name)
        assert_same(
            native(operand[:, :1], rows, values[:, :1], dimension_numbers=ROWS), want[:, :1]
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_drawn_scatters_have_the_bits_of_the_oracle(rng, dtype, mode):
    drawn = [each for each in (draw(rng) for _ in range(12)) if 0 < each.updates.size <= 400]
    arrays = [
        (rough(rng, d.operand.shape, dtype, 7), d.indices, rough(rng, d.updates.shape, dtype, 7))
        for d in drawn
    ]

    def program(arrays):
        return [
            scatters.scatter_add(*each, dimension_numbers=d.numbers, mode=mode)
            for each, d in zip(arrays, drawn, strict=True)
        ]

    for got, each, d in zip(run(scope.with_calls(program), arrays), arrays, drawn, strict=True):
        want = of_oracle(d.numbers, mode, *each)
        assert_same(got, want, f"{d.numbers} {each[0].shape} {each[2].shape}")


#: Forms with each kind of loop: an operand, an array of indices, updates and dimension numbers.
FORMS = {
    "slices of rows": ((30, 7), (50, 1), (50, 3, 7), numbered((1, 2), (), (0,))),
    "slices of both axes": ((30, 40), (60, 2), (60, 5, 9), numbered((1, 2), (), (0, 1))),
    "elements by two indices": ((30, 40), (600, 2), (600,), numbered((), (0, 1), (0, 1))),
    "columns": ((12, 90), (70, 1), (12, 70), numbered((0,), (1,), (1,))),
    "windows before indices": ((20, 30), (80, 1), (30, 80), numbered((0,), (0,), (0,))),
    "the middle axis": ((6, 20, 11), (5, 40, 1), (5, 6, 40, 11), numbered((1, 3), (1,), (1,))),
    "a batch of scatters": ((8, 30), (8, 90, 1), (8, 90), numbered((), (1,), (1,), (0,), (0,))),
    "a batch along the last axis": (
        *((30, 8), (90, 8, 1), (90, 8), numbered((), (0,), (0,), (1,), (1,))),
    ),
    "a batch of rows": (
        *((4, 30, 9), (70, 4, 1), (70, 4, 9), numbered((2,), (1,), (1,), (0,), (1,))),
    ),
    "one window": ((30, 40), (2,), (20, 30), numbered((0, 1), (), (0, 1))),
}


@pytest.mark.parametrize(("form", "mode"), list(zip(FORMS, itertools.cycle(MODES), strict=False)))
def test_forms_have_the_bits_of_the_oracle(rng, form, mode):
    shape, of_indices, of_updates, numbers = FORMS[form]
    indices = rng.integers(-3, max(shape) + 2, of_indices).astype(np.int32)
    operand = with_specials(rng, rough(rng, shape, spread=4))
    updates = with_specials(rng, rough(rng, of_updates, spread=40))
    got = native(operand, indices, updates, dimension_numbers=numbers, mode=mode)
    assert_same(got, of_oracle(numbers, mode, operand, indices, updates))


@pytest.mark.parametrize("integer", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"])
def test_indices_of_each_dtype_by_the_oracle(rng, integer):
    info = np.iinfo(integer)
    index = rng.integers(0, 100, (500, 1)).astype(integer)
    index[::7], index[1::7] = info.max, info.min
    operand, updates = np.zeros((90, 1), np.float32), rough(rng, (500, 1))
    for mode in MODES:
        options = {"dimension_numbers": ROWS, "mode": mode}
        want = of_oracle(ROWS, mode, operand, index, updates)
        assert_same(native(operand, index, updates, **options), want, mode)


#: A dtype changes how an element is read, and a shape how the work is divided.
BY_THREADS = [
    (200_000, 7, 1),
    (3000, 50, 40),
    (120_000, 1, 1),
    (60_000, 3000, 1),
    (60_000, 70_000, 1),
    (500, 300_000, 1),
    (40_000, 90, 3),
    (3000, 7000, 64),
    (100, 9000, 70),
]


@pytest.mark.parametrize(
    ("dtype", "count", "size", "width"),
    [
        (dtype, *shape)
        for dtype in DTYPES
        for shape in (BY_THREADS if dtype == "float32" else BY_THREADS[:2])
    ],
)
def test_rows_by_threads_have_the_bits_of_the_other_engine(rng, dtype, count, size, width):
    index = rng.integers(-1, size + 1, (count, 1)).astype(np.int32)
    operand = rough(rng, (size, width), dtype, 4)
    updates = rough(rng, (count, width), dtype, 4)
    if dtype in ("float32", "float64"):
        # Some destinations have terms that no pair of float64 holds, and some sums are ties.
        updates *= np.float32(2.0) ** rng.integers(-60, 60, (count, 1)).astype(np.float32)
        updates[count // 2 : count // 2 * 2] = -updates[: count // 2]
        index[count // 2 : count // 2 * 2 - 20] = index[: count // 2 - 20]
    options = {"dimension_numbers": ROWS, "mode": "drop"}
    ours = scope.with_calls(functools.partial(scatters.scatter_add, **options))
    others = functools.partial(reduction.scatter_add, **options)
    for each in (updates, with_specials(rng, updates)):
        assert_same(run(ours, operand, index, each), run(others, operand, index, each))


@pytest.mark.parametrize("name", serial_terms())
def test_long_sums_that_float64_gets_wrong_by_the_oracle(name):
    values = np.repeat(serial_terms()[name][:, None], 3000, 0)
    index, operand = np.zeros((len(values), 1), np.int32), np.zeros((1, 1), np.float32)
    want = oracles.nearest_scatter(operand, index[:, 0], values)
    assert_same(native(operand, index, values, dimension_numbers=ROWS), want)


def test_every_sum_is_in_doubt_by_the_oracle(rng):
    # More sums than accumulators are used at once, each with terms that no pair holds.
    size = 5000
    tie = np.array([1, 2.0**-24, 2.0**-126, 2.0**100, -(2.0**100)], np.float32)
    values = np.repeat(tie, size)
    values[2 * size : 3 * size] *= rng.choice([1, -1, 0], size).astype(np.float32)
    index = np.tile(np.arange(size, dtype=np.int32), 5)[:, None]
    operand = np.zeros((size,), np.float32)
    sign = values[2 * size : 3 * size]
    want = np.where(sign > 0, np.float32(1 + 2.0**-23), np.float32(1))
    for order in (np.arange(5 * size), rng.permutation(5 * size)):
        got = native(operand, index[order], values[order], dimension_numbers=SCALARS)
        assert_same(got, want)


@pytest.mark.parametrize(
    ("dtype", "width", "is_unique"),
    [*(("float32", n, False) for n in (1, 3, 9)), *((d, n, True) for d in DTYPES for n in (1, 20))],
)
def test_sorted_indices_by_the_oracle(rng, dtype, width, is_unique):
    operand = with_specials(rng, rough(rng, (100, width), dtype, 6))
    updates = with_specials(rng, rough(rng, (400, width), dtype, 6))
    index = rng.permutation(120)[:70] if is_unique else rng.integers(-1, 101, 400)
    index, updates = np.sort(index).astype(np.int32), updates[: len(index)]
    options = {"dimension_numbers": ROWS, "indices_are_sorted": True, "unique_indices": is_unique}
    for subtract in (False, True):
        want = oracles.nearest_scatter(operand, index, -updates if subtract else updates)
        got = native(operand, index[:, None], updates, subtract=subtract, **options)
        assert_same(got, want)


def test_windows_of_unique_indices_may_overlap_in_the_oracle(rng):
    numbers = lax.ScatterDimensionNumbers((1,), (), (0,))
    operand, updates = rough(rng, (40,)), rough(rng, (30, 5))
    index = rng.permutation(36)[:30, None].astype(np.int32)
    got = native(operand, index, updates, dimension_numbers=numbers, unique_indices=True)
    assert_same(got, of_oracle(numbers, "drop", operand, index, updates))


def test_updates_may_have_another_dtype_than_the_operand(rng):
    operand, updates = rough(rng, (9, 30), "bfloat16"), rough(rng, (200, 30))
    index = rng.integers(0, 9, (200, 1)).astype(np.int32)
    got = native(operand, index, updates, dimension_numbers=ROWS)
    terms = [np.concatenate([operand[[row]], updates[index[:, 0] == row]]) for row in range(9)]
    assert_same(got, np.stack([oracles.nearest(each, operand.dtype) for each in terms]))


def test_what_the_engine_has_no_call_for():
    x, index = np.ones((3, 4), np.float32), np.zeros((2, 1), np.int32)
    for dtype in (np.int32, np.float64):
        with jax.enable_x64(True):
            one = scatters.scatter_add(x, index, x[:2].astype(dtype), dimension_numbers=ROWS)
        assert one is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", ["columns", "a batch of rows", "slices of both axes"])
def test_bounds_and_digits_of_parts_give_the_exact_sum(rng, form, dtype):
    shape, of_indices, of_updates, numbers = FORMS[form]
    indices = rng.integers(0, min(shape), of_indices).astype(np.int32)
    operand, updates = rough(rng, shape, dtype, 4), rough(rng, of_updates, dtype, 4)
    windows = dict(scatters._windows(numbers, len(shape)))
    whole = tuple(axis in windows for axis in range(len(shape)))
    rank = len(of_updates)
    operation = scatters.Scatter(
        numbers, whole, rank, operand.dtype, clip=False, subtract=False, unique=False
    )
    terms, flat = updates.astype(np.float64).reshape(-1, 1), operand.reshape(-1, 1)
    places = destinations(numbers, "drop", shape, indices, of_updates)
    want = oracles.nearest_scatter(flat.astype(np.float64), places, terms).ravel()
    most = 1e-14 * (np.abs(want) + 1e-30)
    assert_bounds_and_digits(operation, want, operand, indices, updates, most=most)


def test_devices_that_share_sums_add_them_by_the_oracle(rng):
    # One device, whose sums take the way of many.
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))
    values = hard_matrix(rng, 51)
    operand = np.zeros((3, values.shape[1]), np.float32)
    operand[0], values = values[50], values[:50]
    index = rng.integers(0, 2, (50, 1)).astype(np.int32)

    def add(*arrays):
        return scatters.scatter_add(*arrays, dimension_numbers=ROWS, axis_names=("x",))

    cut = P("x")
    program = jax.shard_map(
        scope.with_calls(add), mesh=mesh, in_specs=(P(), cut, cut), out_specs=P(), check_vma=False
    )
    got = run(program, operand, index, values)
    assert_same(got, oracles.nearest_scatter(operand, index[:, 0], values))


def test_names_of_axes_that_devices_may_cut():
    def names(form, rank, whole):
        numbers = FORMS[form][3]
        dtype = np.dtype(np.float32)
        operation = scatters.Scatter(
            numbers, whole, rank, dtype, clip=False, subtract=False, unique=False
        )
        return operation.operands, operation.result, set(operation.summed)

    assert names("columns", 2, (True, False)) == (
        (("axis0", None), ("index0", None), ("axis0", "index0")),
        ("axis0", None),
        {"index0"},
    )
    assert names("a batch of rows", 3, (False, False, True)) == (
        (("axis0", None, "axis2"), ("index0", "axis0", None), ("index0", "axis0", "axis2")),
        ("axis0", None, "axis2"),
        {"index0"},
    )
    assert names("slices of both axes", 3, (False, False)) == (
        ((None, None), ("index0", None), ("index0", None, None)),
        (None, None),
        {"index0"},
    )


def test_the_rests_of_lanes_may_lose_bits():
    # Updates of one sum go to eight lanes in turn, and the sums of two lanes differ by 60 bits.
    updates = np.zeros(256, np.float32)
    updates[[0, 8, 16]] = 2.0**100, 2.0**40, 2.0**16
    updates[[1, 9]] = -(2.0**100), 2.0**-20
    result = native(
        np.zeros(1, np.float32), np.zeros((256, 1), np.int32), updates, dimension_numbers=SCALARS
    )
    assert result.tolist() == [2.0**40 + 2.0**17]

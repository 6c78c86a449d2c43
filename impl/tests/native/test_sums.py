"""Reductions, running sums and sums of parts of the engine ``native``, against the oracle."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._exact.sums import reduction
from impl._native import library, sums
from impl.tests.exact._sums import (
    DTYPES,
    assert_bounds_and_digits,
    assert_same,
    hard_matrix,
    results_for,
    rough,
    run,
    serial_terms,
    with_minus_zeros,
    with_specials,
)
from spec import oracles

pytestmark = pytest.mark.skipif(not library.is_available(), reason="needs the library in C++")

#: Shapes and axes that have each kind of loop: rows, columns, short ones, narrow ones, both.
REDUCTIONS = [
    ((5000,), (0,)),
    ((7, 300), (1,)),
    ((300, 7), (0,)),
    ((300, 130), (0,)),
    ((9, 1030), (0,)),
    ((700, 3), (1,)),
    ((3, 700), (0,)),
    ((1, 90, 1), (1,)),
    ((90, 1), (1,)),
    ((6, 5, 4, 64), (0, 1, 2)),
    ((6, 64, 5, 4), (0, 2, 3)),
    ((6, 5, 40, 30), (0, 2)),
    ((6, 5, 40, 30), (1, 3)),
    ((3, 4, 2, 5, 3, 2), (0, 2, 4)),
    ((3, 4, 2, 5, 3, 2), (1, 3, 5)),
]


def terms_first(x, axes):
    """Returns the array with the summed axes merged and moved to the front."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = [x.shape[axis] for axis in kept]
    return np.transpose(x, (*axes, *kept)).reshape(-1, *shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [2, 15, 77, 300])
def test_reductions_of_hard_terms_have_the_bits_of_the_oracle(rng, dtype, count):
    x = hard_matrix(rng, max(count, 8), dtype)[:count]

    def of(x, to):
        return [
            sums.reduce_sum(x, (0,), to),
            sums.reduce_sum(x.T, (1,), to),
            sums.reduce_sum(x.T[:3], (-1,), to),
            sums.reduce_sum(x[:, :5], (0,), to),
        ]

    results = run(lambda x: {to: of(x, DTYPES[to]) for to in results_for(dtype)}, x)
    for to, got in results.items():
        want = oracles.nearest(x, DTYPES[to])
        for one, other in zip(got, [want, want, want[:3], want[:5]], strict=True):
            assert_same(one, other, to)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reductions_of_each_shape_have_the_bits_of_the_oracle(rng, dtype):
    arrays = []
    for shape, _ in REDUCTIONS:
        plain = rough(rng, shape, dtype, 5)
        arrays.append([plain, np.round(plain), with_specials(rng, plain)])
    axes = [each for _, each in REDUCTIONS]
    results = run(
        lambda several: [
            [sums.reduce_sum(x, each) for x in arrays]
            for arrays, each in zip(several, axes, strict=True)
        ],
        arrays,
    )
    for (shape, axes_of), several, got in zip(REDUCTIONS, arrays, results, strict=True):
        for x, one in zip(several, got, strict=True):
            assert_same(one, oracles.nearest(terms_first(x, axes_of)), f"{shape} {axes_of}")


#: A dtype changes how an element is read, and a shape how the work is divided.
BY_THREADS = [
    ((200_001,), (0,)),
    ((3000, 70), (0,)),
    ((70, 3000), (1,)),
    ((60_000, 3), (0,)),
    ((60_000, 3), (1,)),
    ((40, 30, 20, 10), (0, 2)),
    ((40, 30, 20, 10), (1, 3)),
]


@pytest.mark.parametrize(
    ("dtype", "shape", "axes"),
    [
        (dtype, *each)
        for dtype in DTYPES
        for each in (BY_THREADS if dtype == "float32" else BY_THREADS[:2])
    ],
    ids=str,
)
def test_reductions_by_threads_have_the_bits_of_the_other_engine(rng, shape, axes, dtype):
    x = rough(rng, shape, dtype, 12 if dtype == "float16" else 60)
    cancelling = x.copy()
    cancelling[len(x) // 2 :] = -x[: len(x) - len(x) // 2]
    engines = [
        functools.partial(module.reduce_sum, axes=axes, dtype=DTYPES[results_for(dtype)[0]])
        for module in (sums, reduction)
    ]
    for each in (x, cancelling, np.round(rough(rng, shape, dtype, 2) * 2), with_specials(rng, x)):
        assert_same(*(run(engine, each) for engine in engines))


def test_sums_that_float64_gets_wrong():
    for label, x in serial_terms().items():
        for times in (1, 3000):
            terms = np.repeat(x, times)
            got = run(lambda x: sums.reduce_sum(x, (0,)), terms)
            assert_same(got, oracles.nearest(terms), label)


def test_terms_of_all_exponents(rng):
    x = rough(rng, (400, 60), spread=0) * np.float32(2.0) ** rng.integers(-126, 127, (400, 60))
    x = x.astype(np.float32)
    x[200:] = -x[:200]
    # All but the least terms cancel, and a tie between them needs the last one.
    x[rng.integers(0, 400, 8), np.arange(8)] = 2.0**127
    x[:3, 20], x[3:, 20] = (1, 2.0**-24, 2.0**-126), 0
    x[:4, 21], x[4:, 21] = (2.0**127, 2.0**-126, -(2.0**127), 2.0**-126), 0
    want, part = oracles.nearest(x), slice(16, 24)
    for view in (x, x[rng.permutation(400)]):
        got = run(
            lambda x: [sums.reduce_sum(x, (0,)), sums.reduce_sum(x.T, (1,)), sums.cumsum(x, 0)],
            view,
        )
        assert_same(got[0], want)
        assert_same(got[1], want)
        assert_same(got[2][:, part], oracles.nearest_running(view[:, part]))
        assert_same(run(lambda x: sums.cumsum(x, 0), view[:, 20]), got[2][:, 20])


def test_what_the_engine_has_no_call_for():
    x = np.ones((3, 4), np.float32)
    assert sums.reduce_sum(x.astype(np.int32), (0,)) is None
    assert sums.reduce_sum(x, (0,), np.int32) is None
    with jax.enable_x64(True):
        assert sums.reduce_sum(x.astype(np.float64), (0,), np.float32) is None
        assert sums.reduce_sum(x, (0,), np.float64) is None
    assert sums.reduce_sum(x, (0,), axis_names=("a",), axis_index_groups=[[0]]) is None


def test_sums_of_nothing():
    x = np.zeros((3, 0, 2), np.float32)
    assert_same(run(lambda x: sums.reduce_sum(x, (1,)), x), np.zeros((3, 2), np.float32))
    assert run(lambda x: sums.reduce_sum(x, (0,)), x).shape == (0, 2)
    x = np.array([-0.0, 1e-40, 2], np.float32)
    assert_same(
        run(lambda x: sums.reduce_sum(x[:, None], (1,)), x), np.array([0, 0, 2], np.float32)
    )
    assert_same(run(lambda x: sums.reduce_sum(x, ()), x[2:]), x[2:])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((6, 500), (1,)), ((500, 6), (0,)), ((4, 5, 60), (0, 2)), ((1, 70_000), (1,)), ((3, 5), (1,))],
    ids=str,
)
def test_bounds_and_digits_of_parts_give_the_exact_sum(rng, shape, axes, dtype):
    x = rough(rng, shape, dtype, 5)
    # The first sum loses bits in its pairs of float64, and the last sum loses none.
    ends = terms_first(np.arange(x.size).reshape(shape), axes)[:2].reshape(2, -1)
    x.flat[ends[:, -1]] = 1, jnp.finfo(dtype).tiny
    x.flat[ends[:, 0]] = jnp.finfo(dtype).max, jnp.finfo(dtype).tiny
    want = oracles.nearest(terms_first(x, axes), np.float64)
    most = 1e-10 * np.abs(x.astype(np.float64)).sum()
    operation = sums.Reduction(axes, x.ndim, DTYPES[results_for(dtype)[0]])
    assert_bounds_and_digits(operation, want, x, most=most)


@pytest.mark.parametrize(
    ("dtype", "count"),
    [*((dtype, n) for dtype in DTYPES for n in (8, 15)), ("float32", 300), ("float64", 300)],
)
def test_running_sums_of_hard_terms_have_the_bits_of_the_oracle(rng, dtype, count):
    x = hard_matrix(rng, count, dtype)
    got = run(
        lambda x: [
            sums.cumsum(x, 0),
            sums.cumsum(x, -2, reverse=True),
            sums.cumsum(x.T, 1),
            sums.cumsum(x[:, 3:6], 0),
            *(sums.cumsum(x[:, column], 0, reverse=True) for column in (1, 5, 16, 28)),
        ],
        x,
    )
    want = oracles.nearest_running(x)
    backwards = oracles.nearest_running(x[::-1])[::-1]
    assert_same(got[0], want)
    assert_same(got[1], backwards)
    assert_same(got[2], want.T)
    assert_same(got[3], want[:, 3:6])
    for one, column in zip(got[4:], (1, 5, 16, 28), strict=True):
        assert_same(one, backwards[:, column])


@pytest.mark.parametrize(
    ("dtype", "spread"),
    [("float32", 3), ("float32", 60), ("bfloat16", 60), ("float16", 4), ("float64", 60)],
)
def test_running_sums_of_long_lines_have_the_bits_of_the_other_engine(rng, dtype, spread):
    shapes = [((100_003,), 0), ((3, 20_001, 2), 1), ((1000, 70), 0), ((70, 1000), 1)]
    for shape, axis in shapes if (dtype, spread) == ("float32", 60) else shapes[:1]:
        x = rough(rng, shape, dtype, spread)
        np.moveaxis(x, axis, 0)[shape[axis] // 2 + 1 :] *= -1
        for reverse in (False, True):
            got = run(lambda x: sums.cumsum(x, axis, reverse=reverse), x)  # noqa: B023
            want = run(lambda x: reduction.cumsum(x, axis, reverse=reverse), x)  # noqa: B023
            assert_same(got, want, f"{shape} {reverse}")


def test_running_sums_of_nothing_and_of_one():
    assert run(lambda x: sums.cumsum(x, 1), np.zeros((3, 0), np.float32)).shape == (3, 0)
    x = np.array([[-0.0], [1e-40], [np.inf], [2]], np.float32)
    assert_same(
        run(lambda x: sums.cumsum(x, 1), x), np.array([[0], [0], [np.inf], [2]], np.float32)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_sums_of_parts_have_the_bits_of_the_oracle(rng, dtype, count):
    x = np.concatenate([hard_matrix(rng, max(count, 8), dtype)[:count]] * 40, 1)
    rows = [*x]
    assert_same(run(sums.add, *rows), with_minus_zeros(x))
    x = rough(rng, (count, 30, 50), dtype, 5 if dtype == "float16" else 60)
    x[:, :10] = rng.choice([-0.0, 0.0, 1, -1, -1e-39], (count, 10, 50), p=[0.6, 0.1, 0.1, 0.1, 0.1])
    x[:, 20:] = with_specials(rng, x[:, 20:])
    assert_same(run(sums.add, *x), with_minus_zeros(x))


@pytest.mark.parametrize("count", [3, 9])
def test_sums_of_large_parts_have_the_bits_of_the_other_engine(rng, count):
    x = rough(rng, (count, 40_001), spread=50)
    x[0] = -x[1]
    assert_same(run(sums.add, *x), run(reduction.add, *x))

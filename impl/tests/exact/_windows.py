"""Windows of sums and of pools, and what the oracle computes of them."""

import collections
import itertools

import numpy as np
from jax import lax

from impl.tests.exact._products import positions_of_taps
from impl.tests.exact._sums import DTYPES, assert_same, hard_matrix, rough, run
from spec import oracles
from spec.oracles.nearest import flushed

NAMES = ("window_dimensions", "window_strides", "padding", "base_dilation", "window_dilation")
NONE = (0, 0)
#: Shape, window, strides, padding, dilation of the array and of the window.
WINDOWS = {
    "overlapping": ((7, 8, 3), (3, 2, 1), (2, 1, 1), ((1, 1), (0, 2), NONE), (1, 2, 1), (1, 1, 1)),
    "dilated": ((7, 8, 3), (2, 3, 1), (1, 2, 2), ((-1, 1), (0, 1), NONE), (1, 1, 1), (2, 2, 1)),
    "both dilated": ((4, 5), (3, 4), (2, 3), ((-2, 3), (5, -1)), (3, 2), (2, 4)),
    "apart": ((9, 40), (2, 2), (3, 3), (NONE, NONE), (1, 1), (1, 1)),
    "one": ((7, 8, 3), (7, 4, 1), (1, 3, 2), (NONE, NONE, NONE), (1, 1, 1), (1, 2, 1)),
    "of one element": ((7, 8, 3), (1, 1, 1), (1, 2, 1), (NONE, NONE, (0, 1)), (1,) * 3, (1,) * 3),
    "in padding": ((3, 4), (2, 2), (1, 1), ((4, 0), (0, 5)), (1, 1), (1, 1)),
    "cropped": ((6, 9), (2, 3), (2, 2), ((-1, -2), (-3, -1)), (1, 1), (1, 1)),
    "long": ((1300,), (33,), (1,), ((16, 16),), (1,), (1,)),
    "long and apart": ((1300,), (5,), (2,), ((3, 0),), (3,), (2,)),
    "few long windows": ((3, 70), (1, 60), (1, 3), (NONE, (4, 70)), (1, 1), (1, 1)),
    "fewer elements than a window": ((3, 4), (5, 1), (1, 1), (NONE, NONE), (1, 1), (1, 1)),
    "none": ((3, 4), (1, 1), (1, 1), (NONE, NONE), (1, 1), (1, 1)),
    "channels": ((2, 6, 6, 20), (1, 3, 3, 1), (1, 2, 2, 1), (NONE, (1, 1), (0, 1), NONE))
    + ((1,) * 4,) * 2,
    "of five axes": ((2, 3, 4, 5, 2), (1, 2, 1, 2, 1), (1, 1, 1, 2, 1), (NONE,) * 5)
    + ((1,) * 5,) * 2,
    "few channels": (
        (2, 7, 9, 3),
        (1, 2, 3, 1),
        (1, 2, 2, 1),
        (NONE, (1, 0), (1, 2), NONE),
        (1,) * 4,
        (1, 1, 2, 1),
    ),
    "a scalar": ((), (), (), (), (), ()),
}
POOLS = {
    "overlapping": ((7, 8), (3, 2), (2, 1), ((1, 1), (0, 1))),
    "apart": ((7, 8), (2, 2), (2, 3), (NONE, (1, 1))),
    "long": ((90,), (5,), (1,), ((2, 2),)),
    "steps": ((3, 40), (1, 3), (1, 2), (NONE, (1, 1))),
    "channels": ((2, 9, 9, 12), (1, 3, 3, 1), (1, 2, 2, 1), (NONE, (1, 1), (0, 1), NONE)),
    "many rows": ((40, 3, 7), (4, 2, 2), (3, 1, 2), ((2, 1), NONE, NONE)),
    "a scalar": ((), (), (), ()),
    "in padding": ((20, 30), (5, 1), (1, 1), ((5, 3), NONE)),
    "cropped": ((20, 30), (2, 3), (2, 1), ((-1, 2), (3, -2))),
}
#: NaN, infinities, ties, zeros of both signs and subnormal numbers.
NUMBERS = [np.nan, np.inf, -np.inf, 0, -0.0, 1e-39, -1e-39, 2e-39, 3e-8, 6e-8, 1, -1, 2, 3]


def terms_of(x, case):
    """Returns the terms of each window along a new first axis, filled up with zeros."""
    terms = x[None]
    for axis, each in enumerate(zip(x.shape, *case, strict=True), 1):
        table = positions_of_taps(*each)
        table = np.array(table, int).reshape(len(table), each[1])
        shape = (*table.shape, *[1] * (x.ndim - axis))
        parts = np.take(terms, table, axis)
        parts = np.where(table.reshape(shape) >= 0, parts, np.zeros((), x.dtype))
        parts = np.moveaxis(parts, axis + 1, 0)
        terms = parts.reshape(parts.shape[0] * parts.shape[1], *parts.shape[2:])
    return terms


def gradient_of_pool(source, image, select, dims, strides, padding):
    """Returns the gradient of a pool, window by window, by the oracle.

    A window has the first of its elements, and takes the next one if ``select`` does not hold.
    """
    compare = {lax.ge_p: np.greater_equal, lax.le_p: np.less_equal}[select]
    values, terms = flushed(image), collections.defaultdict(list)
    for window in np.ndindex(source.shape):
        corner = [
            i * step - low for i, step, (low, _) in zip(window, strides, padding, strict=True)
        ]
        chosen = None
        for tap in np.ndindex(dims):
            at = tuple(start + offset for start, offset in zip(corner, tap, strict=True))
            if not all(0 <= i < size for i, size in zip(at, image.shape, strict=True)):
                continue
            if chosen is None or not compare(values[chosen], values[at]):
                chosen = at
        if chosen is not None:
            terms[chosen].append(source[window])
    filled = np.zeros((max(map(len, terms.values()), default=1), *image.shape), source.dtype)
    for at, each in terms.items():
        filled[(slice(len(each)), *at)] = each
    return oracles.nearest(filled)


def options(case):
    return dict(zip(NAMES, case, strict=False))


def assert_sums_of_windows(sums, rng, names, dtype):
    """Compares sums of windows by an engine's function with the oracle, all in one program."""
    arrays = {}
    for name in names:
        shape = WINDOWS[name][0]
        for spread in (3, 20):
            x = rough(rng, shape, dtype, min(spread, 8) if dtype == "float16" else spread)
            flat = np.array(x).reshape(-1)
            if flat.size > 20:
                flat[[3, 7, 11, 12]] = np.inf, -0.0, 1e-40, np.nan
            arrays[f"{name}, {spread}"] = flat.reshape(shape)

    def case(name):
        return options(WINDOWS[name.rpartition(",")[0]][1:])

    results = run(lambda given: {n: sums(x, **case(n)) for n, x in given.items()}, arrays)
    for name, got in results.items():
        terms = terms_of(arrays[name], WINDOWS[name.rpartition(",")[0]][1:])
        assert_same(got, oracles.nearest(terms), name)


def assert_windows_of_hard_terms(sums, rng, dtype, count):
    """Compares windows that hold the terms of one sum, or most terms of two neighbours."""
    x = hard_matrix(rng, max(count, 8), dtype)[:count].T.reshape(-1)
    case = ((count,), (3,), ((2, 5),), (1,), (1,))
    got = run(lambda x: sums(x, **options(case)), x)
    padded = np.concatenate([np.zeros(2, x.dtype), x, np.zeros(5, x.dtype)])
    starts = range(0, len(padded) - count + 1, 3)
    assert_same(got, oracles.nearest(np.stack([padded[i : i + count] for i in starts], 1)))
    columns = x.reshape(-1, count).T
    case = ((count, 1), (1, 1), (NONE, NONE), (1, 1), (1, 1))
    want = oracles.nearest(columns)
    assert_same(run(lambda x: sums(x, **options(case)), columns)[0], want)
    # So many copies of a sum that an engine adds them apart from other sums.
    case = ((count,), (count,), (NONE,), (1,), (1,))
    got = run(lambda x: sums(x, **options(case)), np.repeat(columns.T, 512, 0).reshape(-1))
    assert_same(got, np.repeat(want, 512))


def results_of(shape, dims, strides, padding):
    """Returns the shape of the result of a pool."""
    return [
        (size + sum(sides) - length) // step + 1
        for size, sides, length, step in zip(shape, padding, dims, strides, strict=True)
    ]


def assert_gradients_of_pools(gradient, rng, names, of_image, dtype, selects=(lax.ge_p, lax.le_p)):
    """Compares gradients of pools by an engine's function with the oracle, all in one program."""
    arrays = {}
    for name in names:
        shape, *case = POOLS[name]
        source = rough(rng, results_of(shape, *case), dtype, 5)
        if source.size > 20:
            source.reshape(-1)[[2, 5, 6]] = np.inf, -0.0, np.nan
        arrays[name] = source, rng.choice(NUMBERS, shape).astype(DTYPES[of_image])

    def program(arrays):
        return {
            (name, select.name): gradient(*pair, select_prim=select, **options(POOLS[name][1:]))
            for name, pair in arrays.items()
            for select in selects
        }

    results = run(program, arrays)
    for name, select in itertools.product(names, selects):
        want = gradient_of_pool(*arrays[name], select, *POOLS[name][1:])
        assert_same(results[name, select.name], want, f"{name} {select}")

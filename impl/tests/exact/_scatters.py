"""Scatters whose sums are hard to round, and the results that the oracle gives for any of them."""

import itertools

import numpy as np
from jax import lax

from impl.tests.exact._sums import hard_matrix, outweighed_terms, rough, serial_terms
from spec import oracles

ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))
SCALARS = lax.ScatterDimensionNumbers((), (0,), (0,))
#: The rows and columns of the operands of hard scatters, and their updates: a program serves all.
DESTINATIONS, COLUMNS, UPDATES = 5, 30, 73


def hard_scatters(rng, dtype="float32"):
    """Returns operands, the rows of updates, and updates, by name."""
    values = hard_matrix(rng, 51, dtype)
    # Row 0 has an initial value that is one of the terms; row 1 has fewer terms; row 2 has none.
    initial = np.full((3, values.shape[1]), -0.0, values.dtype)
    initial[0], values = values[50], values[:50]
    index, order = np.repeat([0, 1], [42, 8]), rng.permutation(50)
    cases = {
        "hard terms": (initial, index, values),
        "hard terms in another order": (initial, index[order], values[order]),
    }
    if dtype == "float64":
        # A tie that a term more than a thousand binades below it breaks, at both its neighbours.
        values = rng.standard_normal((40, 8)) * 2.0 ** rng.integers(-1000, 1000, (40, 8))
        values[:20] = -values[20:]
        values[3], values[23], values[:, :3] = 2.0**1023, 2.0**-1022, 0
        values[:3, 0] = 1 + 2.0**-52, 2.0**-53, -(2.0**-1022)
        values[:3, 1] = 2.0**1000, -(2.0**946), 2.0**-1022
        values[:3, 2] = 2.0**1000, -(2.0**946), -(2.0**-1022)
        cases["all exponents"] = np.zeros((1, 8)), np.zeros(40, int), values
    if dtype != "float32":
        return cases
    for name, terms in serial_terms().items():
        cases[name] = np.zeros((1, 8), "f4"), np.zeros(len(terms), int), np.stack([terms] * 8, 1)
    terms = outweighed_terms(2.0**-24).astype(np.float32)
    halves = np.concatenate([terms[:, :COLUMNS], terms[:, COLUMNS:]])
    cases["lower parts outweigh"] = (
        np.zeros((2, COLUMNS)),
        np.repeat([0, 1], len(terms)),
        halves,
    )
    cases["the operand decides"] = (
        np.array([[2.0**-120], [-(2.0**-120)], [2.0**-60]]),
        np.array([0, 0, 1, 1, 2, 2, 2, 2]),
        np.array([[1, 2.0**-24, 1, 2.0**-24, 2.0**100, 1, 2.0**-24, -(2.0**100)]]).T,
    )
    most, inf = float(np.finfo(np.float32).max), np.inf
    sums = ([inf, 1], [inf, -inf], [np.nan, 1], [1, 2.0**-24, 2.0**-80], [most, most])
    cases["an infinity is one part"] = (
        np.array([[-1, 0], [0, 0], [0, 0], [0, 0], [0, 0]]),
        np.repeat(range(5), [len(terms) for terms in sums]),
        np.stack([np.concatenate(sums)] * 2, 1),
    )
    x = rough(rng, (72, 9), spread=0) * np.float32(2.0) ** rng.integers(-126, 127, (72, 9))
    x[36:] = -x[:36]
    # All but the least terms cancel, and a tie between them needs the last one.
    x[:6, 0] = 1, 2.0**-24, 2.0**-126, 2.0**127, -(2.0**127), 1
    index = np.resize(rng.integers(-1, 6, 36), 72)
    cases["terms of all exponents"] = rough(rng, (5, 9), spread=40), index, x
    return {
        name: (operand.astype(np.float32), index, values.astype(np.float32))
        for name, (operand, index, values) in cases.items()
    }


def padded(operand, index, values):
    """Returns a scatter with more rows and columns, and updates that are dropped."""
    wide = np.zeros((DESTINATIONS, COLUMNS), operand.dtype)
    wide[: operand.shape[0], : operand.shape[1]] = operand
    rows, updates = np.full((UPDATES, 1), -1, np.int32), np.ones((UPDATES, COLUMNS), operand.dtype)
    rows[: len(index), 0], updates[: len(index), : operand.shape[1]] = index, values
    return wide, rows, updates


def destinations(numbers, mode, shape, indices, updates):
    """Returns the position in the operand of each update, -1 for none; the arrays are flat."""
    hidden = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    windowed = [axis for axis in range(len(shape)) if axis not in hidden]
    window = dict(zip(windowed, numbers.update_window_dims, strict=True))
    scattered = [axis for axis in range(len(updates)) if axis not in numbers.update_window_dims]
    places = np.full(updates, -1)
    for at in itertools.product(*map(range, updates)):
        index = tuple(at[axis] for axis in scattered)
        start = np.zeros(len(shape), object)
        is_inside = True
        for k, axis in enumerate(numbers.scatter_dims_to_operand_dims):
            last = shape[axis] - (updates[window[axis]] if axis in window else 1)
            start[axis] = int(indices[(*index, k)])
            if mode == "clip":
                start[axis] = min(max(start[axis], 0), last)
            is_inside &= 0 <= start[axis] <= last
        for axis, of_index in zip(
            numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True
        ):
            start[axis] = index[of_index]
        for axis in windowed:
            start[axis] += at[window[axis]]
        if is_inside:
            places[at] = np.ravel_multi_index(tuple(map(int, start)), shape)
    return places.reshape(-1)


def of_oracle(numbers, mode, operand, indices, updates):
    """Returns the exact sums, rounded once."""
    places = destinations(numbers, mode, operand.shape, indices, updates.shape)
    rows = oracles.nearest_scatter(operand.reshape(-1, 1), places, updates.reshape(-1, 1))
    return rows.reshape(operand.shape)

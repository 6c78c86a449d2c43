"""Contributions to scatter, and what they come to by the spec's oracles."""

import functools

import numpy as np

from impl.tests.support.numbers import spread
from spec import oracles

#: For each kind: whether the indices differ along the outer axis, and along the inner axis.
KINDS = {
    "shared": (False, False),
    "rows": (True, False),
    "columns": (False, True),
    "own": (True, True),
}


def contributions(outer, size, inner, n, *, kind, near_one=False):
    """Operand, indices and updates; some indices are out of range."""
    rng = np.random.default_rng((outer, size, inner, n))
    operand, updates = spread(rng, (outer, size, inner)), spread(rng, (outer, n, inner))
    if near_one:
        operand, updates = (1 + a / 2048 for a in (operand, updates))
    by_outer, by_inner = KINDS[kind]
    shape = (outer if by_outer else 1, n, inner if by_inner else 1)
    indices = rng.integers(-1, size + 1, shape)
    indices[:, ::50] = 2**31 - 1
    return operand.astype(np.float32), indices.astype(np.int32), updates.astype(np.float32)


def in_panel_order(operand, indices, updates, combine):
    """The panel order, for each element of the outer and inner axes by itself."""
    return _by_lane(functools.partial(oracles.panel, combine=combine), operand, indices, updates)


def added_exactly(operand, indices, updates):
    """The exact sums, for each element of the outer and inner axes by itself."""
    return _by_lane(oracles.nearest_scatter, operand, indices, updates)


def added_in_source_order(operand, indices, updates):
    """The sums from left to right, for each element of the outer and inner axes by itself."""
    return _by_lane(oracles.source, operand, indices, updates)


def _by_lane(oracle, operand, indices, updates):
    outer, _, inner = operand.shape
    indices = np.broadcast_to(indices, updates.shape)
    out = operand.copy()
    for a in range(outer):
        for b in range(inner):
            lane = (a, slice(None), b)
            out[lane] = oracle(operand[lane], indices[lane], updates[lane])
    return out

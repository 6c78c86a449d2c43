"""The shardings of results: of operations of each kind, on operands with some sharding."""

from typing import Any

import jax.numpy as jnp
import pytest
from jax import lax

from impl._portable.device_sums.shardings import TERM, UNKNOWN
from impl.tests.portable.sharded import results

ROWS, COLUMNS = {"d": 0}, {"d": 1}
TERMS, OTHER = {"d": TERM}, {"d": UNKNOWN}
#: The name, the function, the shape of its operands, and pairs of shardings: of the operand or
#: operands, and of the result.
MOVES: list[tuple[str, Any, Any, list[Any]]] = [
    ("transpose", jnp.transpose, (8, 4), [(ROWS, COLUMNS), (TERMS, TERMS), (OTHER, OTHER)]),
    ("broadcast", lambda x: x[:, None] + jnp.zeros((8, 3, 4)), (8, 4), [(COLUMNS, {"d": 2})]),
    ("squeeze", lambda x: lax.squeeze(x, (1,)), (8, 1, 4), [({"d": 2}, COLUMNS), (ROWS, ROWS)]),
    ("squeeze of pmap", lambda x: lax.squeeze(x, (0,)), (1, 8), [(ROWS, ROWS), (COLUMNS, ROWS)]),
    ("reshape", lambda x: x.reshape(32), (8, 4), [(ROWS, ROWS), (COLUMNS, OTHER)]),
    ("reshape in two", lambda x: x.reshape(2, 4, 4), (8, 4), [(ROWS, ROWS), (COLUMNS, {"d": 2})]),
    ("reshape apart", lambda x: x.reshape(4, 6), (6, 4), [(ROWS, OTHER), (TERMS, TERMS)]),
    ("reshape of nothing", lambda x: x.reshape(2, 0), (0, 4), [(ROWS, OTHER), (COLUMNS, OTHER)]),
    ("slice", lambda x: x[2:4], (8, 4), [(ROWS, OTHER), (COLUMNS, COLUMNS), (TERMS, TERMS)]),
    ("reverse", lambda x: x[::-1], (8, 4), [(ROWS, ROWS)]),
    ("cumsum", lambda x: jnp.cumsum(x, 0), (8, 4), [(ROWS, ROWS), (TERMS, TERMS)]),
    ("take", lambda x: x[lax.iota("int32", 2)], (8, 4), [(ROWS, OTHER), (COLUMNS, COLUMNS)]),
    ("negative", lambda x: -x, (8, 4), [(ROWS, ROWS), (TERMS, TERMS)]),
    ("half", lambda x: x.astype("float16"), (8, 4), [(TERMS, TERMS)]),
    ("integer", lambda x: x.astype(int), (8, 4), [(TERMS, OTHER), (ROWS, ROWS)]),
]
SUMS: list[tuple[str, Any, Any, list[Any]]] = [
    ("sum", lambda x: x.sum(0), (8, 4), [(ROWS, TERMS), (COLUMNS, ROWS), (TERMS, TERMS)]),
    ("max", lambda x: x.max(0), (8, 4), [(ROWS, OTHER), (COLUMNS, ROWS), (TERMS, OTHER)]),
    ("psum", lambda x: lax.psum(x, "d"), (8, 4), [(TERMS, {}), (ROWS | {"m": 1}, {"m": 1})]),
    (
        "psum in groups",
        lambda x: lax.psum(x, "d", axis_index_groups=[[0, 1], [2, 3]]),
        (8, 4),
        [(TERMS, OTHER)],
    ),
    ("psum_scatter", lambda x: lax.psum_scatter(x, "d", tiled=True), (8, 4), [(TERMS, ROWS)]),
]


@pytest.mark.parametrize(
    ("function", "shape", "operand", "expected"),
    [
        pytest.param(function, shape, *pair, id=f"{name}-{number}")
        for name, function, shape, pairs in MOVES + SUMS
        for number, pair in enumerate(pairs)
    ],
)
def test_one_operand(function, shape, operand, expected):
    assert results(function, (shape, operand)) == [expected]


BOTH = ((8, 4), (8, 4))
OF_TWO: dict[str, tuple[Any, Any, list[Any]]] = {
    "add": (jnp.add, BOTH, [((ROWS, {}), ROWS), ((TERMS, TERMS), TERMS)]),
    "add otherwise": (jnp.add, BOTH, [((ROWS, COLUMNS), OTHER), ((ROWS, TERMS), OTHER)]),
    "add unknown": (jnp.add, BOTH, [((ROWS, OTHER), ROWS), ((TERMS, OTHER), OTHER)]),
    "multiply": (jnp.multiply, BOTH, [((TERMS, {}), TERMS), ((TERMS, TERMS), OTHER)]),
    "divide": (jnp.divide, BOTH, [((TERMS, {}), TERMS), (({}, TERMS), OTHER)]),
    "where": (
        lambda x, y: jnp.where(x > 0, y, 0),
        BOTH,
        [(({}, TERMS), TERMS), ((OTHER, TERMS), OTHER), ((ROWS, ROWS), ROWS)],
    ),
    "concatenate": (
        lambda *both: jnp.concatenate(both),
        BOTH,
        [((ROWS, ROWS), OTHER), ((COLUMNS, COLUMNS), COLUMNS), ((TERMS, TERMS), TERMS)],
    ),
    "stack": (lambda *both: jnp.stack(both), BOTH, [((ROWS, ROWS), COLUMNS), ((TERMS, {}), TERMS)]),
    "update": (
        lambda x, y: lax.dynamic_update_slice(x, y[:2], (1, 0)),
        BOTH,
        [((ROWS, {}), OTHER), ((COLUMNS, COLUMNS), COLUMNS), ((TERMS, TERMS), TERMS)],
    ),
    "product": (
        jnp.matmul,
        ((8, 4), (4, 6)),
        [((COLUMNS, ROWS), TERMS), ((ROWS, {}), ROWS), (({}, COLUMNS), COLUMNS)],
    ),
    "product of terms": (
        jnp.matmul,
        ((8, 4), (4, 6)),
        [((TERMS, {}), TERMS), ((TERMS, TERMS), OTHER), ((TERMS, COLUMNS), OTHER)],
    ),
    "batched product": (
        jnp.matmul,
        ((3, 8, 4), (3, 4, 6)),
        [((ROWS, ROWS), ROWS), ((COLUMNS, {}), COLUMNS), (({}, {"d": 2}), {"d": 2})],
    ),
    "convolution": (
        lambda x, k: lax.conv(x, k, (1,), "SAME"),
        ((8, 3, 5), (4, 3, 3)),
        [((ROWS, {}), ROWS), (({}, ROWS), COLUMNS), ((COLUMNS, COLUMNS), TERMS)],
    ),
    "convolution with a halo": (
        lambda x, k: lax.conv(x, k, (1,), "SAME"),
        ((8, 3, 5), (4, 3, 3)),
        [(({"d": 2}, {}), OTHER)],
    ),
    "scatter_add": (
        lambda x, y: x.at[lax.iota("int32", 2)].add(y[:2]),
        BOTH,
        [((COLUMNS, COLUMNS), COLUMNS), ((TERMS, TERMS), TERMS), (({}, TERMS), TERMS)],
    ),
}


@pytest.mark.parametrize(
    ("function", "shapes", "operands", "expected"),
    [
        pytest.param(function, shapes, *pair, id=f"{name}-{number}")
        for name, (function, shapes, pairs) in OF_TWO.items()
        for number, pair in enumerate(pairs)
    ],
)
def test_two_operands(function, shapes, operands, expected):
    assert results(function, *zip(shapes, operands, strict=True)) == [expected]


def test_updates_of_the_devices_rows_are_terms():
    def embedding(table, rows, values):
        return table.at[rows.astype(int)].add(values)

    operands = [((7, 4), {}), ((8,), {"d": 0}), ((8, 4), {"d": 0})]
    assert results(embedding, *operands) == [{"d": TERM}]

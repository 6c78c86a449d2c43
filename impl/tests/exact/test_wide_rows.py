"""Exact sums of wide rows by kernels, against the oracle in fractions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from impl._exact import arithmetic, scatter, wide_rows
from impl._kernels import scatter_accumulate_rows
from impl._kernels.launch import Launch
from impl.tests.exact._sums import assert_same, rough
from spec import oracles

N, SIZE, WIDTH = 50, 9, 6
NUMBERS = lax.ScatterDimensionNumbers((1,), (0,), (0,))


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    for module in (scatter_accumulate_rows, wide_rows):
        monkeypatch.setattr(module, "CHUNK", 4)
    monkeypatch.setattr(wide_rows, "_ROWS", 1)
    monkeypatch.setattr(wide_rows, "_WIDTH", 1)
    monkeypatch.setattr(wide_rows, "_CACHED", 0)


def distributions(rng):
    any_row = rng.integers(0, SIZE, N)
    return [
        rng.integers(-1, SIZE + 1, N),
        np.where(rng.random(N) < 0.9, 3, any_row),
        np.full(N, SIZE - 1),
        np.full(N, SIZE),
        np.repeat(np.arange(8), [4, 8, 12, 1, 3, 4, 4, 14]),
    ]


@pytest.mark.parametrize(("dtype", "seed"), [("float32", 0), ("bfloat16", 3), ("float64", 2)])
def test_rows_of_any_distribution_have_the_bits_of_the_oracle(rng, dtype, seed):
    launch = Launch(interpret=True, seed=seed)
    options = {"dimension_numbers": NUMBERS, "mode": "drop", "place": "device", "launch": launch}
    function = jax.jit(functools.partial(scatter.scatter_add, **options))
    operand, updates = rough(rng, (SIZE, WIDTH), dtype, 7), rough(rng, (N, WIDTH), dtype, 7)
    operand[:, 0], updates[:, 0] = -0.0, -0.0
    updates[3, 1], updates[5, 1], updates[7, 2], operand[4, 5] = np.inf, -np.inf, np.nan, np.inf
    updates[:, 3] = np.inf
    for keys in distributions(rng):
        with arithmetic.wide(), arithmetic.where_subnormals(are_kept=False):
            got = function(operand, keys[:, None].astype(np.int32), updates)
        want = [
            oracles.exact(np.concatenate([operand[d : d + 1], updates[keys == d]]))
            for d in range(SIZE)
        ]
        assert_same(np.asarray(got), np.stack(want))


def test_few_narrow_or_float64_rows_take_the_plain_form(monkeypatch):
    monkeypatch.undo()
    size = 50_000
    assert wide_rows.suits(size, 64, 5000, jnp.float32)
    assert not wide_rows.suits(100, 64, 5000, jnp.float32)
    assert not wide_rows.suits(size, 64, 500, jnp.float32)
    assert not wide_rows.suits(size * 16, 4, 5000, jnp.float32)
    assert wide_rows.suits(size, 64, 5000, np.float64)
    assert not wide_rows.suits(size, 64, 1 << 23, np.float64)

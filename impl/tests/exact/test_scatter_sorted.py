"""Sums of wide rows by kernels, against the oracle in integers.

Tests: impl._exact.sums.measures.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._exact import arithmetic
from impl._exact.nearest import interval
from impl._exact.sums import scatter, scatter_rows, scatter_sorted
from impl._exact.sums.measures import Measures
from impl._kernels import _sorted_rows, scatter_accumulate_rows
from impl._kernels.launch import Launch
from impl._lowerings import scatter_accumulate_exact
from impl.tests.exact._sums import assert_same, rough, run
from impl.tests.exact._terms import hard_matrix, serial_terms
from spec import oracles

N, SIZE, WIDTH = 50, 9, 6
NUMBERS = lax.ScatterDimensionNumbers((1,), (0,), (0,))


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(_sorted_rows, "CHUNK", 2)
    for module in (_sorted_rows, scatter_accumulate_rows):
        monkeypatch.setattr(module, "PART", 4)
    monkeypatch.setattr(scatter_sorted, "_ROWS", 1)
    monkeypatch.setattr(scatter_sorted, "_WIDTH", 1)
    monkeypatch.setattr(scatter_sorted, "_CACHED", 0)


def distributions(rng):
    any_row = rng.integers(0, SIZE, N)
    return [
        rng.integers(-1, SIZE + 1, N),
        np.where(rng.random(N) < 0.9, 3, any_row),
        np.full(N, SIZE - 1),
        np.full(N, SIZE),
        np.repeat(np.arange(8), [4, 8, 12, 1, 3, 4, 4, 14]),
    ]


def assert_rows_are_added(function, operand, updates, negate=False):
    """Raises unless a function of an operand, keys and rows gives the bits of the oracle."""
    added = -updates if negate else updates
    for keys in distributions(np.random.default_rng(1)):
        want = oracles.nearest_scatter(operand, keys, added)
        assert_same(np.asarray(function(operand, keys, updates)), want)


@pytest.mark.triton
@pytest.mark.parametrize(
    ("dtype", "seed"), [("float32", 0), pytest.param("bfloat16", 3, marks=pytest.mark.once)]
)
def test_rows_of_any_distribution_have_the_bits_of_the_oracle(rng, dtype, seed):
    negate = dtype != "float32"
    operand, updates = rough(rng, (SIZE, WIDTH), dtype, 7), rough(rng, (N, WIDTH), dtype, 7)
    operand[:, 0], updates[:, 0] = -0.0, -0.0
    updates[3, 1], updates[5, 1], updates[7, 2], operand[4, 5] = np.inf, -np.inf, np.nan, np.inf
    updates[:, 3] = np.inf
    assert_rows_are_added(_kernels(seed, subtract=negate), operand, updates, negate)


def _kernels(seed, **options):
    """Returns a scatter by kernels of operand, keys and updates, in the order of a schedule."""
    options |= {"dimension_numbers": NUMBERS, "mode": "drop", "target": "device"}
    options["launch"] = Launch(interpret=True, seed=seed)
    function = jax.jit(functools.partial(scatter.scatter_add, **options))

    def run(operand, keys, updates):
        with arithmetic.wide(), arithmetic.where_subnormals(are_kept=False):
            return function(operand, keys[:, None].astype(np.int32), updates)

    return run


@pytest.mark.triton
@pytest.mark.once
@pytest.mark.parametrize(
    ("part", "dtype", "seeds"),
    [(4, "float32", (0, 5)), (4, "float16", (0,)), (64, "bfloat16", (5,))],
)
def test_results_in_doubt_are_computed_exactly(rng, monkeypatch, dtype, part, seeds):
    for module in (_sorted_rows, scatter_accumulate_rows):
        monkeypatch.setattr(module, "PART", part)
    calls = []
    added = scatter_rows.added
    monkeypatch.setattr(scatter_rows, "added", lambda *args: calls.append(args) or added(*args))
    updates = hard_matrix(rng, N, dtype)
    operand = np.zeros((SIZE, updates.shape[1]), updates.dtype)
    operand[4] = updates[0]
    kernels = [_kernels(seed) for seed in seeds]
    # Destination 4 is one run, or is cut.
    for keys in (np.full(N, 4), np.where(np.arange(N) < 40, 4, 7)):
        want = oracles.nearest_scatter(operand, keys, updates)
        for kernel in kernels:
            assert_same(kernel(operand, keys, updates), want)
    assert calls


@pytest.mark.triton
@pytest.mark.once
def test_products_of_rows_and_weights_are_rounded_and_added(rng):
    launch = Launch(interpret=True, seed=4)
    sources, weights = rng.integers(0, 8, N), rough(rng, N, spread=3)
    rows = rough(rng, (8, WIDTH), spread=3)

    @jax.jit
    def function(operand, keys):
        with arithmetic.wide(), arithmetic.where_subnormals(are_kept=False):
            return scatter_accumulate_exact.exact_device(
                operand[None],
                keys[None, :, None],
                rows[None],
                weights=weights[None],
                sources=sources[None],
                launch=launch,
                empty=True,
            )[0]

    def run(operand, keys, _):
        with arithmetic.wide():
            return function(operand, keys.astype(np.int32))

    zeros = np.zeros((SIZE, WIDTH), np.float32)
    assert_rows_are_added(run, zeros, rows[sources] * weights[:, None])


def test_measures_decide_only_what_the_worst_order_cannot_change(rng):
    measures = Measures(np.float32, 23)

    def coded(terms):
        value, greatest, depth = measures.of(terms)
        total = lax.scan(lambda total, term: (lax.add(total, term), None), 0 * value[0], value)[0]
        count = jnp.int32(len(terms))
        return measures.coded((total, greatest.max(0), depth.max(0)), count)

    # 7 times the greatest power of two is 2**54 last bits, and float64 loses one.
    close = [*[1.875] * 4, 1.5 + 2.0**-21, 2.0**-27 + 2.0**-50, -(2.0**-27)]
    rows = [np.array(each, np.float32)[:, None] for each in (*serial_terms().values(), close)]
    rows += [hard_matrix(rng, N), rough(rng, (N, 99))]
    decided = 0
    for terms in rows:
        words = run(coded, terms)
        is_decided = words != interval.IN_DOUBT
        decided += is_decided.sum()
        assert_same(words.view(np.float32)[is_decided], oracles.nearest(terms)[is_decided])
    assert decided > 99


@pytest.mark.triton
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_hard_terms_of_rows_have_the_bits_of_the_oracle(rng, dtype):
    terms = hard_matrix(rng, N + SIZE, dtype)
    launch = Launch(interpret=True, seed=1)
    options = {"dimension_numbers": NUMBERS, "mode": "drop", "target": "device", "launch": launch}
    function = jax.jit(functools.partial(scatter.scatter_add, **options))

    def run(operand, keys, updates):
        with arithmetic.wide(), arithmetic.where_subnormals(are_kept=False):
            return function(operand, keys[:, None].astype(np.int32), updates)

    assert_rows_are_added(run, terms[:SIZE], terms[SIZE:])


@pytest.mark.parametrize("size", [SIZE, 1 << 16])
@pytest.mark.parametrize("kind", ["positions", "sources", "factors"])
def test_many_contributions_have_keys_of_their_own(rng, monkeypatch, size, kind):
    monkeypatch.setattr(scatter_sorted, "_BITONIC", 0)
    keys = rng.integers(0, size + 1, N).astype(np.int32)
    sources = None if kind == "positions" else rng.integers(0, 8, N).astype(np.int32)
    factors = rough(rng, N) if kind == "factors" else None
    result = scatter_sorted._sorted_contributions(*map(_on_device, (keys, size, sources, factors)))
    assert result[0].dtype == (np.uint16 if size == SIZE else np.int32)
    order = np.argsort(keys, kind="stable")
    rows = order if sources is None else sources[order]
    parts = [keys[order], rows, np.zeros(N) if factors is None else factors[order]]
    got = [result[0], result[1], np.zeros(N) if result[2] is None else result[2]]
    # Equal keys may be in any order.
    assert sorted(zip(*map(np.asarray, got), strict=True)) == sorted(zip(*parts, strict=True))
    assert (np.diff(np.asarray(result[0]).astype(int)) >= 0).all()


def _on_device(value):
    return jnp.asarray(value) if isinstance(value, np.ndarray) else value


@pytest.mark.triton
def test_keys_of_16_bits_have_the_bits_of_the_oracle(rng, monkeypatch):
    monkeypatch.setattr(scatter_sorted, "_BITONIC", 0)
    launch = Launch(interpret=True, seed=3)

    @jax.jit
    def function(operand, keys, updates):
        with arithmetic.wide(), arithmetic.where_subnormals(are_kept=False):
            return scatter_sorted.add_by_runs(operand, keys, updates, launch)

    def run(operand, keys, updates):
        with arithmetic.wide():
            return function(operand, np.where(keys < 0, SIZE, keys).astype(np.int32), updates)

    assert_rows_are_added(run, rough(rng, (SIZE, WIDTH)), rough(rng, (N, WIDTH)))


@pytest.mark.triton
@pytest.mark.once
def test_gradients_of_reads_start_from_no_array(rng, monkeypatch):
    calls = []
    add = scatter_accumulate_rows.add_from_zeros
    monkeypatch.setattr(
        scatter_accumulate_rows,
        "add_from_zeros",
        lambda *args, **options: calls.append(args) or add(*args, **options),
    )
    table, cotangents = rough(rng, (SIZE, WIDTH)), rough(rng, (2, N, WIDTH))
    cotangents[:, :, 0] = -0.0
    index = np.concatenate([np.full(N - 8, 3), np.arange(8) % 3])

    def gradients(cotangents):
        read = jax.linear_transpose(lambda table: impl.index_select(table, 0, index), table)
        return jax.vmap(lambda cotangent: read(cotangent)[0])(cotangents)

    with impl.deterministic(), impl.testing.emulate("cuda", seed=5):
        got, dot = jax.jvp(gradients, (cotangents,), (2 * cotangents,))
    assert calls
    for cotangent, total in zip(cotangents, np.asarray(got), strict=True):
        want = oracles.nearest_scatter(np.zeros((SIZE, WIDTH), np.float32), index, cotangent)
        assert_same(total, want)
    assert_same(np.asarray(dot), 2 * np.asarray(got))


@pytest.mark.triton
@pytest.mark.once
def test_portable_scatters_of_jax_take_the_kernels(rng, monkeypatch):
    calls = []
    add_by_runs = scatter_sorted.add_by_runs
    monkeypatch.setattr(
        scatter_sorted,
        "add_by_runs",
        lambda *args, **options: calls.append(args) or add_by_runs(*args, **options),
    )
    with impl.deterministic(guarantee="portable"), impl.testing.emulate("cuda", seed=5):
        run = jax.jit(lambda operand, keys, updates: operand.at[keys].add(updates, mode="drop"))
        # To JAX a key of -1 means the last row, so it is replaced by one that is out of range.
        assert_rows_are_added(
            lambda operand, keys, updates: run(operand, np.where(keys < 0, SIZE, keys), updates),
            rough(rng, (SIZE, WIDTH)),
            rough(rng, (N, WIDTH)),
        )
    assert calls


@pytest.mark.once
def test_tangents_of_an_operand_are_read(rng):
    index = np.arange(N) % SIZE
    x, updates = rough(rng, (SIZE, WIDTH)), rough(rng, (N, WIDTH))

    def add(x):
        return impl.index_add(x, 0, index, updates)

    assert "empty=True" not in str(jax.make_jaxpr(lambda x: jax.jvp(add, (x,), (x,)))(x))
    pull = jax.vjp(lambda x: impl.index_select(x, 0, index), x)[1]
    assert "empty=True" in str(jax.make_jaxpr(pull)(updates))


def test_few_narrow_or_float64_rows_take_the_plain_form(monkeypatch):
    monkeypatch.undo()
    size = 50_000
    assert scatter_sorted.suits(size, 64, 5000, jnp.float32)
    assert not scatter_sorted.suits(100, 64, 5000, jnp.float32)
    assert not scatter_sorted.suits(size, 64, 500, jnp.float32)
    assert not scatter_sorted.suits(size * 16, 4, 5000, jnp.float32)
    assert not scatter_sorted.suits(size, 64, 5000, np.float64)

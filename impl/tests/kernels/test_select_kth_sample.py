"""The kernels of selection by a sample.

Tests: impl._families.sort_keys, impl._kernels._passes.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._families.sort_keys import as_sortable
from impl._kernels import select_kth, select_kth_sample
from impl._kernels._passes import CHUNK, TILE, levels
from impl._kernels.launch import MAX_ELEMENTS, Launch
from impl.tests.kernels._unwritten import assert_no_result_has_unwritten_elements
from spec import oracles

#: The length of rows, and how many elements a program holds.
N, MOST = 40_000, 4096
RANKS = (1, N // 3, N // 2, N)


@functools.cache
def compiled():
    launch = Launch(True, 3)
    return jax.jit(
        lambda x, ranks: select_kth_sample.first_position(
            as_sortable(x), ranks, MOST, launch=launch
        )
    )


def search(rows, ranks):
    with jax.enable_x64(True):  # Without it, no sum of int32 is int64.
        return compiled()(rows, jnp.asarray(ranks, jnp.int32))


#: Rows made of normal numbers.
ROWS = {
    "normal": lambda x: x,
    "sorted": np.sort,
    "falling": lambda x: -np.sort(x),
    "equal": np.ones_like,
    "two values": lambda x: np.where(x > 0, 1, -1),
    "few values": lambda x: np.round(2 * x),
    "half zeros": lambda x: np.where(np.arange(N) % 2, np.copysign(0, x), x),
    "NaNs": lambda x: np.where(np.arange(N) % 3, x, np.copysign(np.nan, x)),
    "regular": lambda x: np.arange(x.size) % 1024,
    "infinite": lambda x: np.where(abs(x) > 1, x * np.inf, x),
}


def find(launch, kernel):
    x = as_sortable(jnp.asarray(np.random.default_rng(0).integers(-90, 90, (2, 9000)), jnp.int8))
    with jax.enable_x64(True):
        found = kernel(x, jnp.asarray([5, 4000], jnp.int32), 8192, launch=launch)
    assert found.certain.all()
    return found.position, found.certain


CALLS = {select_kth_sample.first_position: [find]}


def test_no_slot_is_read_that_was_not_written():
    (kernel,) = CALLS
    assert_no_result_has_unwritten_elements(kernel, CALLS[kernel])


@pytest.mark.parametrize("rows", [1, 7, 1000])
@pytest.mark.parametrize("most", [1 << 15, 1 << 14])
def test_what_the_last_pass_leaves_fits_a_program(rows, most):
    for n in (most + 1, 50_000, 300_000, 10**6, 10**7, 10**8, MAX_ELEMENTS):
        if n * rows <= MAX_ELEMENTS:
            passes = levels(rows, n, most)
            assert [level.n for level in passes] == [n, *(each.slots for each in passes[:-1])]
            assert passes[-1].slots <= most
            for level in passes:
                columns = level.parts * level.trips * np.prod(TILE)
                assert level.n <= columns < level.n + MAX_ELEMENTS // 16
                sampled = np.asarray(level.sampled())
                assert np.all(np.diff(sampled) > 0) or level.n < 2 * level.sample
                assert sampled[0] >= 0
                assert sampled[-1] < level.n


@pytest.mark.once
@pytest.mark.parametrize("name", ROWS)
def test_the_sample_finds_the_first_of_any_rank(name):
    x = ROWS[name](np.random.default_rng(0).standard_normal(N)).astype(np.float32)
    rows = np.broadcast_to(x, (len(RANKS), N))
    found = search(rows, RANKS)
    assert found.certain.all()
    want = [oracles.lowest_index(x, rank).item() for rank in RANKS]
    assert found.position.tolist() == want


@pytest.mark.once
def test_a_sample_that_misleads_is_known():
    (level, *_) = levels(len(RANKS), N, MOST)
    x = np.random.default_rng(0).standard_normal(N).astype(np.float32)
    x[level.sampled()] = -100
    rows = np.broadcast_to(x, (len(RANKS), N))
    assert not search(rows, [N // 2] * len(RANKS)).certain.any()


@pytest.mark.once
def test_neither_a_sample_nor_a_lack_of_slots_decides_of_a_result(monkeypatch):
    n, most = 10_000, 8192
    (level,) = levels(2, n, most)
    monkeypatch.setattr(select_kth, "_LANE_BYTES", 4 * most // 1024)
    x = np.random.default_rng(0).integers(-90, 90, n).astype(np.int8)
    misleading = x.copy()
    misleading[level.sampled()] = -100
    in_one_part = np.arange(n) // CHUNK % level.parts == 0
    too_many = np.where(in_one_part, x // 2, np.where(x < 0, -90, 90)).astype(np.int8)
    find = jax.jit(functools.partial(select_kth.first_position, launch=Launch(True, 3)))
    for other in (misleading, too_many):
        found = find(jnp.stack([x, other]), jnp.asarray([5, n // 2], jnp.int32))
        assert found.tolist() == [oracles.lowest_index(x, 5), oracles.lowest_index(other, n // 2)]


@pytest.mark.once
def test_the_first_nan_is_found_before_any_rank(monkeypatch):
    n, most = 10_000, 8192
    monkeypatch.setattr(select_kth, "_LANE_BYTES", 4 * most // 1024)
    rows = np.random.default_rng(0).standard_normal((2, n)).astype(np.float32)
    rows[0, n - 1] = -np.nan
    rows[1, levels(2, n, most)[0].sampled()] = np.nan
    rank = n // 2
    # No row needs the digits, which would find the NaNs too.
    monkeypatch.setattr(select_kth, "ranks_of_nans", lambda _, ranks: ranks)
    find = functools.partial(select_kth.first_position, launch=Launch(True, 3), nan_first=True)
    found = jax.jit(find)(jnp.asarray(rows), jnp.full(2, rank, jnp.int32))
    assert found.tolist() == [np.argmax(np.isnan(row)) for row in rows]

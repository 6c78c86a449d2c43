"""Scatters whose hot destinations have replicas, against NumPy's."""

import jax
import numpy as np
import pytest

from impl._exact.sums import replicas
from impl._exact.sums.replicas import Replicas

N, SIZE = 4000, 500


@pytest.fixture(autouse=True)
def _small_tables(monkeypatch):
    monkeypatch.setattr(replicas, "_FEW", 100)
    monkeypatch.setattr(replicas, "_SLOTS", 32)
    monkeypatch.setattr(replicas, "_SHARE", 4)


def keys_of(rng, kind, size):
    if kind == "uniform":
        return rng.integers(0, size + 1, N)
    if kind == "zipf":
        return (rng.zipf(1.1, N) - 1) % size
    if kind == "sorted":
        return np.sort(rng.integers(0, size, N))
    # "hot": one destination is in range. Else no index is.
    return np.where(rng.random(N) < 0.9, size - 1, size) if kind == "hot" else np.full(N, size)


def run(keys, initial, updates):
    @jax.jit
    def function(keys, initial, updates):
        found = Replicas.of(keys, len(initial), width=initial[0].size)
        return found.add(initial, updates), found.rows

    return function(keys.astype(np.int32), initial, updates)


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
        got, _ = run(keys, initial, updates)
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("size", [1, SIZE])
def test_no_row_has_many_updates_of_a_hot_destination(rng, size):
    keys = keys_of(rng, "hot", size)
    _, rows = run(keys, np.zeros(size, np.int32), np.ones(N, np.int32))
    assert np.bincount(np.asarray(rows)[keys < size]).max() <= N // 16


def test_few_or_unique_updates_have_no_replicas():
    keys = np.arange(SIZE, dtype=np.int32)
    assert Replicas.of(keys, SIZE, unique=True).copies == 1
    assert Replicas.of(keys[:50], SIZE).copies == 1

"""Promises of Generator: separate streams, which threads can share, with a state."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import numpy as np

from conformance.promise import Promise
from conformance.promises._keys import KEYS, SEED, drawn


def promises() -> Sequence[Promise]:
    """Returns tests of streams, states and threads."""
    return [
        Promise("R0211", "streams", _streams),
        Promise("R0211", "state", _state),
        Promise("R0211", "threads", _threads),
    ]


def _streams(namespace: ModuleType) -> None:
    one, same, other = (namespace.Generator(seed) for seed in (SEED, SEED, SEED + 1))
    keys = []
    for _ in KEYS:  # In turns: a draw from one generator must not change another.
        keys += drawn(one, 1)
        assert drawn(other, 1)[0] not in KEYS
    assert keys == drawn(same) == KEYS


def _state(namespace: ModuleType) -> None:
    generator = namespace.Generator(SEED)
    drawn(generator, 1)
    state = np.array(generator.get_state())
    copy = pickle.loads(pickle.dumps(generator))  # noqa: S301  # This line pickled it.
    for restored in (generator, copy, namespace.Generator().set_state(state)):
        assert drawn(restored, len(KEYS) - 1) == KEYS[1:]
        assert restored.initial_seed() == SEED


def _threads(namespace: ModuleType) -> None:
    threads, draws = 8, 50
    generator, same = namespace.Generator(SEED), namespace.Generator(SEED)
    with ThreadPoolExecutor(threads) as pool:
        shares = list(pool.map(lambda _: drawn(generator, draws), range(threads)))
    assert sorted(itertools.chain.from_iterable(shares)) == sorted(drawn(same, threads * draws))

"""What is promised of seed_everything: one seed for the three generators of a process."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import numpy as np

from conformance.promise import Promise
from conformance.promises._keys import KEYS, SEED, drawn


def promises() -> Sequence[Promise]:
    """That all three repeat themselves, and differ under another seed."""
    return [Promise("R0213", "all three", _repeats)]


def _repeats(namespace: ModuleType) -> None:
    with _restored(namespace):
        first = _taken(namespace, SEED)
        others = _taken(namespace, SEED + 1)
        assert first[0] == KEYS
        assert _taken(namespace, SEED) == first
        assert [mine for mine, other in zip(first, others, strict=True) if mine == other] == []


def _taken(namespace: ModuleType, seed: int) -> list[Any]:
    returned = namespace.seed_everything(seed)
    keys = drawn(namespace.default_generator)
    return [keys, random.random(), np.random.random(), returned.random()]  # noqa: NPY002, S311


@contextmanager
def _restored(namespace: ModuleType) -> Iterator[None]:
    python, numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    with namespace.fork_rng():
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numpy)  # noqa: NPY002

"""Promises of seed_everything: one seed for the three generators of a process."""

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
    """Returns a test that all three repeat their draws, and differ under another seed."""
    return [Promise("R0213", "all three", _repeats)]


def _repeats(namespace: ModuleType) -> None:
    with _restored(namespace):
        draws = _draws(namespace, SEED)
        others = _draws(namespace, SEED + 1)
        assert draws[0] == KEYS
        assert _draws(namespace, SEED) == draws
        assert all(draw != other for draw, other in zip(draws, others, strict=True))


def _draws(namespace: ModuleType, seed: int) -> list[Any]:
    generator = namespace.seed_everything(seed)
    keys = drawn(namespace.default_generator)
    return [keys, random.random(), np.random.random(), generator.random()]  # noqa: NPY002, S311


@contextmanager
def _restored(namespace: ModuleType) -> Iterator[None]:
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    with namespace.fork_rng():
        try:
            yield
        finally:
            random.setstate(python_state)
            np.random.set_state(numpy_state)  # noqa: NPY002

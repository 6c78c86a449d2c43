"""Promises of DataLoader: the seeds of an epoch, the order, and the position."""

from __future__ import annotations

import functools
import itertools
import random
import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from conformance.promises import _draws
from conformance.suite.promise import Promise

SEED = 0x0123_4567_89AB_CDEF
WORKERS = 2
BATCH = 2
#: The number of batches before the saved position: one worker has made one more than the other.
DONE = 3


def promises() -> Mapping[str, Sequence[Promise]]:
    return {
        "utils.data.DataLoader": (
            Promise("R0220", "base seed", _base_seed, ("cloudpickle",)),
            Promise("R0221", "worker seeds", _worker_seeds, ("cloudpickle",)),
            Promise("R0222", "number of workers", _order, ("cloudpickle",)),
            Promise("R0223", "position", _position, ("cloudpickle",)),
        )
    }


def _base_seed(namespace: ModuleType) -> None:
    generator = namespace.Generator(SEED)
    orders = set()
    for shuffle, draws in ((True, 2), (False, 1)):
        loader = _loader(namespace, 0, generator=generator, shuffle=shuffle)
        for _ in range(2):
            twin = namespace.Generator().set_state(generator.get_state())
            orders.add(tuple(_indices(loader)))
            for _ in range(draws):
                twin.draw_seed()
            assert twin.get_state().tolist() == generator.get_state().tolist()
    assert len(orders) == 3  # Two shuffled orders, and the sequential one.


def _worker_seeds(namespace: ModuleType) -> None:
    base_seed = namespace.Generator(SEED).draw_seed()
    expected = [_expected(namespace, base_seed, worker_id) for worker_id in range(WORKERS)]
    for number, batch in enumerate(_run(namespace)[0]):
        for _, *sample in batch:
            assert sample == next(expected[number % WORKERS])


def _expected(namespace: ModuleType, base_seed: int, worker_id: int) -> Iterator[list[int]]:
    seed = base_seed + worker_id
    python = random.Random(seed)  # noqa: S311  # The promise is about it.
    python.seed(python.getrandbits(32) + worker_id)
    words = np.random.SeedSequence([worker_id, base_seed % (1 << 32), base_seed >> 32, 0])
    numpy = np.random.RandomState(words.generate_state(4))
    generator = namespace.Generator(seed)
    while True:
        yield [worker_id, seed, *_draws.drawn(generator, python, numpy)]


def _order(namespace: ModuleType) -> None:
    alone = _indices(_loader(namespace, 0))
    assert sorted(alone) == list(range(_draws.SAMPLES))
    assert [sample[0] for batch in _run(namespace)[0] for sample in batch] == alone


def _position(namespace: ModuleType) -> None:
    batches, state, following = _run(namespace)
    loader = _loader(namespace, WORKERS, generator=namespace.Generator())
    loader.load_state_dict(state)
    assert list(loader) == batches[DONE:]
    assert loader.generator.get_state().tolist() == following
    alone = _loader(namespace, 0, generator=namespace.Generator())
    alone.load_state_dict(state)
    with warnings.catch_warnings(action="ignore"):  # It warns that workers drew other numbers.
        assert _indices(alone) == [sample[0] for batch in batches[DONE:] for sample in batch]
    loader = _loader(namespace, 0)
    _indices(loader)
    state = loader.state_dict()
    batches = list(loader)
    loader.load_state_dict(state)
    assert list(loader) == batches
    assert _indices(alone) == [sample[0] for batch in batches for sample in batch]


@functools.cache
def _run(namespace: ModuleType) -> tuple[list[Any], dict[str, Any], list[int]]:
    # One epoch for all tests, since processes take a second to start.
    loader = _loader(namespace, WORKERS)
    iterator = iter(loader)
    batches = list(itertools.islice(iterator, DONE))
    state = loader.state_dict()
    batches += iterator
    return batches, state, loader.generator.get_state().tolist()


def _loader(namespace: ModuleType, num_workers: int, **options: Any) -> Any:
    return namespace.utils.data.DataLoader(
        _draws.Draws(namespace.__name__),
        BATCH,
        num_workers=num_workers,
        collate_fn=list,
        worker_init_fn=_draws.reinitialised,
        **{"shuffle": True, "generator": namespace.Generator(SEED)} | options,
    )


def _indices(loader: Any) -> list[int]:
    return [sample[0] for batch in loader for sample in batch]

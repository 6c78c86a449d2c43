"""A data set whose samples have the number and the seed of a worker, and its draws."""

from __future__ import annotations

import dataclasses
import importlib
import random
from typing import Any

import numpy as np

SAMPLES = 9


@dataclasses.dataclass(frozen=True)
class Draws:
    """Samples of an index, a worker's number and seed, and a draw from each generator.

    A worker imports the module ``namespace``, which has the loader.
    """

    namespace: str

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> list[int]:
        namespace: Any = importlib.import_module(self.namespace)
        worker = namespace.utils.data.get_worker_info()
        number_and_seed = [0, 0] if worker is None else [worker.id, worker.seed]
        return [index, *number_and_seed, *drawn(namespace.default_generator)]


def drawn(generator: Any, python: Any = random, numpy: Any = np.random) -> list[int]:
    """Draws from Python's ``random``, from NumPy, and from the namespace's generator."""
    return [python.getrandbits(32), int(numpy.randint(1 << 31)), generator.draw_seed()]


def reinitialised(worker_id: int) -> None:
    """Seeds ``random`` with a draw, so that the result shows whether it was seeded before."""
    random.seed(random.getrandbits(32) + worker_id)

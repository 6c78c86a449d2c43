"""A data set whose samples say where they were made, and what was drawn there."""

from __future__ import annotations

import dataclasses
import importlib
import random
from typing import Any

import numpy as np

SAMPLES = 9


@dataclasses.dataclass(frozen=True)
class Draws:
    """Samples of an index, a worker's number and seed, and a draw of each generator.

    Attributes:
        namespace: Name of the module that has the loader: a worker imports it anew.
    """

    namespace: str

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> list[int]:
        namespace: Any = importlib.import_module(self.namespace)
        worker = namespace.utils.data.get_worker_info()
        place = [0, 0] if worker is None else [worker.id, worker.seed]
        return [index, *place, *drawn(namespace.default_generator)]


def drawn(generator: Any, python: Any = random, numpy: Any = np.random) -> list[int]:
    """What a sample draws: from Python's ``random``, from NumPy, and from the namespace."""
    return [python.getrandbits(32), int(numpy.randint(1 << 31)), generator.draw_seed()]


def reinitialised(worker_id: int) -> None:
    """A ``worker_init_fn`` that draws, so that it must come after the seeds."""
    random.seed(random.getrandbits(32) + worker_id)

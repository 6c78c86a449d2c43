"""What a worker knows of itself."""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class WorkerInfo:
    """What ``get_worker_info`` returns in a worker.

    Attributes:
        id: The number of the worker, from 0 to ``num_workers - 1``.
        num_workers: How many workers the loader has.
        seed: The seed of this worker in this epoch: the base seed of the epoch plus ``id``.
        dataset: The worker's own copy of the data set.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker of a ``DataLoader``, what it is; None in any other process.

    Source: ``torch.utils.data.get_worker_info``.
    """
    return _worker_info


def set_worker_info(value: WorkerInfo) -> None:
    """Says that this process is a worker."""
    global _worker_info  # noqa: PLW0603  # there is one worker in a process
    _worker_info = value

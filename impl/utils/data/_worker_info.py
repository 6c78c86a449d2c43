"""Information about the worker that runs in this process.

Source: ``torch/utils/data/_utils/worker.py``.
"""

from __future__ import annotations

import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class WorkerInfo:
    """The value that ``get_worker_info`` returns in a worker.

    Attributes:
        id: The number of the worker, from 0 to ``num_workers - 1``.
        num_workers: The number of workers of the loader.
        seed: The seed of this worker in this epoch: the base seed of the epoch plus ``id``.
        dataset: The worker's own copy of the data set.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Returns information about this worker; None in a process that is not a worker.

    Source: ``torch.utils.data.get_worker_info``.
    """
    return _worker_info


def set_worker_info(value: WorkerInfo) -> None:
    """Sets the information about the worker of this process."""
    global _worker_info  # noqa: PLW0603  # There is one worker in a process.
    _worker_info = value

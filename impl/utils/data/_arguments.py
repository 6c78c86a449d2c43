"""Checks of a loader's arguments.

Source: ``torch.utils.data.DataLoader``, whose types of exceptions are kept.
"""

from __future__ import annotations

from typing import Any


def check_unsupported(pin_memory: bool, multiprocessing_context: object) -> None:
    """Checks the arguments that PyTorch supports and a loader here does not.

    Raises:
        ValueError: One of them is given.
    """
    if pin_memory:
        raise ValueError(
            "DataLoader: argument 'pin_memory' must be False: batches are NumPy arrays, which "
            "jax.device_put takes to a device as they are"
        )
    if multiprocessing_context is not None:
        raise ValueError(
            "DataLoader: argument 'multiprocessing_context' must be None: workers start by 'spawn'"
        )


def check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    """Checks the number of workers, and the arguments that concern workers.

    Raises:
        TypeError: ``num_workers`` is not an int.
        ValueError: A number is negative, or an argument needs workers.
    """
    if isinstance(num_workers, bool) or not isinstance(num_workers, int):
        raise TypeError(f"DataLoader: argument 'num_workers' must be int, but got {num_workers!r}")
    if num_workers < 0:
        raise ValueError(
            f"DataLoader: argument 'num_workers' got {num_workers}; give 0 to read in this "
            "process, or a positive number"
        )
    if timeout < 0:
        raise ValueError(f"DataLoader: argument 'timeout' got {timeout}; it must not be negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            f"DataLoader: argument 'prefetch_factor' got {prefetch_factor}, but without workers "
            "nothing is fetched ahead; leave it out or set num_workers"
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError(
            f"DataLoader: argument 'prefetch_factor' got {prefetch_factor}; it must be positive"
        )
    if persistent_workers and num_workers == 0:
        raise ValueError("DataLoader: argument 'persistent_workers' needs num_workers > 0")


def check_exclusive(
    batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    """Checks that one argument decides on the order, and one on the batches.

    Raises:
        ValueError: Two arguments exclude each other.
    """
    if sampler is not None and shuffle:
        raise ValueError("DataLoader: arguments 'sampler' and 'shuffle' exclude each other")
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise ValueError(
            "DataLoader: argument 'batch_sampler' excludes 'batch_size', 'shuffle', 'sampler' and "
            "'drop_last', which it takes the place of"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "DataLoader: argument 'drop_last' needs batches, but batch_size=None makes none"
        )


def check_dataset(dataset: Any, *, sampled: bool) -> None:
    """Checks that the data set is of the map style.

    Args:
        dataset: The argument ``dataset``.
        sampled: Whether a sampler gives the indices, so that no length is needed.

    Raises:
        TypeError: It is not of the map style, or has no length and needs one.
    """
    kind = type(dataset).__name__
    iterable = any(base.__name__ == "IterableDataset" for base in type(dataset).__mro__)
    if iterable or not hasattr(dataset, "__getitem__"):
        raise TypeError(
            f"DataLoader: argument 'dataset' must be of the map style, with __getitem__ and "
            f"__len__, but got a {kind}. The position in one that can only be iterated over could "
            "not be restored"
        )
    if not sampled and not hasattr(dataset, "__len__"):
        raise TypeError(
            f"DataLoader: argument 'dataset' got a {kind}, which has no __len__; give it one, or "
            "give a sampler"
        )

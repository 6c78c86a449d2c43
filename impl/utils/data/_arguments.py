"""The arguments of a loader, checked as PyTorch checks them."""

from __future__ import annotations

from typing import Any


def check_foreign(pin_memory: bool, multiprocessing_context: object) -> None:
    """What PyTorch has and a loader here does not.

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
    """How many workers, and what is asked of them.

    Raises:
        TypeError: ``num_workers`` is not an int.
        ValueError: A number is negative, or something needs workers.
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
    """Who makes the batches and the order.

    Raises:
        ValueError: More than one of them is to.
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
    """That the data set is of the map style.

    Raises:
        TypeError: It is not, or lacks a length where no sampler gives the indices.
    """
    kind = type(dataset).__name__
    iterable = any(each.__name__ == "IterableDataset" for each in type(dataset).__mro__)
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

"""The work of a loader, in the form in which it is sent to a worker.

``Work`` is the same for all workers and epochs; an ``Epoch`` is of one worker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from impl._mode import modes
from impl.utils.data._seeding import GeneratorStates

#: Settings of JAX that change what a data set computes with JAX.
_JAX_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_numpy_dtype_promotion",
    "jax_threefry_partitionable",
)


@dataclasses.dataclass(frozen=True)
class Work:
    """The data set, and how its samples become batches.

    Attributes:
        dataset: The data set.
        collate_fn: Makes a batch of a list of samples; of one sample if ``batched`` is False.
        batched: Whether a batch has a list of indices; otherwise it has one index.
        worker_init_fn: The function that the user wants each worker to call.
        num_workers: The number of workers; 0 if the main process does the work.
    """

    dataset: Any
    collate_fn: Callable[[Any], Any]
    batched: bool
    worker_init_fn: Callable[[int], None] | None
    num_workers: int

    def batch(self, indices: Any) -> Any:
        """Returns the batch of the given indices."""
        if isinstance(indices, np.ndarray):
            indices = indices.tolist()  # A data set gets Python's integers.
        if not self.batched:
            return self.collate_fn(self.dataset[indices])
        getitems = getattr(self.dataset, "__getitems__", None)
        if getitems is not None:
            return self.collate_fn(getitems(indices))
        return self.collate_fn([self.dataset[index] for index in indices])


@dataclasses.dataclass(frozen=True)
class Settings:
    """The settings of the main process that its workers take over.

    Attributes:
        jax_settings: The settings of JAX, by name.
        mode: The mode.
        fill: Whether the mode fills uninitialised memory.
    """

    jax_settings: dict[str, Any]
    mode: modes.Mode
    fill: bool

    def apply(self) -> None:
        """Gives this process the settings."""
        for name, value in self.jax_settings.items():
            jax.config.update(name, value)
        modes.use_deterministic_algorithms(
            self.mode.enabled, warn_only=self.mode.warn_only, profile=self.mode.profile
        )
        modes.set_fill_uninitialized_memory(self.fill)


def settings() -> Settings:
    """Returns the settings of this process."""
    return Settings(
        {name: getattr(jax.config, name) for name in _JAX_SETTINGS},
        modes.current(),
        modes.fill_uninitialized_memory(),
    )


@dataclasses.dataclass(frozen=True)
class Epoch:
    """The part of an epoch that one worker does.

    Attributes:
        base_seed: The seed that was drawn for the epoch.
        batches: The indices of the worker's batches, in their order.
        reseeded: Whether ``worker_init_fn`` ran in an earlier epoch, so that this epoch's seeds
            replace what it seeded. A process that starts in such an epoch has to do the same.
        states: The states that the generators go on from, in the middle of an epoch.
        settings: The settings of the main process.
    """

    base_seed: int
    batches: Sequence[Any]
    reseeded: bool
    states: GeneratorStates | None
    settings: Settings

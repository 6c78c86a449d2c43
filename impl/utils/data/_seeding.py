"""The three generators of a worker: Python's, NumPy's global one and this package's default one.

A worker seeds them when an epoch begins, as PyTorch's workers do. Their states go back to the main
process with each batch, so that a later run can go on from there.

Source: ``_worker_loop`` of ``torch/utils/data/_utils/worker.py``.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import numpy.typing as npt

from impl import random as _random

#: The states of ``random``, of NumPy's global generator and of the default generator.
GeneratorStates = tuple[tuple[Any, ...], tuple[Any, ...], npt.NDArray[np.uint32]]


def numpy_seed(base_seed: int, worker_id: int) -> list[int]:
    """Returns the four words that seed NumPy's global generator, as in PyTorch."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(word) for word in np.random.SeedSequence(entropy).generate_state(4)]


def seed_generators(base_seed: int, worker_id: int) -> None:
    """Seeds the three generators of a worker."""
    random.seed(base_seed + worker_id)
    np.random.seed(numpy_seed(base_seed, worker_id))  # noqa: NPY002  # PyTorch seeds this one.
    _random.manual_seed(base_seed + worker_id)


def generator_states() -> GeneratorStates:
    """Returns the states of the three generators."""
    # NumPy returns a tuple, unless it is asked for a dict.
    numpy_state: Any = np.random.get_state()  # noqa: NPY002  # PyTorch seeds this one.
    return random.getstate(), numpy_state, _random.get_rng_state()


def set_generator_states(states: GeneratorStates) -> None:
    """Sets the three generators to states that ``generator_states`` returned."""
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002  # PyTorch seeds this one.
    _random.set_rng_state(states[2])

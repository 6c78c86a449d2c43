"""The draws that a worker is expected to make."""

import random

import numpy as np

import impl
from impl.utils.data import _work


def streams(base_seed, worker_id, *, recipe):
    """Yields the results of ``_data_sets.draws`` in a worker, one for each call.

    Args:
        base_seed: The seed of the epoch.
        worker_id: The number of the worker.
        recipe: Whether a ``worker_init_fn`` seeds as PyTorch's notes on reproducibility do.
    """
    seed = base_seed + worker_id
    words = seed % 2**32 if recipe else _work.numpy_seed(base_seed, worker_id)
    python = random.Random(seed % 2**32 if recipe else seed)
    numpy = np.random.RandomState(words)
    generator = impl.Generator(seed)
    while True:
        yield [[python.random(), numpy.random(), generator.draw_seed() % 2**32] for _ in range(2)]

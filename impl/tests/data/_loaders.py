"""Loaders that several modules test, and the draws that a worker is expected to make."""

import random

import numpy as np

import impl
from impl.utils import data
from impl.utils.data import _work


class Squares:
    """A data set of numbers, which needs no worker."""

    def __init__(self, length=10):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return index * index


def shuffled(**options):
    """A loader without workers; equal options give equal batches."""
    options = {"batch_size": 3, "shuffle": True, "generator": impl.Generator(0)} | options
    return data.DataLoader(Squares(), **options)


def batches(loader):
    """The batches of an epoch, as lists."""
    return [np.asarray(batch).tolist() for batch in loader]


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

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


def streams(base_seed):
    """Yields the results of ``_data_sets.draws`` in worker 0 of an epoch, one for each call."""
    python = random.Random(base_seed)
    numpy = np.random.RandomState(_work.numpy_seed(base_seed, 0))
    generator = impl.Generator(base_seed)
    while True:
        yield [[python.random(), numpy.random(), generator.draw_seed() % 2**32] for _ in range(2)]

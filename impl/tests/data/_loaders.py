"""Loaders that several modules test."""

import numpy as np

import impl
from impl.utils import data


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

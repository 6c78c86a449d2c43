"""Index expressions for the tests of getitem and index_put."""

import random

import numpy as np

A, B, C = np.array([0, 1]), np.array([[0], [1], [-1]]), np.array([1, 1, -2, 0])
ONE = np.array(1)
MASK = np.random.default_rng(0).random((3, 4)) < 0.5

#: Parts of expressions, for an array of shape [2, 3, 4, 5].
PARTS = [
    0,
    -1,
    slice(None),
    slice(0, 9, 2),
    None,
    ...,
    True,
    False,
    A,
    B % 2,
    np.array([-1, 0]),
    ONE,
    np.array(-2),
    [0, 1],
    np.array([0], np.int32),
]


def label(expression):
    return str(expression)[:40].replace("\n", "")


def expressions(parts, count, seed, longest=5):
    """Yields random expressions of the parts."""
    rng = random.Random(seed)
    for _ in range(count):
        yield tuple(rng.choice(parts) for _ in range(rng.randint(1, longest)))


def as_torch(torch, part):
    return torch.from_numpy(part.copy()) if isinstance(part, np.ndarray) else part

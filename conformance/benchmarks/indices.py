"""The distributions of the indices of a scatter: how many contributions meet at one destination."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

#: An array of int32.
Indices = np.ndarray[Any, np.dtype[np.int32]]

#: The exponent of Zipf's law: of the destinations, the k-th has a share of 1 / k**1.1.
ZIPF = 1.1


def draw(distribution: str, destinations: int, count: int) -> Indices:
    """Returns indices, int32, shape [count].

    Args:
        distribution: A name in ``DISTRIBUTIONS``.
        destinations: The indices are below this number.
        count: How many there are. For ``unique``, at most ``destinations``.
    """
    rng = np.random.default_rng(0)
    indices: Indices = DISTRIBUTIONS[distribution](rng, destinations, count).astype(np.int32)
    return indices


def _zipf(rng: np.random.Generator, destinations: int, count: int) -> Any:
    shares = np.cumsum(np.arange(1, destinations + 1) ** -ZIPF)
    ranks = np.searchsorted(shares / shares[-1], rng.random(count)).clip(max=destinations - 1)
    # The frequent destinations are not neighbours.
    return rng.permutation(destinations)[ranks]


DISTRIBUTIONS: Mapping[str, Callable[[np.random.Generator, int, int], Any]] = MappingProxyType(
    {
        "uniform": lambda rng, destinations, count: rng.integers(0, destinations, count),
        f"Zipf {ZIPF}": _zipf,
        "one hot": lambda _, destinations, count: np.full(count, destinations // 2),
        "sorted": lambda rng, destinations, count: np.sort(rng.integers(0, destinations, count)),
        "unique": lambda rng, destinations, count: rng.permutation(destinations)[:count],
    }
)

"""Draws that are the same on every machine: they read the raw words of a counter.

NumPy guarantees the words of a bit generator in every release, but not what ``Generator`` makes of
them. So each draw here is arithmetic on the words of Philox (Salmon, Moraes, Dror and Shaw 2011,
"Parallel random numbers: as easy as 1, 2, 3").
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Dice:
    """A source of draws.

    Args:
        seed: The seed of a hunt.
        index: The number of a stream: streams of one seed have no words in common.
    """

    def __init__(self, seed: int, index: int = 0) -> None:
        self._words = np.random.Philox(key=[seed % 2**64, index % 2**64])

    def word(self) -> int:
        """Returns an integer from 0 to 2**64 - 1."""
        return int(self._words.random_raw())

    def below(self, limit: int) -> int:
        """Returns an integer from 0 to ``limit - 1``."""
        return self.word() % limit

    def between(self, least: int, greatest: int) -> int:
        """Returns an integer from ``least`` to ``greatest``, both included."""
        return least + self.below(greatest - least + 1)

    def happens(self, percent: int) -> bool:
        """Returns True in ``percent`` of a hundred draws."""
        return self.below(100) < percent

    def one_of(self, choices: Sequence[T]) -> T:
        """Returns one of the elements of a sequence, which is not empty."""
        return choices[self.below(len(choices))]

    def weighted(self, weights: dict[T, int]) -> T:
        """Returns a key of a table, as often as its weight says."""
        point = self.below(sum(weights.values()))
        for choice, weight in weights.items():
            point -= weight
            if point < 0:
                return choice
        raise AssertionError  # The weights add up to more than any point.

    def some_of(self, choices: Sequence[T], count: int) -> list[T]:
        """Returns distinct elements of a sequence, in the sequence's order."""
        left = list(range(len(choices)))
        chosen = [left.pop(self.below(len(left))) for _ in range(min(count, len(left)))]
        return [choices[index] for index in sorted(chosen)]

    def words(self, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
        """Returns ``count`` words, as an array of uint64."""
        return np.asarray(self._words.random_raw(count), np.uint64).reshape(count)

"""Orders in which a data set is read: sequential, shuffled, in batches.

The shuffled orders sort indices by words of the counter-based generator Philox (Salmon, Moraes,
Dror and Shaw 2011, doi:10.1145/2063384.2063405). NumPy keeps these words in all its releases. For
5 indices and the seed 7::

    words                      df40..., 4b9d..., 6b8b..., 67c7..., 1535...      hexadecimal, 64 bits
    permutation(5, 7)          [4, 1, 3, 2, 0]                index 4 has the least word
    with replacement           [4, 1, 2, 2, 0]                the integer parts of word * 5 / 2**64
    permutation(5, 7, 1)       [3, 1, 2, 4, 0]                the next permutation of the seed
    batches of 2               [4, 1]  [3, 2]  [0]

Source: ``torch.utils.data.sampler``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

from impl import random as _random


def permutation(size: int, seed: int, number: int = 0) -> npt.NDArray[np.int64]:
    """Returns the order of a shuffled data set: a permutation of 0 … size - 1.

    Position i gets word i of Philox-4x64-10 under the key (seed, number), counting from NumPy's
    first block. The indices are then sorted by their words, and equal words by index. NumPy keeps
    the words of a bit generator in all its releases, but not the results of
    ``Generator.permutation``. So this order is the same on every machine.

    Args:
        size: The number of indices.
        seed: From 0 to 2**64 - 1.
        number: The number of the permutation; a seed has many.
    """
    words = _words(size, seed, number)
    return np.argsort(words, kind="stable").astype(np.int64, copy=False)


def _words(size: int, seed: int, number: int) -> npt.NDArray[np.uint64]:
    return np.random.Philox(key=seed | number << 64).random_raw(size)


def _with_replacement(size: int, count: int, seed: int) -> npt.NDArray[np.int64]:
    # Index i is floor(word[i] * size / 2**64), in two halves because the product has 128 bits.
    words, factor = _words(count, seed, 0), np.uint64(size)
    half = np.uint64(32)
    low = (words & np.uint64(0xFFFFFFFF)) * factor >> half
    return ((words >> half) * factor + low >> half).astype(np.int64)


class SequentialSampler:
    """All indices of a data set, from the first to the last.

    Source: ``torch.utils.data.SequentialSampler``.

    Args:
        data_source: The data set, or another object with a length.
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler:
    """The indices of a data set, in another random order in each iteration.

    Each ``iter`` draws one seed from the generator, which decides the order. So equal generators
    give the same orders on every machine.

    Source: ``torch.utils.data.RandomSampler``. The orders differ from PyTorch's.

    Args:
        data_source: The data set, or another object with a length.
        replacement: True to draw each index from all indices, so that one can come twice.
        num_samples: The number of indices; None for the length of ``data_source``. A greater number
            continues with another permutation.
        generator: The generator that seeds are drawn from; None for the default generator.

    Raises:
        TypeError: ``replacement`` is not a bool, or ``generator`` not an ``impl.Generator``.
        ValueError: ``num_samples`` is not a positive integer.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: _random.Generator | None = None,
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = checked_generator("RandomSampler", generator)
        if not isinstance(replacement, bool):
            raise TypeError(
                f"RandomSampler: argument 'replacement' must be a bool, but got {replacement!r}"
            )
        if not _positive(self.num_samples):
            raise ValueError(
                "RandomSampler: argument 'num_samples' must be a positive integer (it is the "
                f"length of the data set where it is not given), but got {self.num_samples!r}"
            )

    @property
    def num_samples(self) -> int:
        """The number of indices in an iteration."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        return iter(self.order(or_default(self.generator).draw_seed()).tolist())

    def order(self, seed: int) -> npt.NDArray[np.int64]:
        """Returns the order that belongs to a seed, int64 [num_samples]."""
        size, count = len(self.data_source), self.num_samples
        if self.replacement:
            return _with_replacement(size, count, seed)
        rounds = range(-(-count // size))
        return np.concatenate([permutation(size, seed, number) for number in rounds])[:count]

    def __len__(self) -> int:
        return self.num_samples

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that a loader keeps with its position: the generator's."""
        return {"generator": or_default(self.generator).get_state().tolist()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from a state that ``state_dict`` returned."""
        or_default(self.generator).set_state(np.array(state["generator"], np.uint32))


class BatchSampler:
    """Batches of the indices that another sampler gives.

    Source: ``torch.utils.data.BatchSampler``.

    Args:
        sampler: Gives the indices.
        batch_size: The number of indices in a batch.
        drop_last: True to leave out a last batch that is smaller.

    Raises:
        ValueError: ``batch_size`` is not a positive integer, or ``drop_last`` not a bool
            (PyTorch's choice of exception).
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not _positive(batch_size):
            raise ValueError(f"batch_size should be a positive integer, but got {batch_size!r}")
        if not isinstance(drop_last, bool):
            raise ValueError(  # noqa: TRY004  # PyTorch's choice of exception.
                f"drop_last should be a bool, but got {drop_last!r}"
            )
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        samples = len(self.sampler)  # type: ignore[arg-type]  # A TypeError if it has none.
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    def state_dict(self) -> Any:
        """Returns the state of the sampler, or None if it has none."""
        return state_of(self.sampler)

    def load_state_dict(self, state: Any) -> None:
        """Goes on from a state that ``state_dict`` returned."""
        set_state_of(self.sampler, state)


def state_of(sampler: object) -> Any:
    """Returns the state of a sampler, or None if it has no method ``state_dict``."""
    method = getattr(sampler, "state_dict", None)
    return None if method is None else method()


def set_state_of(sampler: object, state: Any) -> None:
    """Sets a sampler to a state that ``state_of`` returned."""
    if state is not None:
        sampler.load_state_dict(state)  # type: ignore[attr-defined]  # It has state_dict too.


def checked_generator(function: str, generator: Any) -> _random.Generator | None:
    """Returns ``generator``; it raises a TypeError if that is neither a generator nor None."""
    if generator is not None and not isinstance(generator, _random.Generator):
        raise TypeError(
            f"{function}: argument 'generator' must be an impl.Generator or None, but got "
            f"{type(generator).__name__}"
        )
    return generator


def _positive(number: Any) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number > 0


def or_default(generator: _random.Generator | None) -> _random.Generator:
    """Returns ``generator``, or the default generator if that is None."""
    return _random.default_generator if generator is None else generator

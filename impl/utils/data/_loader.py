"""The data loader: its arguments, its epochs, and its position that is saved and restored.

The order of an epoch is a function of one seed, so a position is the seed and a count. For the data
set [0, 10, 20, 30, 40], ``batch_size=2``, ``shuffle=True`` and ``generator=impl.Generator(0)``::

    epoch 1                         [40, 0]  [10, 20]  [30]
    state_dict() after [40, 0]      order_seed 1994973447707265678, done 1, the generator's state
    a loader that loads the state   [10, 20]  [30], and then epoch 2: [30, 0]  [10, 40]  [20]

Source: ``torch.utils.data.DataLoader``.
"""

from __future__ import annotations

import importlib.util
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from impl import random as _random
from impl.utils.data import _collate, _position, _samplers, _work

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader:
    """Batches of a data set, in an order that depends on the generator alone.

    Each ``iter`` begins an epoch. It draws a base seed from the generator and then, with
    ``shuffle=True``, the seed of the order. Worker w makes the batches w, w + num_workers, …, so
    the order does not depend on ``num_workers``. In worker w, Python's ``random`` and ``impl`` are
    seeded with base seed + w, and NumPy's global generator with four words made of both, as in
    PyTorch; then ``worker_init_fn(w)`` is called. Without workers, this process reads the data set
    and seeds no generator.

    Workers are new processes, which start by "spawn". So a script needs ``if __name__ ==
    "__main__":``, and a worker imports the script and JAX before its first batch. This is done in
    every epoch, unless ``persistent_workers=True``. Workers use JAX on the CPU only, and take over
    this process's mode and JAX's numeric settings.

    ``state_dict()`` and ``save(path)`` keep the position, also in the middle of an epoch. A loader
    that is restored from it gives the batches of a run that was never interrupted. With the same
    number of workers, this includes the draws of the data set and of ``collate_fn`` from
    ``random``, from NumPy's global generator and from ``impl``; without workers, and with a sampler
    of one's own, these generators of this process are a part of the state. With another number of
    workers, the order is the same, these draws differ, and the next ``iter`` warns.

    Source: ``torch.utils.data.DataLoader``. Differences: data sets are of the map style; batches
    are NumPy arrays; shuffled orders differ from PyTorch's; a sampler is read to its end when an
    epoch begins, so it must be finite; persistent workers are seeded anew in each epoch, where
    PyTorch's go on. An exception in a worker keeps its type and arguments, with the worker's
    traceback as a note. The arguments ``in_order`` and ``pin_memory_device`` do not exist.

    Args:
        dataset: Has ``__getitem__`` and ``__len__``. If it has ``__getitems__``, that is used.
        batch_size: The number of samples in a batch; None for single samples.
        shuffle: True for another order in each epoch.
        sampler: Gives the indices of an epoch, instead of ``shuffle``. A saved state keeps these
            indices, and the result of the sampler's ``state_dict()`` if it has that method.
        batch_sampler: Gives lists of indices, instead of ``sampler``, ``shuffle``, ``batch_size``
            and ``drop_last``.
        num_workers: The number of worker processes; 0 to read in this process.
        collate_fn: Makes a batch of a list of samples; None for ``default_collate``, or for
            ``default_convert`` if ``batch_size`` is None.
        pin_memory: False. JAX takes a batch to the device itself.
        drop_last: True to leave out a last batch that is smaller.
        timeout: Seconds to wait for a batch of a worker that has started; 0 for no limit.
        worker_init_fn: Called once in each worker process, with the worker's number.
        multiprocessing_context: None. Workers start by "spawn".
        generator: The generator that seeds are drawn from; None for the default generator.
        prefetch_factor: The number of batches that each worker makes ahead of the one that this
            process uses; None for 2.
        persistent_workers: True to keep the processes from one epoch to the next.

    Raises:
        ImportError: cloudpickle is not installed; it comes with the extra ``samebits[data]``.
        TypeError: The data set is not of the map style, or an argument has another type.
        ValueError: Arguments exclude each other or are out of range.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Sequence[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: None = None,
        generator: _random.Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
    ) -> None:
        # Checked at once, and not only when a user sets num_workers later.
        if importlib.util.find_spec("cloudpickle") is None:
            raise ImportError(
                "impl.utils.data.DataLoader needs cloudpickle, an optional dependency: install the "
                "extra 'data' (pip install 'samebits[data]')"
            )
        _check_unsupported(pin_memory, multiprocessing_context)
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_exclusive(batch_size, shuffle, sampler, batch_sampler, drop_last)
        _check_dataset(dataset, sampled=sampler is not None or batch_sampler is not None)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers > 0 and prefetch_factor is None else prefetch_factor
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = _samplers.checked_generator("DataLoader", generator)
        self.drop_last = drop_last
        self.persistent_workers = persistent_workers
        self._order = "sampler" if sampler is not None else "sequential"
        if sampler is None and shuffle:
            self._order, sampler = "shuffled", _samplers.RandomSampler(dataset, generator=generator)
        elif sampler is None:
            sampler = _samplers.SequentialSampler(dataset)
        if batch_sampler is not None:
            self._order, batch_size = "batch_sampler", None
        elif batch_size is not None:
            batch_sampler = _samplers.BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        if collate_fn is None:
            batched = batch_sampler is not None
            collate_fn = _collate.default_collate if batched else _collate.default_convert
        self.collate_fn = collate_fn
        self._position: _position.Position | None = None
        #: The workers of a loaded state, until an iterator goes on from there.
        self._loaded: dict[str, Any] | None = None
        self._pool: Any = None  # The persistent workers.
        self._initialized = True

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FIXED and "_initialized" in self.__dict__:
            raise ValueError(f"DataLoader: attribute {name!r} cannot be set; make another loader")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        """Returns the number of batches in an epoch, if the sampler has a length."""
        return len(self._unit_sampler)  # type: ignore[arg-type]  # A TypeError if it has none.

    @property
    def _unit_sampler(self) -> Iterable[Any]:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    @property
    def _generator(self) -> _random.Generator:
        return _samplers.or_default(self.generator)

    @property
    def _own_sampler(self) -> bool:
        # True if the user gave the sampler, so that a saved state has to keep its indices.
        return self._order in {"sampler", "batch_sampler"}

    def __iter__(self) -> DataLoaderIterator:
        """Begins an epoch, or goes on with the one that was restored.

        Raises:
            AssertionError: ``timeout`` without workers, or ``prefetch_factor=0`` (PyTorch's choice
                of exception).
            RuntimeError: A worker process cannot be started.
            Exception: An argument cannot be pickled; a note names it.
        """
        if self.num_workers == 0 and self.timeout != 0:
            raise AssertionError(
                f"DataLoader: argument 'timeout' got {self.timeout}, but without workers there is "
                "nothing to wait for; leave it out or set num_workers"
            )
        if self.prefetch_factor == 0:
            raise AssertionError("DataLoader: argument 'prefetch_factor' got 0; give 1 or more")
        if self._loaded is not None and self._loaded["num_workers"] != self.num_workers:
            warnings.warn(
                f"DataLoader: the state has num_workers={self._loaded['num_workers']}, but here it "
                f"is {self.num_workers}. The order of the samples goes on, and the random numbers "
                "that the data set and collate_fn draw do not",
                stacklevel=2,
            )
        if self._position is None or self._loaded is None:
            self._position = self._next_epoch()
        self._loaded = None
        position = self._position
        if position.num_workers != self.num_workers:
            position.num_workers, position.rng = self.num_workers, {}
        batched = self.batch_sampler is not None
        work = _work.Work(
            self.dataset, self.collate_fn, batched, self.worker_init_fn, self.num_workers
        )
        return DataLoaderIterator(self, position, work, self._begun_pool(work, position))

    def _next_epoch(self) -> _position.Position:
        base_seed = self._generator.draw_seed()
        order_seed = self._generator.draw_seed() if self._order == "shuffled" else None
        plan = self._plan(order_seed)
        return _position.Position(base_seed, order_seed, plan, **self._workers(None))

    def _workers(self, position: _position.Position | None) -> dict[str, Any]:
        # The workers on which the draws of later batches depend.
        num_workers = (position or self).num_workers
        reseeded = self._pool is not None and not self._pool.closed
        return self._loaded or {"num_workers": num_workers, "reseeded": reseeded}

    def _plan(self, order_seed: int | None) -> Sequence[Any]:
        if self._own_sampler:
            return list(self._unit_sampler)
        order: Any = range(len(self.dataset))
        if isinstance(self.sampler, _samplers.RandomSampler) and order_seed is not None:
            order = self.sampler.order(order_seed)
        return _position.Slices(order, self.batch_size, len(self))

    def _begun_pool(self, work: _work.Work, position: _position.Position) -> Any:
        # The workers, which have begun the epoch; None without workers.
        if self.num_workers == 0:
            return None
        seed, reseeded, settings = position.base_seed, position.reseeded, _work.settings()
        epochs = [
            _work.Epoch(seed, position.shard(number), reseeded, position.rng.get(number), settings)
            for number in range(self.num_workers)
        ]
        if self._pool is not None and not self._pool.closed:
            self._pool.begin(epochs)
            return self._pool
        # Imported here, so that `import impl` does without cloudpickle.
        from impl.utils.data import _pool  # noqa: PLC0415

        pool = _pool.Pool(work, epochs, self.prefetch_factor or 2)
        if self.persistent_workers:
            self._pool = pool
            weakref.finalize(self, pool.close)
        return pool

    def state_dict(self) -> dict[str, Any]:
        """Returns the position of the newest iterator, and all that later epochs depend on.

        A warning names what it cannot have: other generators that the data set or ``collate_fn``
        holds, and the state of a sampler without ``state_dict()``. It does not look for global
        generators of other libraries, such as PyTorch's.

        Returns:
            Plain values: numbers, strings, lists, dicts; about 13 KB for each worker, and for this
            process if its global generators are in it. With a sampler of one's own, also the
            indices that it gave for the rest of the epoch.
        """
        return self._state(self._position)

    def _state(self, position: _position.Position | None) -> dict[str, Any]:
        epoch = None if position is None or position.finished else position
        here = self.num_workers == 0  # The data set is read in this process.
        if left_out := ", ".join(self._left_out([self._generator] if here else [])):
            warnings.warn(
                f"DataLoader.state_dict() leaves out {left_out}: batches may differ after it is "
                "loaded. Draw from the global generators of random, numpy or impl, which it has; "
                "give a sampler state_dict() and load_state_dict()",
                stacklevel=3,
            )
        own = self._own_sampler
        return {
            "format": _position.FORMAT,
            "loader": self._identity(),
            "workers": self._workers(epoch),
            "epoch": None if epoch is None else epoch.state(with_plan=own),
            "generator": self._generator.get_state().tolist(),
            "sampler": _samplers.state_of(self._unit_sampler) if own else None,
            "process": _work.generator_states() if here or own else None,
        }

    def _left_out(self, known: list[_random.Generator]) -> Iterator[str]:
        # Names of states on which later batches may depend, and which the loader's state lacks.
        yield from _work.generators("dataset", self.dataset, known)
        yield from _work.generators("collate_fn", self.collate_fn, known)
        sampler: Any = self._unit_sampler
        while isinstance(sampler, _samplers.BatchSampler):
            sampler = sampler.sampler
        kept = isinstance(sampler, _samplers.SequentialSampler) or hasattr(sampler, "state_dict")
        if not kept and not hasattr(sampler, "__getitem__"):  # A list has no state.
            yield f"the state of the sampler ({type(sampler).__name__})"

    def _identity(self) -> dict[str, Any]:
        # A state can be loaded only by a loader for which these values are the same.
        return {
            "dataset length": len(self.dataset) if hasattr(self.dataset, "__len__") else None,
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "order": self._order,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state: the next ``iter`` gives the rest of its epoch.

        If the state was taken after an iterator had raised StopIteration, the next ``iter`` begins
        the next epoch. The generator is set to its state in ``state_dict``, also if it is the
        default generator, and so are the global generators of this process if the state has them.
        So load it after all that draws before the loop. Persistent workers are started anew.

        Args:
            state_dict: The value that ``state_dict()`` of a loader like this one returned. Its
                ``num_workers`` may differ.

        Raises:
            TypeError: Not a dict.
            ValueError: Not a loader's state, or the state of a loader with another length of the
                data set, batch size, ``drop_last`` or kind of order. Nothing is changed then.
        """
        _position.check(state_dict, self._identity())
        position = generator_state = before = None
        try:
            generator_state = np.array(state_dict["generator"], np.uint32)
            _random.Generator().set_state(generator_state)  # Raises if it is not a state.
            epoch, workers = state_dict["epoch"], state_dict["workers"]
            if epoch is not None:
                left, done = epoch["batches"], [None] * epoch["done"]
                plan = self._plan(epoch["order_seed"]) if left is None else [*done, *left]
                position = _position.resumed(epoch, plan, workers["num_workers"])
            if state_dict["process"] is not None:
                before = _work.generator_states()
                _work.set_generator_states(state_dict["process"])
            _samplers.set_state_of(self._unit_sampler, state_dict["sampler"])
        except (
            LookupError,
            TypeError,
            ValueError,
            RuntimeError,
            OverflowError,
            AttributeError,
        ) as error:
            if before is not None:
                _work.set_generator_states(before)
            raise ValueError(
                "load_state_dict(): argument 'state_dict' is not what DataLoader.state_dict() "
                f"returned ({type(error).__name__}: {error}); nothing was restored"
            ) from error
        self._generator.set_state(generator_state)
        self._position, self._loaded = position, workers
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes ``state_dict()`` to a file, in one step.

        A reader sees the earlier file or the new one, and never a part. The format is JSON, so a
        tuple that a sampler gives as an index is restored as a list.

        Raises:
            OSError: The file cannot be written. The earlier file is unchanged, and no other file
                remains.
            TypeError: A sampler of one's own gives a value that JSON has no form for.
        """
        _position.write(self._state(self._position), path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Goes on from a file that ``save`` wrote, as ``load_state_dict`` does.

        Raises:
            OSError: The file cannot be read.
            ValueError: ``save`` did not write the file, or the file was cut short or damaged; or
                as for ``load_state_dict``. Nothing is changed then.
        """
        self.load_state_dict(_position.read(path))


class DataLoaderIterator(Iterator[Any]):
    """One epoch of a ``DataLoader``.

    Its workers end when it is garbage, for example after a loop that was left, unless they are
    persistent.
    """

    def __init__(
        self, loader: DataLoader, position: _position.Position, work: _work.Work, pool: Any
    ) -> None:
        self._loader = loader
        self._position = position
        self._work = work
        self._pool = pool
        self._closed = False
        if pool is not None and not loader.persistent_workers:
            weakref.finalize(self, pool.close)

    def __len__(self) -> int:
        """Returns the number of batches in the epoch, with those already handed out."""
        return len(self._position.plan)

    def __next__(self) -> Any:
        """Returns the next batch. If a batch raises an exception, the batch after it comes next.

        Raises:
            Exception: The exception that the data set raised; a StopIteration as RuntimeError.
            RuntimeError: A worker ended or was killed, ``timeout`` is over, or the iterator is
                closed.
        """
        position = self._position
        if position.finished:
            raise StopIteration
        if self._closed:
            raise RuntimeError("DataLoader: this iterator is closed")
        loader = self._loader
        shared = self._pool is not None and self._pool is loader._pool  # noqa: SLF001  # as below
        if shared and position is not loader._position:  # noqa: SLF001  # of this module
            raise RuntimeError(
                "DataLoader: this iterator is over: a later one has taken its persistent workers"
            )
        if position.done >= len(position.plan):
            position.finished = True
            self.close()
            raise StopIteration
        return self._from_this_process() if self._pool is None else self._from_worker()

    def _from_this_process(self) -> Any:
        position = self._position
        position.done += 1
        try:
            return self._work.batch(position.plan[position.done - 1])
        except StopIteration as error:
            # It would end the user's loop, without the rest of the epoch.
            raise RuntimeError("DataLoader: the data set raised StopIteration") from error

    def _from_worker(self) -> Any:
        position = self._position
        worker_id = position.done % position.num_workers
        error, batch, states = self._pool.take(worker_id, self._loader.timeout)
        position.done += 1
        if states is not None:
            position.rng[worker_id] = states
        if error is not None:
            raise error
        return batch

    def state_dict(self) -> dict[str, Any]:
        """Returns ``DataLoader.state_dict()``, with the position of this iterator."""
        return self._loader._state(self._position)  # noqa: SLF001  # of this module

    def close(self) -> None:
        """Ends the iterator, and its workers unless they are persistent."""
        self._closed = True
        if self._pool is not None and not self._loader.persistent_workers:
            self._pool.close()


def _check_unsupported(pin_memory: bool, multiprocessing_context: object) -> None:
    """Refuses the arguments that PyTorch supports and a loader here does not."""
    if pin_memory:
        raise ValueError(
            "DataLoader: argument 'pin_memory' must be False: batches are NumPy arrays, which "
            "jax.device_put takes to a device as they are"
        )
    if multiprocessing_context is not None:
        raise ValueError(
            "DataLoader: argument 'multiprocessing_context' must be None: workers start by 'spawn'"
        )


def _check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool
) -> None:
    """Checks the number of workers, and the arguments that concern workers."""
    if isinstance(num_workers, bool) or not isinstance(num_workers, int):
        raise TypeError(f"DataLoader: argument 'num_workers' must be int, but got {num_workers!r}")
    if num_workers < 0:
        raise ValueError(
            f"DataLoader: argument 'num_workers' got {num_workers}; give 0 to read in this "
            "process, or a positive number"
        )
    if timeout < 0:
        raise ValueError(f"DataLoader: argument 'timeout' got {timeout}; it must not be negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            f"DataLoader: argument 'prefetch_factor' got {prefetch_factor}, but without workers "
            "nothing is fetched ahead; leave it out or set num_workers"
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError(
            f"DataLoader: argument 'prefetch_factor' got {prefetch_factor}; it must be positive"
        )
    if persistent_workers and num_workers == 0:
        raise ValueError("DataLoader: argument 'persistent_workers' needs num_workers > 0")


def _check_exclusive(
    batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
) -> None:
    """Checks that one argument decides on the order, and one on the batches."""
    if sampler is not None and shuffle:
        raise ValueError("DataLoader: arguments 'sampler' and 'shuffle' exclude each other")
    if batch_sampler is not None and (
        batch_size != 1 or shuffle or sampler is not None or drop_last
    ):
        raise ValueError(
            "DataLoader: argument 'batch_sampler' excludes 'batch_size', 'shuffle', 'sampler' and "
            "'drop_last', which it takes the place of"
        )
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError(
            "DataLoader: argument 'drop_last' needs batches, but batch_size=None makes none"
        )


def _check_dataset(dataset: Any, *, sampled: bool) -> None:
    """Checks that the data set is of the map style.

    ``sampled`` is whether a sampler gives the indices, so that no length is needed.
    """
    kind = type(dataset).__name__
    iterable = any(base.__name__ == "IterableDataset" for base in type(dataset).__mro__)
    if iterable or not hasattr(dataset, "__getitem__"):
        raise TypeError(
            f"DataLoader: argument 'dataset' must be of the map style, with __getitem__ and "
            f"__len__, but got a {kind}. The position in one that can only be iterated over could "
            "not be restored"
        )
    if not sampled and not hasattr(dataset, "__len__"):
        raise TypeError(
            f"DataLoader: argument 'dataset' got a {kind}, which has no __len__; give it one, or "
            "give a sampler"
        )

"""The data loader.

Source: ``torch.utils.data.DataLoader``.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from impl import random as _random
from impl.utils.data import _arguments, _collate, _files, _position, _samplers

_FIXED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class DataLoader:
    """Batches of a data set, in an order that its generator alone decides.

    Each ``iter`` begins an epoch. It draws a base seed from the generator, once, and with
    ``shuffle=True`` the seed of the order after it. A unit of work is a batch; worker w makes the
    batches w, w + num_workers, …, so the order does not depend on ``num_workers``. In worker w,
    Python's ``random`` and ``impl`` are seeded with base seed + w, and NumPy's global generator
    with four words made of both, as in PyTorch; then ``worker_init_fn(w)`` is called. Without
    workers the data set is read in this process, and nothing is seeded.

    Workers are new processes: Grain's, which start by "spawn". So a script needs ``if __name__ ==
    "__main__":``, and a start takes as long as importing the script and JAX, in every epoch unless
    ``persistent_workers=True``. They use JAX on the CPU only, and take over this process's mode and
    JAX's numeric settings.

    ``state_dict()`` and ``save(path)`` keep the position, also in the middle of an epoch. From
    there on the batches are those of a run that was never interrupted. With the same number of
    workers that includes what the data set draws from ``random``, from NumPy's global generator and
    from ``impl`` in a worker; with another number the order is the same, and such draws are others.

    Source: ``torch.utils.data.DataLoader``. Differences: data sets are of the map style; batches
    are NumPy arrays; orders are others than PyTorch's; a sampler is read to its end when an epoch
    begins, so it must have one; persistent workers are seeded anew in each epoch, where PyTorch's
    go on. An exception in a worker keeps its type and arguments, with the worker's traceback as a
    note. ``in_order`` and ``pin_memory_device`` do not exist.

    Args:
        dataset: Has ``__getitem__`` and ``__len__``; ``__getitems__`` is used if it is there.
        batch_size: How many samples make a batch; None for single samples.
        shuffle: True for another order in each epoch, by ``samplers.permutation``.
        sampler: Gives the indices of an epoch, instead of ``shuffle``. A state keeps what it has
            given and, if it has one, what its ``state_dict()`` returns.
        batch_sampler: As ``sampler``, of lists of indices; it takes the place of ``batch_size``
            and ``drop_last`` too.
        num_workers: How many processes read; 0 for this one.
        collate_fn: Makes a batch of a list of samples; None for ``default_collate``, or without
            batches ``default_convert``.
        pin_memory: False. JAX takes a batch to the device itself.
        drop_last: True to leave out a last batch that is smaller.
        timeout: Seconds to wait for a batch of a worker that has started; 0 for no limit.
        worker_init_fn: Called in each worker, once in a process, with the worker's number.
        multiprocessing_context: None. Workers start by "spawn".
        generator: Where seeds are drawn from; None for the default generator.
        prefetch_factor: How many batches each worker keeps in its queue; it has one more in its
            hands, and this process has another. None for 2.
        persistent_workers: True to keep the processes from one epoch to the next.

    Raises:
        ImportError: Grain is not installed; it comes with the extra ``samebits[data]``.
        TypeError: The data set is not of the map style, or an argument is of another type.
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
        if importlib.util.find_spec("grain") is None:
            raise ImportError(_NO_GRAIN)  # at once, rather than when num_workers is raised
        _arguments.check_foreign(pin_memory, multiprocessing_context)
        _arguments.check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _arguments.check_exclusive(batch_size, shuffle, sampler, batch_sampler, drop_last)
        _arguments.check_dataset(dataset, sampled=sampler is not None or batch_sampler is not None)
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
        self._resumes = False  # whether the next iterator goes on at the position
        self._pool: Any = None  # of persistent workers
        self._current: weakref.ref[DataLoaderIterator] | None = None
        self._made = True

    def __setattr__(self, name: str, value: object) -> None:
        if name in _FIXED and "_made" in self.__dict__:
            raise ValueError(f"DataLoader: attribute {name!r} cannot be set; make another loader")
        super().__setattr__(name, value)

    def __len__(self) -> int:
        """How many batches an epoch has, where the sampler has a length."""
        return len(self._unit_sampler)  # type: ignore[arg-type]  # a TypeError if it has none

    @property
    def _unit_sampler(self) -> Iterable[Any]:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    @property
    def _generator(self) -> _random.Generator:
        return _random.default_generator if self.generator is None else self.generator

    def __iter__(self) -> DataLoaderIterator:
        """Begins an epoch, or goes on with the one that was restored.

        Raises:
            AssertionError: ``timeout`` without workers, or ``prefetch_factor=0`` (PyTorch's choice
                of exception).
        """
        if self.num_workers == 0 and self.timeout != 0:
            raise AssertionError(
                f"DataLoader: argument 'timeout' got {self.timeout}, but without workers there is "
                "nothing to wait for; leave it out or set num_workers"
            )
        if self.prefetch_factor == 0:
            raise AssertionError("DataLoader: argument 'prefetch_factor' got 0; give 1 or more")
        if self._position is None or not self._resumes:
            self._position = self._begun()
        self._resumes = False
        at = self._position
        if at.num_workers != self.num_workers:
            at.num_workers, at.rng = self.num_workers, {}
        iterator = DataLoaderIterator(self, at, *self._engine(at))
        previous = self._current() if self._current is not None else None
        if previous is not None and self.persistent_workers:
            previous.give_up()
        self._current = weakref.ref(iterator)
        return iterator

    def _begun(self) -> _position.Position:
        base_seed = self._generator.draw_seed()
        order_seed = self._generator.draw_seed() if self._order == "shuffled" else None
        plan = self._plan(order_seed)
        at = _position.Position(base_seed, order_seed, plan, num_workers=self.num_workers)
        at.reseeded = self._pool is not None and not self._pool.closed
        return at

    def _plan(self, order_seed: int | None) -> Sequence[Any]:
        if self._order in {"sampler", "batch_sampler"}:
            return list(self._unit_sampler)
        order: Any = range(len(self.dataset))
        if isinstance(self.sampler, _samplers.RandomSampler) and order_seed is not None:
            order = self.sampler.order(order_seed)
        return _position.Slices(order, self.batch_size, len(self))

    def _engine(self, at: _position.Position) -> tuple[Any, Any]:
        # What the data set is read with: the work, and the processes that do it.
        workers = _part("workers")
        work = workers.Work(
            self.dataset,
            self.collate_fn,
            self.batch_sampler is not None,
            self.worker_init_fn,
            self.num_workers,
        )
        if self.num_workers == 0:
            return work, None
        settings = workers.settings()
        epochs = [
            workers.Epoch(at.base_seed, at.shard(each), at.reseeded, at.rng.get(each), settings)
            for each in range(self.num_workers)
        ]
        if self._pool is not None and not self._pool.closed:
            self._pool.begin(epochs)
            return work, self._pool
        pool = _part("engine").Pool(work, epochs, self.prefetch_factor)
        if self.persistent_workers:
            self._pool = pool
            weakref.finalize(self, pool.close)
        return work, pool

    def state_dict(self) -> dict[str, Any]:
        """The position of the newest iterator, and what the epochs after this one depend on.

        Returns:
            Plain values: numbers, strings, lists, dicts; about 13 KB for each worker whose data
            set draws. With a sampler of one's own, also what it has given for the rest of the
            epoch.
        """
        return self._state(self._position)

    def _state(self, at: _position.Position | None) -> dict[str, Any]:
        own = self._order in {"sampler", "batch_sampler"}
        return _position.document(
            self._about(),
            None if at is None else at.state(with_plan=own),
            self._generator.get_state().tolist(),
            _samplers.state_of(self._unit_sampler) if own else None,
        )

    def _about(self) -> dict[str, Any]:
        return {
            "dataset length": len(self.dataset) if hasattr(self.dataset, "__len__") else None,
            "batch_size": self.batch_size,
            "drop_last": self.drop_last,
            "order": self._order,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from a state: the next ``iter`` gives the rest of its epoch.

        A state that was taken once an iterator had said that its epoch is over begins the next
        epoch. The generator is set to its state in ``state_dict``, the default one too, if that is
        what the loader uses; persistent workers are started anew.

        Args:
            state_dict: What ``state_dict()`` of a loader like this one returned; ``num_workers``
                may be another.

        Raises:
            TypeError: Not a dict.
            ValueError: Not a loader's state, or that of a loader with another length of the data
                set, batch size, ``drop_last`` or way to order. Nothing is changed then.
        """
        _position.check(state_dict, self._about())
        at = generator = None
        try:
            generator = np.array(state_dict["generator"], np.uint32)
            _random.Generator().set_state(generator)  # raises where it is none
            epoch = state_dict["epoch"]
            if epoch is not None:
                given = epoch["batches"] is not None
                plan = None if given else self._plan(epoch["order_seed"])
                at = _position.resumed(epoch, plan)
        except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise ValueError(
                "load_state_dict(): argument 'state_dict' is not what DataLoader.state_dict() "
                f"returned ({type(error).__name__}: {error}); nothing was restored"
            ) from error
        _samplers.set_state_of(self._unit_sampler, state_dict["sampler"])
        self._generator.set_state(generator)
        self._position, self._resumes = at, at is not None
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes ``state_dict()`` to a file, in one step.

        A reader sees the earlier file or the new one, and never a part. JSON is what is written, so
        a tuple that a sampler gives as an index comes back as a list.

        Raises:
            OSError: It could not be written. The earlier file is as it was, and nothing is left.
            TypeError: A sampler of one's own gives what JSON has no form for.
        """
        _files.write(self.state_dict(), path)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Goes on from a file that ``save`` wrote, as ``load_state_dict`` does.

        Raises:
            OSError: The file cannot be read.
            ValueError: The file is something else, or cut short, or damaged; or as for
                ``load_state_dict``. Nothing is changed then.
        """
        self.load_state_dict(_files.read(path))


class DataLoaderIterator(Iterator[Any]):
    """One epoch of a ``DataLoader``.

    Dropping it (leaving the loop, say) ends its workers, unless they are persistent.
    """

    def __init__(self, loader: DataLoader, at: _position.Position, work: Any, pool: Any) -> None:
        self._loader = loader
        self._at = at
        self._work = work
        self._pool = pool
        self._over = ""  # why there is nothing more to be had
        if pool is not None and not loader.persistent_workers:
            weakref.finalize(self, pool.close)

    def __len__(self) -> int:
        """How many batches the epoch has, those already handed out included."""
        return self._at.total

    def __next__(self) -> Any:
        """The next batch. An exception in a batch is raised, and the batch after it comes next.

        Raises:
            Exception: What was raised where the batch was made; a StopIteration as RuntimeError.
            RuntimeError: A worker ended or was killed, ``timeout`` is over, or the iterator is
                closed.
        """
        at = self._at
        if at.finished:
            raise StopIteration
        if self._over:
            raise RuntimeError(f"DataLoader: this iterator {self._over}")
        if at.done >= at.total:
            at.finished = True
            self.close()
            raise StopIteration
        return self._here() if self._pool is None else self._from_worker()

    def _here(self) -> Any:
        at = self._at
        at.done += 1
        try:
            return self._work.fetch(at.batch(at.done - 1))
        except StopIteration as error:
            # The loop would end here, with the rest of the epoch left out.
            raise RuntimeError("DataLoader: the data set raised StopIteration") from error

    def _from_worker(self) -> Any:
        at = self._at
        worker_id = at.done % at.num_workers
        error, batch, states = self._pool.take(worker_id, self._loader.timeout)
        at.done += 1
        if states is not None:
            at.rng[worker_id] = states
        if error is not None:
            raise error
        return batch

    def state_dict(self) -> dict[str, Any]:
        """``DataLoader.state_dict``, with the position of this iterator."""
        return self._loader._state(self._at)  # noqa: SLF001  # of this module

    def give_up(self) -> None:
        """Says that a later iterator of the loader has its workers."""
        self._over = "is over: a later one has taken its persistent workers"

    def close(self) -> None:
        """Ends the workers, unless they are persistent. There are no batches after it."""
        self._over = self._over or "is closed"
        if self._pool is not None and not self._loader.persistent_workers:
            self._pool.close()


_NO_GRAIN = (
    "impl.utils.data.DataLoader needs Grain, an optional dependency: install the extra 'data' "
    "(pip install 'samebits[data]')"
)


def _part(name: str) -> ModuleType:
    # Imported here, not above: `import impl` does without Grain, and without the time it takes.
    try:
        return importlib.import_module(f"impl.utils.data.{name}")
    except ImportError as error:
        raise ImportError(f"{_NO_GRAIN}; the one that is here does not fit ({error})") from error

"""What a worker process does: it seeds itself, reads its batches, and packs them for the way back.

Everything crosses the process border as bytes that are packed and checked here. Grain hands other
objects to a queue whose thread drops what it cannot pickle, and the reader waits for ever.
"""

from __future__ import annotations

import contextlib
import dataclasses
import multiprocessing
import os
import pickle
import random
import signal
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import jax
import numpy as np
import numpy.typing as npt

from impl import random as _random
from impl._mode import modes
from impl.utils.data import _worker_info

#: The states of ``random``, of NumPy's global generator and of the default generator.
Rng = tuple[tuple[Any, ...], tuple[Any, ...], npt.NDArray[np.uint32]]

#: Buffers of fewer bytes are copied into the message: shared memory costs some system calls each.
_SHARED_FROM = 1 << 16

#: What a dataset may compute with JAX in a worker must not depend on where it runs.
_JAX_SETTINGS = (
    "jax_enable_x64",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_numpy_dtype_promotion",
    "jax_threefry_partitionable",
)


@dataclasses.dataclass(frozen=True)
class Work:
    """What all workers of a loader do.

    Attributes:
        dataset: The data set.
        collate_fn: Makes a batch of a list of samples; of one sample where nothing is batched.
        batched: Whether a unit of work is a list of indices; otherwise it is one index.
        worker_init_fn: What the user wants to have called in a worker.
        num_workers: How many workers there are.
    """

    dataset: Any
    collate_fn: Callable[[Any], Any]
    batched: bool
    worker_init_fn: Callable[[int], None] | None
    num_workers: int

    def fetch(self, indices: Any) -> Any:
        """One unit of work."""
        if isinstance(indices, np.ndarray):
            indices = indices.tolist()  # a data set gets Python's integers
        if not self.batched:
            return self.collate_fn(self.dataset[indices])
        whole = getattr(self.dataset, "__getitems__", None)
        if whole is not None:
            return self.collate_fn(whole(indices))
        return self.collate_fn([self.dataset[index] for index in indices])


@dataclasses.dataclass(frozen=True)
class Epoch:
    """What one worker does in one epoch.

    Attributes:
        base_seed: The seed that was drawn for the epoch.
        batches: The indices of its batches, in their order.
        reseeded: Whether ``worker_init_fn`` ran in an earlier epoch, so that what it seeded is
            seeded over; a process that starts in such an epoch has to do the same.
        rng: The states to go on from, in the middle of an epoch.
        settings: JAX's settings and the mode, as they are in the main process.
    """

    base_seed: int
    batches: Sequence[Any]
    reseeded: bool
    rng: Rng | None
    settings: tuple[dict[str, Any], modes.Mode, bool]


def settings() -> tuple[dict[str, Any], modes.Mode, bool]:
    """The settings of this process that its workers take over."""
    jax_settings = {name: getattr(jax.config, name) for name in _JAX_SETTINGS}
    return jax_settings, modes.current(), modes.fill_uninitialized_memory()


def numpy_seed(base_seed: int, worker_id: int) -> list[int]:
    """The four words that NumPy's global generator is seeded with, as in PyTorch."""
    entropy = [worker_id, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return [int(word) for word in np.random.SeedSequence(entropy).generate_state(4)]


def seed_all(base_seed: int, worker_id: int) -> None:
    """Seeds ``random``, NumPy's global generator and this package in a worker."""
    random.seed(base_seed + worker_id)
    np.random.seed(numpy_seed(base_seed, worker_id))  # noqa: NPY002  # the one to be seeded
    _random.manual_seed(base_seed + worker_id)


def rng() -> Rng:
    """The states of the generators that ``seed_all`` seeds."""
    # The state of NumPy's is a tuple unless one asks for a dict.
    numpy: Any = np.random.get_state()  # noqa: NPY002  # the one that is seeded
    return random.getstate(), numpy, _random.get_rng_state()


def set_rng(states: Rng) -> None:
    """Goes on from states that ``rng`` returned."""
    random.setstate(states[0])
    np.random.set_state(states[1])  # noqa: NPY002  # what it returned
    _random.set_rng_state(states[2])


class Worker:
    """The worker of this process.

    Args:
        worker_id: Its number, from 0.
        work: A ``Work``, pickled.
        epoch: The first ``Epoch``, pickled.
    """

    def __init__(self, worker_id: int, work: bytes, epoch: bytes) -> None:
        self._id = worker_id
        self._failure: Packed | None = None
        self._sent: bytes | None = None
        try:
            self._work: Work = pickle.loads(work)  # noqa: S301  # from the main process
            self._start(pickle.loads(epoch))  # noqa: S301  # from the main process
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the main process raises it
            self._failure = pack_error(error, None, fatal=True)

    def _start(self, epoch: Epoch) -> None:
        self._enter(epoch)
        if self._work.worker_init_fn is not None:
            self._work.worker_init_fn(self._id)
        if epoch.reseeded:
            seed_all(epoch.base_seed, self._id)
        if epoch.rng is not None:
            set_rng(epoch.rng)

    def begin(self, epoch: bytes) -> None:
        """Begins a further epoch; ``worker_init_fn`` is called once in a process."""
        if self._failure is None:
            self._enter(pickle.loads(epoch))  # noqa: S301  # from the main process

    def _enter(self, epoch: Epoch) -> None:
        jax_settings, mode, fill = epoch.settings
        for name, value in jax_settings.items():
            jax.config.update(name, value)
        modes.use_deterministic_algorithms(
            mode.enabled, warn_only=mode.warn_only, profile=mode.profile
        )
        modes.set_fill_uninitialized_memory(fill)
        seed_all(epoch.base_seed, self._id)
        _worker_info.set_worker_info(
            _worker_info.WorkerInfo(
                self._id, self._work.num_workers, epoch.base_seed + self._id, self._work.dataset
            )
        )
        self._batches = iter(epoch.batches)
        self._sent = None

    def next(self) -> Packed:
        """The next batch, or the error that came instead, packed."""
        if self._failure is not None:
            return self._failure
        try:
            indices = next(self._batches)
        except StopIteration:
            return END
        try:
            batch = self._work.fetch(indices)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # the main process raises it
            return pack_error(error, self._changed())
        try:
            return pack(("batch", batch, self._changed()))
        except Exception as error:  # noqa: BLE001  # as above
            error.add_note("The batch cannot be sent to the main process; see collate_fn.")
            return pack_error(error, None)

    def _changed(self) -> Rng | None:
        # Most data sets draw nothing; 5 KiB of states go along only where they are others.
        states = rng()
        now = pickle.dumps(states)
        if now == self._sent:
            return None
        self._sent = now
        return states


def settle() -> None:
    """Makes a process a worker: to be called before anything that may wait for the main process."""
    # Ctrl-C reaches the whole group of processes; the main process answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Grain's worker waits for ever for a main process that was killed.
    threading.Thread(target=_end_with_parent, daemon=True).start()
    # Batches are made on the host; a worker on the accelerator would take its memory away.
    jax.config.update("jax_platforms", "cpu")


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


#: A message, and the large buffers beside it.
Packed = tuple[bytes, list[npt.NDArray[np.uint8]]]


def pack(message: Any) -> Packed:
    """A message as bytes, its large arrays as buffers of their own, for shared memory."""
    for dumps in (pickle.dumps, cloudpickle.dumps):
        buffers: list[npt.NDArray[np.uint8]] = []

        def keep(buffer: pickle.PickleBuffer, into: Any = buffers) -> bool:
            raw = buffer.raw()
            if raw.nbytes < _SHARED_FROM:
                return True
            into.append(np.frombuffer(raw, np.uint8))
            return False

        try:
            return dumps(message, protocol=5, buffer_callback=keep), buffers
        except Exception:
            # Cloudpickle knows what is defined in a script, and is slower.
            if dumps is cloudpickle.dumps:
                raise
    raise AssertionError


def unpack(packed: Packed) -> Any:
    """The message."""
    return pickle.loads(packed[0], buffers=packed[1])  # noqa: S301  # from a worker of our own


#: After the last batch of an epoch, as often as is asked.
END = pack(("end", None, None))


#: An exception: pickled, its name, its message, its traceback, and whether it is the last.
Failure = tuple[bytes | None, str, str, str, bool]


def pack_error(error: BaseException, states: Rng | None, *, fatal: bool = False) -> Packed:
    """An exception, packed, with its traceback as text."""
    text = "".join(traceback.format_exception(error)).rstrip()
    name = type(error).__qualname__
    failure: Failure = (_pickled(error), name, str(error), text, fatal)
    return pack(("error", failure, states))


def _pickled(error: BaseException) -> bytes | None:
    # Python rebuilds an exception by calling its class with `args`, which may not fit.
    for form in (error, _Parts(type(error), error.args, vars(error))):
        with contextlib.suppress(Exception):  # whatever its class does
            pickled: bytes = cloudpickle.dumps(form)
            pickle.loads(pickled)  # noqa: S301  # one that cannot be read is of no use
            return pickled
    return None


@dataclasses.dataclass(frozen=True)
class _Parts:
    kind: type[BaseException]
    args: tuple[Any, ...]
    attributes: dict[str, Any]

    def whole(self) -> BaseException:
        error = self.kind.__new__(self.kind, *self.args)
        vars(error).update(self.attributes)
        return error


def unpack_error(failure: Failure, where: str) -> Exception:
    """The exception that a worker packed, with the worker's traceback as a note.

    Exceptions that end a loop or a process, or that cannot be pickled, become a ``RuntimeError``.
    """
    pickled, name, message, text, _ = failure
    error: object = None
    if pickled is not None:
        try:
            error = pickle.loads(pickled)  # noqa: S301  # from a worker of our own
            if isinstance(error, _Parts):
                error = error.whole()
        except Exception:  # noqa: BLE001  # whatever its class does
            error = None
    if not isinstance(error, Exception) or isinstance(error, StopIteration):
        error = RuntimeError(f"{where} raised {name}: {message}")
    error.add_note(f"Raised in {where}; the traceback there:\n{text}")
    return error

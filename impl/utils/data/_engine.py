"""Worker processes: Grain starts them, keeps their queues, and shares their memory.

Each worker is a Grain iterator of its own with one process behind it, read by a thread of its own.
This works around what Grain 0.2.18 does not do:

- it waits for ever where a worker exits with status 0, or dies in the middle of a message (the
  process is looked at here);
- its waiting has no time limit;
- its workers live on when the main process is killed (``workers`` ends them);
- ``mp_prefetch`` asks for absl's flags, which a program that is not of absl never parses (so what
  stands behind it is used, without the profiler that the flags are about);
- it gives a worker 25 seconds to stop (5 here, as in PyTorch);
- its queues drop what cannot be pickled (``workers`` packs everything itself), and its map over a
  batch sorts the keys of dicts (it sees bytes and flat buffers only).
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
import time
from typing import Any

import cloudpickle
import grain
import numpy as np
from grain._src.python.dataset.transformations import process_prefetch

from impl.utils.data import _workers

_GUARD = (
    "a script that is run as a program must use a loader with workers under "
    "'if __name__ == \"__main__\":'"
)
_STOPPED_AFTER_S = 5.0
# Grain's own look at a dead process comes every second, and after what is left in the queue.
_LOST_AFTER_S = 3.0
_LOOK_EVERY_S = 0.5


class _LostError(RuntimeError):
    """A worker process that is not there any more."""


class _Served(grain.DatasetIterator):  # type: ignore[misc]  # grain has no types
    """Runs in the worker: says that the process is there, then gives batches."""

    def __init__(self, arguments: tuple[int, bytes, bytes]) -> None:
        super().__init__()
        self._arguments = arguments
        self._worker: _workers.Worker | None = None
        self._greeted = False

    def __next__(self) -> _workers.Packed:
        if not self._greeted:
            self._greeted = True
            # Before the first message: a main process that is killed now leaves a queue that
            # nobody reads.
            _workers.settle()
            return _workers.pack(("hello", None, None))
        return self._started().next()

    def _started(self) -> _workers.Worker:
        if self._worker is None:
            self._worker = _workers.Worker(*self._arguments)
        return self._worker

    def get_state(self) -> dict[str, Any]:
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        self._started().begin(state["epoch"])


class _Batches(grain.IterDataset):  # type: ignore[misc]  # grain has no types
    """What Grain sends to the worker."""

    def __init__(self, arguments: tuple[int, bytes, bytes]) -> None:
        super().__init__()
        self._arguments = arguments

    def __iter__(self) -> _Served:
        return _Served(self._arguments)


class _Fetched(process_prefetch.ProcessPrefetchDatasetIterator):  # type: ignore[misc]  # as above
    """Runs in the main process: what Grain receives."""

    def _process_failed(self) -> bool:
        # Grain takes status 0 for a worker that is still there.
        process = self._prefetch_process
        return process is not None and process.exitcode is not None


def _copied(packed: _workers.Packed) -> _workers.Packed:
    # Each array of Grain's holds two file descriptors for as long as it lives, and complains if
    # that is until the end of the process. Its name goes now, as the thread in which Grain removes
    # it may not come to that before this process ends.
    buffers = []
    for buffer in packed[1]:
        shared: Any = buffer
        buffers.append(np.array(shared, subok=False))
        if getattr(shared, "shm", None) is not None:
            shared.shm.unlink()
            shared._unlink_on_del = False  # noqa: SLF001  # there is no other way back
    return packed[0], buffers


class _Reader:
    """One worker process, and the thread that reads from it."""

    def __init__(self, worker_id: int, work: bytes, epoch: bytes, buffer_size: int) -> None:
        self._id = worker_id
        self._commands: queue.SimpleQueue[bytes | int | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self._epoch = 0
        self._asked = False
        self._ready_at: float | None = None
        self._process: Any = None
        self._batches = _Batches((worker_id, work, epoch))
        self._buffer_size = buffer_size
        # A daemon, as one that waits for a message cut short is never to end.
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self.ask()

    def _read(self) -> None:
        iterator: Any = None
        try:
            iterator = _Fetched(self._batches, self._buffer_size)
            try:
                iterator.start_prefetch()
            except BaseException:
                iterator._prefetch_process = None  # noqa: SLF001  # it would wait for it to end
                raise
            self._process = iterator._prefetch_process  # noqa: SLF001  # what else is there
            # A dead worker's commands must not be waited for when this process ends.
            iterator._set_state_queue.cancel_join_thread()  # noqa: SLF001  # as above
            next(iterator)  # the greeting
            self._ready_at = time.monotonic()
            while (command := self._commands.get()) is not None:
                if isinstance(command, bytes):
                    iterator.set_state({"epoch": command})
                else:
                    self._results.put((command, _copied(next(iterator))))
        except BaseException as error:  # noqa: BLE001  # the main thread raises it
            self._results.put((-1, error))
        finally:
            if iterator is not None:
                iterator.close()

    def begin(self, epoch: bytes) -> None:
        """Begins a further epoch; what is under way of the last one is dropped."""
        self._epoch += 1
        self._asked = False
        self._commands.put(epoch)

    def ask(self) -> None:
        """Has the next message fetched, unless that is under way."""
        if not self._asked:
            self._asked = True
            self._commands.put(self._epoch)

    def take(self, timeout: float) -> _workers.Packed:
        """The next message of this epoch.

        Args:
            timeout: Seconds to wait for it, not counting the start of the process; 0 for no limit.

        Raises:
            RuntimeError: The time is over, or the process is not there any more.
        """
        self.ask()
        begun = time.monotonic()
        lost_since: float | None = None
        while True:
            now = time.monotonic()
            limited = timeout > 0 and self._ready_at is not None
            left = max(begun, self._ready_at or 0) + timeout - now if limited else _LOOK_EVERY_S
            try:
                epoch, value = self._results.get(timeout=max(0.0, min(left, _LOOK_EVERY_S)))
            except queue.Empty:
                lost_since = lost_since or (now if self.ended() else None)
                if lost_since is not None and now - lost_since > _LOST_AFTER_S:
                    raise self._lost() from None
                if limited and left <= 0 and lost_since is None:
                    raise RuntimeError(
                        f"DataLoader timed out after {timeout} seconds, waiting for a batch of "
                        f"worker {self._id} (pid {self._process.pid}); if that is what a batch "
                        "takes, give a greater timeout"
                    ) from None
                continue
            if isinstance(value, BaseException):
                raise self._lost() from value
            if epoch == self._epoch:
                self._asked = False
                packed: _workers.Packed = value
                return packed

    def ended(self) -> bool:
        """Whether there is no process any more."""
        return self._process is not None and self._process.exitcode is not None

    def _lost(self) -> _LostError:
        if not self.ended():
            return _LostError(f"DataLoader worker {self._id} could not be started or read from")
        code = self._process.exitcode
        if code < 0:
            names = {each.value: each.name for each in signal.Signals}
            how = f"was killed by {names.get(-code, f'signal {-code}')}"
            look = (
                "If you did not do that, look at the system's log: on Linux, 'dmesg' says where "
                "memory ran out (SIGKILL), and /dev/shm is too small where it is SIGBUS"
            )
        else:
            how = f"exited with status {code}"
            look = "Its own output, above, says why; with num_workers=0 an error has its place"
        if self._ready_at is None:
            look += f". It ended before it began: each worker imports the script, and {_GUARD}"
        return _LostError(
            f"DataLoader worker {self._id} (pid {self._process.pid}) exited unexpectedly: it "
            f"{how}. {look}."
        )

    def stop(self) -> None:
        """Has the process end, without waiting for it."""
        self._commands.put(None)

    def join(self, deadline: float) -> None:
        """Waits for the process to end, and kills it when the deadline is over."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        # Where the process has ended, the thread waits in vain for the rest of a message.
        if self._thread.is_alive() and self._process is not None and not self.ended():
            self._process.kill()
            self._thread.join(_LOST_AFTER_S)


class Pool:
    """The workers of one loader.

    Args:
        work: What they all do.
        epochs: The first epoch of each worker.
        prefetch_factor: How many batches each worker keeps in its queue.
    """

    def __init__(
        self, work: _workers.Work, epochs: list[_workers.Epoch], prefetch_factor: int
    ) -> None:
        if getattr(multiprocessing.current_process(), "_inheriting", False):
            raise RuntimeError(f"DataLoader: a worker imports this script, and {_GUARD}")
        self._process = os.getpid()
        self.closed = False
        pickled = _pickled(work)
        self._readers = [
            _Reader(each, pickled, pickle.dumps(epoch), prefetch_factor)
            for each, epoch in enumerate(epochs)
        ]

    def begin(self, epochs: list[_workers.Epoch]) -> None:
        """Begins a further epoch."""
        for reader, epoch in zip(self._readers, epochs, strict=True):
            reader.begin(pickle.dumps(epoch))
            reader.ask()

    def take(
        self, worker_id: int, timeout: float
    ) -> tuple[Exception | None, Any, _workers.Rng | None]:
        """The next batch of a worker.

        Returns:
            The exception that it raised instead, if it did; the batch; and the states of its
            generators where they changed.

        Raises:
            RuntimeError: The worker is gone, or the time is over.
            Exception: What its ``worker_init_fn`` raised, or what stopped it otherwise.
        """
        if self.closed:
            raise RuntimeError("DataLoader: the workers of this iterator have been stopped")
        reader = self._readers[worker_id]
        try:
            packed = reader.take(timeout)
        except _LostError as lost:
            self.close()
            raise RuntimeError(str(lost)) from lost.__cause__
        reader.ask()  # so that the next one comes while this one is in use
        try:
            kind, payload, states = _workers.unpack(packed)
        except Exception as error:  # noqa: BLE001  # whatever the classes in the batch do
            error.add_note(
                f"The batch of DataLoader worker process {worker_id} cannot be unpickled"
            )
            return error, None, None
        if kind != "error":
            return None, payload, states
        raised = _workers.unpack_error(payload, f"DataLoader worker process {worker_id}")
        if payload[-1]:
            self.close()
            raise raised
        return raised, None, states

    def close(self) -> None:
        """Ends the processes; returns when they have ended."""
        if self.closed or self._process != os.getpid():  # a forked child has no say
            return
        self.closed = True
        for reader in self._readers:
            reader.stop()
        begun = time.monotonic()
        for reader in self._readers:
            reader.join(begun + (_LOOK_EVERY_S if reader.ended() else _STOPPED_AFTER_S))


def _pickled(work: _workers.Work) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(work)
    except Exception as error:
        error.add_note(
            f"DataLoader: {_unpicklable(work)} cannot be pickled, and so cannot be sent to a "
            "worker process; use num_workers=0, or open what it holds in worker_init_fn"
        )
        raise
    return pickled


def _unpicklable(work: _workers.Work) -> str:
    for name in ("dataset", "collate_fn", "worker_init_fn"):
        try:
            cloudpickle.dumps(getattr(work, name))
        except Exception:  # noqa: BLE001  # whatever its class does
            return f"argument {name!r}"
    return "an argument"

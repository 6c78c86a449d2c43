"""The worker processes of a loader, seen from the main process, and their own program.

Each process has a socket and two threads: one sends requests, the other receives batches. So the
main process waits only for batches, and never for a worker to read a request. Workers end with the
main process, even if it is killed, and leave no files (``_messages``). A worker seeds its
generators, makes its batches, and sends them.

A message has the number of its epoch, so that batches of an epoch that was left are dropped. With
the workers 0 and 1 and ``prefetch_factor=2``, worker 1 makes the batches 1, 3, 5, ...::

    main process                                         worker 1
    (0, work) (1, epoch) (1, request) (1, request)       starts, and says so
                                                         (1, batch 1) (1, batch 3)
    take returns batch 1, and sends (1, request)         (1, batch 5)
    begin sends (2, epoch) (2, request) (2, request)     (2, batch 1) (2, batch 3)
    take drops batches of epoch 1 that still arrive, and returns batch 1 of epoch 2
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.spawn
import os
import pickle
import queue
import signal
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

import cloudpickle
import jax

from impl.utils.data import _messages, _work
from impl.utils.data._messages import Channel, Message
from impl.utils.data._work import Epoch, GeneratorStates, Work

_GUARD = (
    "a script that is run as a program must use a loader with workers under "
    "'if __name__ == \"__main__\":'"
)
_CONTEXT = multiprocessing.get_context("spawn")
#: Seconds in which a worker has to end before it is killed, as in PyTorch.
_STOP_S = 5.0
#: Seconds in which the last messages of a process that has ended may still arrive.
_LAST_MESSAGE_S = 3.0
#: Seconds between two looks at a process that sends nothing.
_LOOK_S = 0.5


class _LostError(RuntimeError):
    """A worker process has ended, or its connection is broken."""


class WorkerProcess:
    """One worker process, with a ``Work``, pickled.

    Raises:
        RuntimeError: The process cannot be started.
    """

    def __init__(self, worker_id: int, work: bytes, prefetch_factor: int) -> None:
        self._id = worker_id
        self._prefetch_factor = prefetch_factor
        self._epoch_number = FIRST_EPOCH - 1
        self._ready_at: float | None = None
        self._outbox: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._received: queue.SimpleQueue[Message | BaseException] = queue.SimpleQueue()
        main_end, worker_end = socket.socketpair()
        self._channel = Channel(main_end)
        self._process: Any = _CONTEXT.Process(
            target=main,
            args=(worker_id, worker_end),
            name=f"DataLoader worker {worker_id}",
            daemon=True,
        )
        with worker_end:
            try:
                self._process.start()
            except Exception as error:
                self._channel.close()
                raise RuntimeError(_not_started(worker_id)) from error
        # Daemons, since a thread may wait for a connection that a child of a dead worker holds.
        self._threads = [
            threading.Thread(target=task, daemon=True) for task in (self._send, self._receive)
        ]
        for thread in self._threads:
            thread.start()
        self._outbox.put(Message(0, work))

    def _send(self) -> None:
        with contextlib.suppress(OSError):  # The receiving thread reports that the worker is lost.
            while (message := self._outbox.get()) is not None:
                self._channel.send(message)

    def _receive(self) -> None:
        try:
            self._channel.receive()  # The process has started.
            self._ready_at = time.monotonic()
            while True:
                self._received.put(self._channel.receive())
        except BaseException as error:  # noqa: BLE001  # The thread that waits for it raises it.
            self._received.put(error)

    def begin(self, epoch: Epoch) -> None:
        """Begins an epoch; the batches of the one before are dropped."""
        self._epoch_number += 1
        self._outbox.put(Message(self._epoch_number, pickle.dumps(epoch)))
        for _ in range(self._prefetch_factor):
            self.request()

    def request(self) -> None:
        """Has the worker make one more batch of this epoch."""
        self._outbox.put(Message(self._epoch_number, REQUEST))

    def take(self, timeout: float) -> Message:
        """Waits for the next message of this epoch.

        ``timeout`` is in seconds, without the start of the process; with 0 there is no limit.

        Raises:
            RuntimeError: The time is over.
            _LostError: The process has ended, or its connection is broken.
        """
        begun_at = time.monotonic()
        ended_at: float | None = None
        while True:
            now = time.monotonic()
            limited = timeout > 0 and self._ready_at is not None
            rest = max(begun_at, self._ready_at or 0) + timeout - now if limited else _LOOK_S
            try:
                message = self._received.get(timeout=max(0.0, min(rest, _LOOK_S)))
            except queue.Empty:
                ended_at = ended_at or (now if self.ended() else None)
                if ended_at is not None and now - ended_at > _LAST_MESSAGE_S:
                    raise self._lost() from None
                if limited and rest <= 0 and ended_at is None:
                    raise RuntimeError(
                        f"DataLoader timed out after {timeout} seconds, waiting for a batch of "
                        f"worker {self._id} (pid {self._process.pid}); if that is what a batch "
                        "takes, give a greater timeout"
                    ) from None
                continue
            if isinstance(message, BaseException):
                # The connection ends a moment before the process does.
                self._process.join(_LAST_MESSAGE_S)
                raise self._lost() from message
            if message.number == self._epoch_number:
                return message

    def ended(self) -> bool:
        """Returns whether the process has ended."""
        return self._process.exitcode is not None

    def _lost(self) -> _LostError:
        if not self.ended():
            return _LostError(_not_started(self._id))
        code = self._process.exitcode
        if code < 0:
            names = {number.value: number.name for number in signal.Signals}
            end = f"was killed by {names.get(-code, f'signal {-code}')}"
            advice = (
                "If you did not do that, look at the system's log: on Linux, 'dmesg' says where "
                "memory ran out (SIGKILL), and /dev/shm is too small where it is SIGBUS"
            )
        else:
            end = f"exited with status {code}"
            advice = "Its own output, above, says why; with num_workers=0 an error shows its line"
        if self._ready_at is None:
            advice += f". It ended before it began: each worker imports the script, and {_GUARD}"
        return _LostError(
            f"DataLoader worker {self._id} (pid {self._process.pid}) exited unexpectedly: it "
            f"{end}. {advice}."
        )

    def stop(self) -> None:
        """Tells the process to end, without waiting for it."""
        self._outbox.put(None)
        self._channel.shut_down()

    def join(self, seconds: float) -> None:
        """Waits for the process to end, and kills it when the time is over."""
        self._process.join(max(0.0, seconds))
        if not self.ended():
            self._process.kill()
            self._process.join(_LAST_MESSAGE_S)
        for thread in self._threads:
            if thread is not threading.current_thread():  # Garbage is collected in any thread.
                thread.join(_LAST_MESSAGE_S)
        if not any(thread.is_alive() for thread in self._threads):
            self._channel.close()


def _not_started(worker_id: int) -> str:
    return f"DataLoader worker {worker_id} could not be started or read from"


class Pool:
    """The workers of one loader, which begin with the first epoch of each; or ``closed``.

    Raises:
        RuntimeError: A process cannot be started.
        Exception: The work cannot be pickled; a note names the argument.
    """

    def __init__(self, work: Work, epochs: Sequence[Epoch], prefetch_factor: int) -> None:
        try:
            # Raises in a child that is still importing its script, as starting a process would.
            multiprocessing.spawn.get_preparation_data("")
        except RuntimeError:
            raise RuntimeError(f"DataLoader: a worker imports this script, and {_GUARD}") from None
        self._owner = os.getpid()
        self.closed = False
        self._workers: list[WorkerProcess] = []
        pickled = _pickled(work)
        try:
            for worker_id in range(len(epochs)):
                self._workers.append(WorkerProcess(worker_id, pickled, prefetch_factor))
        except BaseException:
            self.close()
            raise
        self.begin(epochs)

    def begin(self, epochs: Sequence[Epoch]) -> None:
        """Begins an epoch, of which each worker has its part."""
        for worker, epoch in zip(self._workers, epochs, strict=True):
            worker.begin(epoch)

    def take(
        self, worker_id: int, timeout: float
    ) -> tuple[Exception | None, Any, GeneratorStates | None]:
        """Waits for the next batch of a worker.

        Returns:
            The exception that the worker raised instead of returning a batch, or None; the batch;
            the states of the worker's generators, or None if they are as they were.

        Raises:
            RuntimeError: The worker has ended, or the time is over.
            Exception: The worker cannot go on, because its ``worker_init_fn`` raised this.
        """
        if self.closed:
            raise RuntimeError("DataLoader: the workers of this iterator have been stopped")
        worker = self._workers[worker_id]
        try:
            packed = worker.take(timeout)
        except _LostError as lost:
            self.close()
            raise RuntimeError(str(lost)) from lost.__cause__
        worker.request()
        name = f"DataLoader worker process {worker_id}"
        try:
            # The large arrays use the memory of the buffers.
            value, states = pickle.loads(packed.body, buffers=packed.buffers)  # noqa: S301
        except Exception as error:  # noqa: BLE001  # Classes may raise anything.
            error.add_note(f"The batch of {name} cannot be unpickled")
            return error, None, None
        if not isinstance(value, _messages.Failure):
            return None, value, states
        exception = value.exception(name)
        if value.fatal:
            self.close()
            raise exception
        return exception, None, states

    def close(self) -> None:
        """Ends the processes, and returns when they have ended."""
        if self.closed or self._owner != os.getpid():  # A forked child leaves them alone.
            return
        self.closed = True
        for worker in self._workers:
            worker.stop()
        begun_at = time.monotonic()
        for worker in self._workers:
            worker.join(begun_at + _STOP_S - time.monotonic())


def _pickled(work: Work) -> bytes:
    try:
        pickled: bytes = cloudpickle.dumps(work)
    except Exception as error:
        error.add_note(
            f"DataLoader: {_unpicklable(work)} cannot be pickled, and so cannot be sent to a "
            "worker process; use num_workers=0, or open what it holds in worker_init_fn"
        )
        raise
    return pickled


def _unpicklable(work: Work) -> str:
    for name in ("dataset", "collate_fn", "worker_init_fn"):
        try:
            cloudpickle.dumps(getattr(work, name))
        except Exception:  # noqa: BLE001  # Classes may raise anything.
            return f"argument {name!r}"
    return "an argument"


#: The number of the first epoch. Messages before it have the number 0.
FIRST_EPOCH = 1
#: The body of a request for one more batch.
REQUEST = b""


def main(worker_id: int, connection: socket.socket) -> None:
    """Serves the main process, at the other end of ``connection``, until it closes that."""
    # Ctrl-C reaches every process of the terminal; the main process answers it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Batches are made on the host; an accelerator's memory belongs to the main process.
    jax.config.update("jax_platforms", "cpu")
    # A program that the data set starts must not keep the connection open.
    connection.set_inheritable(False)
    channel = Channel(connection)
    inbox = _Inbox(channel)
    with contextlib.suppress(OSError):  # The main process has closed the connection.
        channel.send(Message(0, b""))  # The process has started.
        work, epoch = inbox.next(), inbox.next()
        if work is None or epoch is None:
            return
        # An epoch is never left out here: `worker_init_fn` may use the seeds of the first one.
        worker = Worker(worker_id, work.body, epoch.body)
        while (message := inbox.next()) is not None:
            if message.number != inbox.newest_epoch:
                continue
            if len(message.body):
                worker.begin(message.body)
            elif (packed := worker.next()) is not None:
                channel.send(Message(message.number, *packed))


class _Inbox:
    """The messages of the main process, which a thread reads while the worker makes a batch.

    The thread also ends the process when the main process has ended, even if it was killed.

    Attributes:
        newest_epoch: The number of the epoch that came last; -1 when the connection is closed.
        next: Waits for the next message; it returns None if the connection is closed.
    """

    def __init__(self, channel: Channel) -> None:
        self.newest_epoch = 0
        self._channel = channel
        messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._put, self.next = messages.put, messages.get
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                message = self._channel.receive()
                self.newest_epoch = message.number
                self._put(message)
        except (EOFError, OSError):
            pass  # The main process has closed the connection, or has ended.
        finally:
            self.newest_epoch = -1
            self._put(None)
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)


class Worker:
    """The worker of this process, with a ``Work`` and its first ``Epoch``, both pickled."""

    def __init__(self, worker_id: int, work: bytes | memoryview, epoch: bytes | memoryview) -> None:
        self._id = worker_id
        self._failure: _messages.Packed | None = None
        self.begin(epoch, work)

    def begin(self, pickled: bytes | memoryview, work: bytes | memoryview | None = None) -> None:
        """Begins an epoch. ``worker_init_fn`` is called once in a process, with its ``work``."""
        if self._failure is not None:
            return
        try:
            if work is not None:
                self._work: Work = pickle.loads(work)  # noqa: S301  # from the main process
            epoch: Epoch = pickle.loads(pickled)  # noqa: S301  # from the main process
            seed, worker_id = epoch.base_seed, self._id
            epoch.settings.apply()
            _work.seed_generators(seed, worker_id)
            _work.set_worker_info(
                _work.WorkerInfo(
                    worker_id, self._work.num_workers, seed + worker_id, self._work.dataset
                )
            )
            self._batches = iter(epoch.batches)
            self._sent_states: bytes | None = None
            if work is not None and self._work.worker_init_fn is not None:
                self._work.worker_init_fn(worker_id)
            if epoch.reseeded:
                _work.seed_generators(seed, worker_id)
            if epoch.states is not None:
                _work.set_generator_states(epoch.states)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # The main process raises it.
            self._failure = _messages.pack(_messages.failure(error, fatal=True), None)

    def next(self) -> _messages.Packed | None:
        """Returns the next batch, or the exception that it raised; None after the last batch."""
        if self._failure is not None:
            return self._failure
        try:
            indices = next(self._batches)
        except StopIteration:
            return None
        try:
            value = self._work.batch(indices)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # The main process raises it.
            value = _messages.failure(error)
        # The states have 8 KiB, and most data sets never draw: states are sent only after a draw.
        states: _work.GeneratorStates | None = _work.generator_states()
        pickled = pickle.dumps(states)
        if pickled == self._sent_states:
            states = None
        self._sent_states = pickled
        try:
            return _messages.pack(value, states)
        except Exception as error:  # noqa: BLE001  # The main process raises it.
            error.add_note("The batch cannot be sent to the main process; see collate_fn.")
            return _messages.pack(_messages.failure(error), states)

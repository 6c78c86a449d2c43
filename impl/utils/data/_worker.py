"""A worker process: it seeds its generators, makes its batches, and sends them.

The main process sends the work, then an epoch, then one request for each batch that it wants. A
later epoch may follow at any time; the requests before it are then void.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import socket
import threading

import jax

from impl.utils.data import _messages, _work
from impl.utils.data._messages import Channel, Message
from impl.utils.data._work import Epoch, Work

#: The number of the first epoch. Messages before it have the number 0.
FIRST_EPOCH = 1
#: The body of a request for one more batch.
REQUEST = b""


def main(worker_id: int, connection: socket.socket) -> None:
    """Serves the main process until it closes the connection.

    Args:
        worker_id: The number of the worker, from 0.
        connection: The socket to the main process.
    """
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
        _serve(worker_id, channel, inbox)


def _serve(worker_id: int, channel: Channel, inbox: _Inbox) -> None:
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
    """

    def __init__(self, channel: Channel) -> None:
        self.newest_epoch = 0
        self._channel = channel
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, daemon=True).start()

    def next(self) -> Message | None:
        """Waits for the next message; None if the connection is closed."""
        return self._messages.get()

    def _read(self) -> None:
        try:
            while True:
                message = self._channel.receive()
                self.newest_epoch = message.number
                self._messages.put(message)
        except (EOFError, OSError):
            pass  # The main process has closed the connection, or has ended.
        finally:
            self.newest_epoch = -1
            self._messages.put(None)
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join()
            os._exit(1)


class Worker:
    """The worker of this process.

    Args:
        worker_id: The number of the worker, from 0.
        work: A ``Work``, pickled.
        epoch: The first ``Epoch``, pickled.
    """

    def __init__(self, worker_id: int, work: bytes | memoryview, epoch: bytes | memoryview) -> None:
        self._id = worker_id
        self._failure: _messages.Packed | None = None
        self._sent_states: bytes | None = None
        try:
            self._work: Work = pickle.loads(work)  # noqa: S301  # from the main process
            self._start(pickle.loads(epoch))  # noqa: S301  # from the main process
        except (Exception, SystemExit) as error:  # noqa: BLE001  # The main process raises it.
            self._failure = _fatal(error)

    def _start(self, epoch: Epoch) -> None:
        self._enter(epoch)
        if self._work.worker_init_fn is not None:
            self._work.worker_init_fn(self._id)
        if epoch.reseeded:
            _work.seed_generators(epoch.base_seed, self._id)
        if epoch.states is not None:
            _work.set_generator_states(epoch.states)

    def begin(self, epoch: bytes | memoryview) -> None:
        """Begins a later epoch. ``worker_init_fn`` is called once in a process.

        Args:
            epoch: An ``Epoch``, pickled.
        """
        if self._failure is not None:
            return
        try:
            self._enter(pickle.loads(epoch))  # noqa: S301  # from the main process
        except (Exception, SystemExit) as error:  # noqa: BLE001  # The main process raises it.
            self._failure = _fatal(error)

    def _enter(self, epoch: Epoch) -> None:
        epoch.settings.apply()
        _work.seed_generators(epoch.base_seed, self._id)
        _work.set_worker_info(
            _work.WorkerInfo(
                self._id, self._work.num_workers, epoch.base_seed + self._id, self._work.dataset
            )
        )
        self._batches = iter(epoch.batches)
        self._sent_states = None

    def next(self) -> _messages.Packed | None:
        """Returns the next batch, or the exception that it raised; None after the last batch."""
        if self._failure is not None:
            return self._failure
        try:
            indices = next(self._batches)
        except StopIteration:
            return None
        try:
            batch = self._work.batch(indices)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # The main process raises it.
            return _messages.pack(_messages.failure(error, self._changed_states()))
        states = self._changed_states()
        try:
            return _messages.pack(_messages.Batch(batch, states))
        except Exception as error:  # noqa: BLE001  # The main process raises it.
            error.add_note("The batch cannot be sent to the main process; see collate_fn.")
            return _messages.pack(_messages.failure(error, states))

    def _changed_states(self) -> _work.GeneratorStates | None:
        # The states have 5 KiB, and most data sets never draw: states are sent only after a draw.
        states = _work.generator_states()
        pickled = pickle.dumps(states)
        if pickled == self._sent_states:
            return None
        self._sent_states = pickled
        return states


def _fatal(error: BaseException) -> _messages.Packed:
    return _messages.pack(_messages.failure(error, None, fatal=True))

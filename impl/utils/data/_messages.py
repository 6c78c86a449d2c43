"""Messages between the main process and one worker: batches and exceptions, as bytes.

Large arrays become buffers next to the pickled bytes, so that each side copies them once. An
exception keeps its type and its attributes, if they can be pickled.

A ``Channel`` is a pair of sockets. Sockets leave nothing behind when a process is killed, and need
no space in ``/dev/shm``. They are as fast as shared memory that is kept, and faster than shared
memory that is made for each batch. The second batch of the first epoch, of 2 images, travels as ::

    header     1, 87, 1        the number of the epoch, the bytes of the body, one buffer
    length     1204224         of the buffer
    body       pickled: (<the buffer, as float32 [2, 224, 224, 3]>, None)
    buffer     the bytes of the array
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import socket
import struct
import traceback
from collections.abc import Sequence
from typing import Any, NamedTuple

import cloudpickle
import numpy as np

from impl.utils.data._work import GeneratorStates

#: A buffer of fewer bytes stays among the pickled bytes.
_SMALLEST_BUFFER = 1 << 16

#: Pickled bytes, and the buffers that travel with them.
Packed = tuple[bytes, list[memoryview]]


@dataclasses.dataclass(frozen=True)
class Failure:
    """An exception that a worker raised instead of returning a batch."""

    #: The exception, or the parts of one whose class cannot be called with its ``args``; None if
    #: neither can be pickled.
    pickled: bytes | None
    text: str  # The name of its class, and its message.
    traceback: str
    fatal: bool  # Whether the worker cannot go on.

    def exception(self, process: str) -> Exception:
        """Returns the exception, with the traceback of the worker ``process`` as a note.

        An exception that ends a loop or a process, or that cannot be pickled, becomes a
        ``RuntimeError``.
        """
        error: object = None
        if self.pickled is not None:
            with contextlib.suppress(Exception):  # Its class may raise anything.
                error = pickle.loads(self.pickled)  # noqa: S301  # from a worker of our own
                if isinstance(error, tuple):
                    kind, args, attributes = error
                    error = kind.__new__(kind, *args)
                    vars(error).update(attributes)
        if not isinstance(error, Exception) or isinstance(error, StopIteration):
            error = RuntimeError(f"{process} raised {self.text}")
        error.add_note(f"Raised in {process}; the traceback there:\n{self.traceback}")
        return error


def failure(error: BaseException, *, fatal: bool = False) -> Failure:
    """Returns the form in which an exception travels."""
    text = f"{type(error).__qualname__}: {error}"
    trace = "".join(traceback.format_exception(error)).rstrip()
    return Failure(_pickled(error), text, trace, fatal)


def _pickled(error: BaseException) -> bytes | None:
    # Unpickling an exception calls its class with `args`, which the class may not accept.
    for form in (error, (type(error), error.args, vars(error))):
        with contextlib.suppress(Exception):  # Its class may raise anything.
            pickled: bytes = cloudpickle.dumps(form)
            pickle.loads(pickled)  # noqa: S301  # Bytes that cannot be read are of no use.
            return pickled
    return None


def pack(value: Any, states: GeneratorStates | None) -> Packed:
    """Pickles a message, with its large arrays as buffers; classes in it may raise anything.

    Args:
        value: The result of ``collate_fn``, or a ``Failure``.
        states: The states of the worker's generators after it, or None if they did not change.
    """
    buffers: list[memoryview] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if raw.nbytes < _SMALLEST_BUFFER:
            return True
        buffers.append(raw)
        return False

    options: Any = {"protocol": 5, "buffer_callback": stays}
    try:
        return pickle.dumps((value, states), **options), buffers
    except Exception:  # noqa: BLE001  # Classes may raise anything.
        # Cloudpickle is slower, but also pickles classes and functions that a script defines.
        buffers.clear()
        return cloudpickle.dumps((value, states), **options), buffers


#: The number of a message, the bytes of its body, and the number of its buffers.
_HEADER = struct.Struct("<QQQ")
_LENGTH = struct.Struct("<Q")


class Message(NamedTuple):
    """A number, a body, and large buffers that travel with the body."""

    number: int
    body: bytes | memoryview
    buffers: Sequence[memoryview] = ()


class Channel:
    """One end of a connection, of which one thread may send while another receives."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(None)  # A program may have set socket.setdefaulttimeout.
        self._connection = connection

    def send(self, message: Message) -> None:
        """Sends a message, and returns when the other end has read all but a few kilobytes of it.

        Raises:
            OSError: The other end is closed.
        """
        number, body, buffers = message
        lengths = b"".join(_LENGTH.pack(len(buffer)) for buffer in buffers)
        header = _HEADER.pack(number, len(body), len(buffers)) + lengths
        if len(body) < 1 << 16:  # One call is faster than two, and so is a copy of this size.
            self._connection.sendall(header + bytes(body))
        else:
            self._connection.sendall(header)
            self._connection.sendall(body)
        for buffer in buffers:
            self._connection.sendall(buffer)

    def receive(self) -> Message:
        """Waits for the next message. Its body and its buffers are memory of their own.

        Raises:
            EOFError: The other end is closed, perhaps in the middle of a message.
            OSError: The connection is broken.
        """
        number, size, count = _HEADER.unpack(self._received(_HEADER.size))
        sizes = [length for (length,) in _LENGTH.iter_unpack(self._received(count * _LENGTH.size))]
        body = self._received(size)
        return Message(number, body, [self._received(length) for length in sizes])

    def _received(self, size: int) -> memoryview:
        # NumPy does not fill the memory first, as a bytearray would.
        buffer = unread = np.empty(size, np.uint8).data
        while unread:
            # One call for all bytes: between two calls, a thread waits for Python's global lock.
            count = self._connection.recv_into(unread, 0, socket.MSG_WAITALL)
            if count == 0:
                raise EOFError("the other end of the connection is closed")
            unread = unread[count:]
        return buffer

    def shut_down(self) -> None:
        """Ends the connection for both ends, also for threads that wait for a message."""
        with contextlib.suppress(OSError):  # The other end was faster.
            self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Releases the socket; no thread may use the channel any more."""
        self._connection.close()

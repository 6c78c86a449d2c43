"""Messages between the main process and one worker, over a pair of sockets.

Sockets leave nothing behind when a process is killed, and need no space in ``/dev/shm``. They are
as fast as shared memory that is kept, and faster than shared memory that is made for each batch.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

#: The number of a message, the bytes of its body, and the number of its buffers.
_HEADER = struct.Struct("<QQQ")
_LENGTH = struct.Struct("<Q")


class Message(NamedTuple):
    """A number, a body, and large buffers that travel with the body."""

    number: int
    body: bytes | memoryview
    buffers: Sequence[memoryview] = ()


class Channel:
    """One end of a connection. One thread may send while another receives.

    Args:
        connection: A connected stream socket, which the channel closes.
    """

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

"""Messages between two ends of a connection."""

import queue
import socket
import threading

import pytest

from impl.utils.data._channel import Channel, Message


@pytest.fixture
def sockets():
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


@pytest.mark.parametrize("body", [b"", b"body", bytes(range(256)) * 1000])
@pytest.mark.parametrize("sizes", [[], [0], [1_000_000, 70_000, 3]])
def test_a_message_comes_as_it_was_sent(sockets, body, sizes):
    sender, receiver = map(Channel, sockets)
    buffers = [memoryview(bytes([number + 1]) * size) for number, size in enumerate(sizes)]
    messages = queue.SimpleQueue()
    thread = threading.Thread(target=lambda: messages.put(receiver.receive()), daemon=True)
    thread.start()
    sender.send(Message(2**40, body, buffers))
    message = messages.get(timeout=10)
    thread.join()
    assert message.number == 2**40
    assert bytes(message.body) == body
    assert [bytes(buffer) for buffer in message.buffers] == [bytes(buffer) for buffer in buffers]
    assert not any(buffer.readonly for buffer in message.buffers)


def test_a_message_that_is_cut_short_ends_the_connection(sockets):
    sender, receiver = sockets
    channel = Channel(receiver)
    Channel(sender).send(Message(1, b"whole"))
    sender.sendall(bytes(10))
    sender.close()
    assert bytes(channel.receive().body) == b"whole"
    with pytest.raises(EOFError, match="the other end of the connection is closed"):
        channel.receive()


def test_a_thread_that_waits_is_released_on_both_ends(sockets):
    channels = [Channel(end) for end in sockets]

    def wait(channel):
        with pytest.raises(EOFError):
            channel.receive()

    threads = [threading.Thread(target=wait, args=[channel], daemon=True) for channel in channels]
    for thread in threads:
        thread.start()
    channels[0].shut_down()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    channels[1].shut_down()  # A second time is not an error.
    with pytest.raises(OSError, match="pipe"):
        channels[1].send(Message(1, b"late"))


def test_the_default_time_limit_of_sockets_is_not_used():
    limit = socket.getdefaulttimeout()
    socket.setdefaulttimeout(0.01)
    try:
        sender, receiver = map(Channel, socket.socketpair())
    finally:
        socket.setdefaulttimeout(limit)
    timer = threading.Timer(0.1, sender.send, [Message(3, b"late")])
    timer.start()
    assert receiver.receive().number == 3
    timer.join()
    sender.close()
    receiver.close()

"""Processes that load data, and the channel to them.

Tests: impl.utils.data._messages, impl.utils.data._work.
"""

import itertools
import pickle
import queue
import socket
import threading

import pytest

from impl.tests.data import _data_sets
from impl.tests.data._loaders import streams
from impl.utils.data import _messages, _pool, _work  # They need cloudpickle.
from impl.utils.data._messages import Channel, Message


@pytest.fixture(autouse=True)
def _not_a_worker_afterwards():
    yield
    _work._worker_info = None


def epoch(base_seed, *commands, reseeded=False, states=None):
    settings = _work.settings()
    return pickle.dumps(_work.Epoch(base_seed, commands, reseeded, states, settings))


def work(init=None):
    return pickle.dumps(_work.Work(_data_sets.Commands(), list, False, init, 1))


def messages(worker):
    packed = iter(worker.next, None)
    return [_messages.unpack(body, buffers) for body, buffers in packed]


def values(worker):
    return [message.value for message in messages(worker)]


def test_a_later_epoch_is_the_same_in_a_worker_that_stays_and_in_a_new_one():
    draws = ["draw"] * 3
    persistent = _pool.Worker(0, work(_data_sets.init_that_seeds), epoch(1, *draws))
    first = values(persistent)
    persistent.begin(epoch(2, *draws))
    second = values(persistent)
    new = _pool.Worker(0, work(_data_sets.init_that_seeds), epoch(2, *draws, reseeded=True))
    assert values(new) == second
    assert second == list(itertools.islice(streams(2), 3))
    new = _pool.Worker(0, work(_data_sets.init_that_seeds), epoch(1, *draws))
    assert values(new) == first
    assert first != second


def test_a_new_worker_goes_on_from_the_states_that_came_with_a_batch():
    first, *rest = messages(_pool.Worker(0, work(), epoch(1, "draw", "draw", "draw")))
    resumed = _pool.Worker(0, work(), epoch(1, "draw", "draw", states=first.states))
    assert values(resumed) == [message.value for message in rest]


def test_states_come_only_with_batches_that_changed_them():
    commands = ["pid", "pid", "draw", "picky", "lock", "draw_lock", "pid"]
    worker = _pool.Worker(0, work(), epoch(1, *commands))
    has_states = [message.states is not None for message in messages(worker)]
    assert has_states == [True, False, True, False, False, True, False]


def test_an_epoch_that_cannot_be_read_is_an_exception_in_the_main_process():
    worker = _pool.Worker(0, work(), epoch(1, "pid"))
    worker.begin(pickle.dumps(_data_sets.OneWay()))
    message = _messages.unpack(*worker.next())
    assert message.fatal
    assert message.name == "ValueError"


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

"""Worker processes: seeds, states, exceptions, workers that fail or hang, and their channel.

The processes start from a server that has imported ``impl``, in 20 ms instead of 1.3 s.
``test_loader.py`` tests workers that start by "spawn", as the workers of users do.

Tests: impl.utils.data._messages, impl.utils.data._work.
"""

import contextlib
import itertools
import multiprocessing
import os
import signal
import socket
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import jax
import numpy as np
import pytest

import impl
from impl.tests.data import _data_sets
from impl.tests.data._data_sets import streams
from impl.utils import data
from impl.utils.data import _pool, _work
from impl.utils.data._messages import Channel, Message


@pytest.fixture(scope="module", autouse=True)
def _quick_start():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["impl.tests.data._data_sets", "impl.utils.data._pool"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_pool, "_CONTEXT", context)
        yield


class Told:
    """A loader with one persistent worker, which carries out commands."""

    def __init__(self, **options):
        self._plan = ["pid"]
        self.loader = data.DataLoader(
            _data_sets.Commands(),
            batch_size=None,
            sampler=self._plan,
            num_workers=1,
            collate_fn=_data_sets.same,
            generator=impl.Generator(0),
            persistent_workers=True,
            **options,
        )

    def __call__(self, *commands):
        self._plan[:] = commands
        return iter(self.loader)

    def close(self):
        self.loader._pool.close()


@pytest.fixture(scope="module")
def shared(_quick_start):
    """A worker that several tests use, and that none of them ends."""
    told = Told()
    list(told("pid"))
    yield told
    told.close()


@pytest.fixture
def told():
    """A worker of this test alone."""
    told = Told()
    yield told
    told.close()


def test_each_epoch_of_a_persistent_worker_has_its_seed(shared):
    generator, pids = shared.loader.generator, []
    for _ in range(2):
        twin = impl.Generator()
        twin.set_state(generator.get_state())
        pid, *draws = shared("pid", "draw", "draw")
        pids.append(pid)
        assert draws == list(itertools.islice(streams(twin.draw_seed()), 2))
    assert pids[0] == pids[1] != os.getpid()


def test_a_state_in_the_middle_of_an_epoch_has_those_of_the_generators(told, tmp_path):
    iterator = told("draw", "draw", "draw")
    next(iterator)
    told.loader.save(tmp_path / "state")
    rest = list(iterator)
    told.loader.restore(tmp_path / "state")
    assert list(told.loader) == rest


def test_a_new_process_goes_on_with_the_draws(tmp_path):
    impl.seed_everything(1)
    loader = _data_sets.noisy(sampler=_data_sets.noisy_order())
    iterator = iter(loader)
    next(iterator)
    loader.save(tmp_path / "state")
    expected = [list(iterator), list(loader)]
    with ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as executor:
        assert executor.submit(_data_sets.two_epochs_from, tmp_path / "state").result() == expected


def test_a_sampler_that_draws_goes_on_beside_workers():
    loader, other = (
        _data_sets.noisy(sampler=_data_sets.noisy_order(), num_workers=1) for _ in range(2)
    )
    state, expected = loader.state_dict(), list(loader)
    other.load_state_dict(state)
    assert list(other) == expected


def indices(loader):
    return [index for samples, _ in loader for index, _ in samples]


@pytest.mark.parametrize(
    ("before", "after", "taken"), [(0, 2, 0), (0, 2, 1), (2, 0, 1), (2, 3, 1), (2, 0, None)]
)
def test_other_workers_go_on_with_the_order_and_the_loader_says_that_draws_differ(
    before, after, taken
):
    twin = _data_sets.noisy(shuffle=True)
    first, second = indices(twin), indices(twin)
    loader = _data_sets.noisy(shuffle=True, num_workers=before)
    if taken != 0:
        list(itertools.islice(loader, taken))
    other = _data_sets.noisy(shuffle=True, num_workers=after)
    other.load_state_dict(loader.state_dict())
    other.load_state_dict(other.state_dict())  # It is said as well of a state that was kept.
    with pytest.warns(UserWarning, match=f"num_workers={before}, but here it is {after}"):
        iterator = iter(other)
    assert indices(iterator) == {0: first, 1: first[1:], None: second}[taken]
    assert after or indices(other)  # It is said once.


def test_a_later_iterator_takes_the_worker_over(shared):
    first = shared("pid", "pid", "pid", "pid", "pid", "pid", "pid")
    next(first)
    second = shared("draw", "draw")
    assert [len(batch) for batch in second] == [2, 2]
    with pytest.raises(RuntimeError, match="a later one has taken"):
        next(first)


def test_a_worker_has_the_settings_of_the_main_process(shared):
    expected = (impl.get_deterministic_profile(), "run_to_run", 0, False, "cpu")
    assert list(shared("settings")) == [expected]
    impl.use_deterministic_algorithms(
        True, warn_only=True, profile="complete", guarantee="portable"
    )
    with jax.enable_x64(True):
        assert list(shared("settings")) == [("complete", "portable", 1, True, "cpu")]


def test_an_exception_keeps_its_type_and_what_it_holds(shared):
    iterator = shared("picky", "stop", "leave", "lock", "one_way", "pid")
    with pytest.raises(_data_sets.PickyError, match="picky: told to") as raised:
        next(iterator)
    assert raised.value.reason == "told to"
    (note,) = raised.value.__notes__
    assert "Raised in DataLoader worker process 0" in note
    assert 'raise PickyError("picky", reason="told to")' in note
    with pytest.raises(RuntimeError, match="raised StopIteration"):
        next(iterator)
    with pytest.raises(RuntimeError, match="raised SystemExit"):
        next(iterator)
    with pytest.raises(TypeError, match="cannot be sent to the main process"):
        next(iterator)
    with pytest.raises(ValueError, match="cannot be unpickled"):
        next(iterator)
    assert len(list(iterator)) == 1


def test_arrays_of_all_sizes_come_as_they_were_sent(shared):
    ((texts, *arrays), _) = shared("large", "large")
    assert texts == bytes(range(256)) * 1000
    for array, expected in zip(arrays, _data_sets.arrays(), strict=True):
        assert type(array) is np.ndarray
        assert array.flags.writeable
        assert array.tolist() == expected.tolist()


def test_a_worker_makes_two_batches_ahead(told):
    # The fourth batch ends the worker, and is not made while the first is in use.
    iterator = told("pid", "pid", "pid", "quit")
    pid = next(iterator)
    time.sleep(0.2)
    draws, same = told("draw", "pid")
    assert (len(draws), same) == (2, pid), "Batches of the epoch that was left are dropped."


def test_the_time_limit_and_a_worker_that_is_killed(told, monkeypatch):
    # The end of the connection has to be noticed, not only the end of the process.
    monkeypatch.setattr(_pool, "_LAST_MESSAGE_S", 60)
    (pid,) = told("pid")
    told.loader.timeout = 0.2
    iterator = told("sleep")
    with pytest.raises(RuntimeError, match=r"timed out after 0\.2 seconds.*worker 0"):
        next(iterator)
    told.loader.timeout = 0
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=f"worker 0 .pid {pid}.*killed by SIGKILL.*dmesg"):
        next(iterator)
    with pytest.raises(RuntimeError, match="have been stopped"):
        next(iterator)
    # The batch that was not handed out is in the state, and a new worker makes it.
    assert told.loader.state_dict()["epoch"]["batches"] == ["sleep"]
    # A worker must not end, with whatever status.
    begun_at = time.monotonic()
    with pytest.raises(RuntimeError, match="exited with status 0"):
        next(told("quit", "pid"))
    assert time.monotonic() - begun_at < 50


def test_a_worker_that_hangs_is_killed_when_the_loader_ends(told, monkeypatch):
    monkeypatch.setattr(_pool, "_STOP_S", 0.2)
    (pid,) = told("pid")
    told("sleep")
    time.sleep(0.1)
    told.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


class _DeadProcess:
    """A process that died in the middle of a message, while a child of it holds the connection."""

    exitcode, pid = -signal.SIGBUS, 7

    def __init__(self, *, args, **_):
        self._connection = socket.socket(fileno=os.dup(args[1].fileno()))

    def start(self):
        self._connection.sendall(bytes(24) + bytes(7))

    def join(self, _):
        pass

    def close(self):
        self._connection.close()


def test_a_message_cut_short(monkeypatch):
    monkeypatch.setattr(_pool, "_LAST_MESSAGE_S", 0.2)
    monkeypatch.setattr(_pool, "_LOOK_S", 0.1)
    monkeypatch.setattr(_pool._CONTEXT, "Process", _DeadProcess)
    worker = _pool.WorkerProcess(3, b"", 1)
    worker.begin(_work.Epoch(0, [], False, None, _work.settings()))
    with pytest.raises(RuntimeError, match=r"worker 3 .pid 7.*killed by SIGBUS.*/dev/shm"):
        worker.take(5)
    worker.stop()
    worker.join(0)
    worker._process.close()


def test_an_init_that_fails_and_an_argument_that_cannot_be_pickled():
    loader = data.DataLoader([1], num_workers=1, worker_init_fn=_data_sets.failing_init)
    iterator = iter(loader)
    with pytest.raises(_data_sets.PickyError, match="0 of 1: list"):
        next(iterator)
    with pytest.raises(RuntimeError, match="have been stopped"):
        next(iterator)
    loader = data.DataLoader([1], num_workers=1, collate_fn=(item for item in ()))
    with pytest.raises(TypeError) as raised:
        iter(loader)
    assert "argument 'collate_fn' cannot be pickled" in raised.value.__notes__[0]


def test_a_process_that_cannot_start_ends_those_before_it(monkeypatch):
    start = multiprocessing.context.ForkServerProcess.start

    def first_only(process):
        if process.name.endswith("1"):
            raise OSError("no more processes")
        start(process)

    monkeypatch.setattr(multiprocessing.context.ForkServerProcess, "start", first_only)
    loader = data.DataLoader([1, 2], num_workers=2)
    with pytest.raises(RuntimeError, match="worker 1 could not be started"):
        iter(loader)


def test_a_later_epoch_is_the_same_in_a_worker_that_stays_and_in_a_new_one():
    with contextlib.closing(Told(worker_init_fn=_data_sets.init_that_seeds)) as told:
        (first,) = told("draw")
        between = told.loader.state_dict()
        iterator = told("draw", "draw")
        state, later = told.loader.state_dict(), list(iterator)
        assert later == list(itertools.islice(streams(state["epoch"]["base_seed"]), 2))
        for begun in (between, state):
            told.loader.load_state_dict(begun)
            assert list(told.loader) == later
        told.close()
        assert list(told("draw")) == [first]  # In the first epoch of a process, the init seeds.


def test_states_come_only_with_batches_that_changed_them(shared):
    commands = ["pid", "pid", "draw", "picky", "lock", "draw_lock", "pid"]
    shared(*commands)
    has_states = [shared.loader._pool.take(0, 60)[2] is not None for _ in commands]
    assert has_states == [True, False, True, False, False, True, False]


def test_an_epoch_that_cannot_be_read_is_an_exception_in_the_main_process(told):
    with pytest.raises(ValueError, match="one way"):
        next(told(_data_sets.OneWay()))
    assert told.loader._pool.closed


@pytest.fixture
def sockets():
    pair = socket.socketpair()
    yield pair
    for end in pair:
        end.close()


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

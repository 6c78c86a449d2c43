"""A worker in the process of the test: its epochs, its seeds, and the states that it sends.

Tests: impl.utils.data._messages, impl.utils.data._work, impl.utils.data._worker_info.
"""

import itertools
import pickle

import pytest

from impl.tests.data import _data_sets
from impl.tests.data._streams import streams
from impl.utils.data import _worker_info

pytest.importorskip("cloudpickle", reason="the extra 'data' is not installed")
from impl.utils.data import _messages, _work, _worker  # They need cloudpickle.


@pytest.fixture(autouse=True)
def _not_a_worker_afterwards():
    yield
    _worker_info._worker_info = None


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
    persistent = _worker.Worker(0, work(_data_sets.init_that_seeds), epoch(1, *draws))
    first = values(persistent)
    persistent.begin(epoch(2, *draws))
    second = values(persistent)
    new = _worker.Worker(0, work(_data_sets.init_that_seeds), epoch(2, *draws, reseeded=True))
    assert values(new) == second
    assert second == list(itertools.islice(streams(2, 0, recipe=False), 3))
    new = _worker.Worker(0, work(_data_sets.init_that_seeds), epoch(1, *draws))
    assert values(new) == first
    assert first != second


def test_a_new_worker_goes_on_from_the_states_that_came_with_a_batch():
    first, *rest = messages(_worker.Worker(0, work(), epoch(1, "draw", "draw", "draw")))
    resumed = _worker.Worker(0, work(), epoch(1, "draw", "draw", states=first.states))
    assert values(resumed) == [message.value for message in rest]


def test_states_come_only_with_batches_that_changed_them():
    commands = ["pid", "pid", "draw", "picky", "lock", "draw_lock", "pid"]
    worker = _worker.Worker(0, work(), epoch(1, *commands))
    has_states = [message.states is not None for message in messages(worker)]
    assert has_states == [True, False, True, False, False, True, False]


def test_an_epoch_that_cannot_be_read_is_an_exception_in_the_main_process():
    worker = _worker.Worker(0, work(), epoch(1, "pid"))
    worker.begin(pickle.dumps(_data_sets.OneWay()))
    message = _messages.unpack(*worker.next())
    assert message.fatal
    assert message.name == "ValueError"

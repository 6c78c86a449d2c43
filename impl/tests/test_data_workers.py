"""The loader with worker processes. Each takes more than a second to start, so there are few."""

import itertools
import os
import pickle
import random
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest

import impl
from impl.tests import _data_sets
from impl.tests._support import user_module
from impl.utils import data
from impl.utils.data import _worker_info

pytest.importorskip("grain", reason="the extra 'data' is not installed")
engine = pytest.importorskip("impl.utils.data._engine")
workers = pytest.importorskip("impl.utils.data._workers")

RECIPE = """
import random
import numpy
import impl as torch
from impl.utils.data import DataLoader
from impl.tests._data_sets import Draws

train_dataset, batch_size, num_workers = Draws(), 2, 2

# As PyTorch's notes on reproducibility have it.

def seed_worker(worker_id):
    worker_seed = torch.initial_seed() % 2**32
    numpy.random.seed(worker_seed)
    random.seed(worker_seed)

g = torch.Generator()
g.manual_seed(0)

loader = DataLoader(
    train_dataset,
    batch_size=batch_size,
    num_workers=num_workers,
    worker_init_fn=seed_worker,
    generator=g,
)
"""


def streams(base_seed, worker_id, *, recipe):
    """What ``draws`` gives in a worker, sample by sample."""
    seed = base_seed + worker_id
    words = seed % 2**32 if recipe else workers.numpy_seed(base_seed, worker_id)
    python, numpy = random.Random(seed % 2**32 if recipe else seed), np.random.RandomState(words)
    own = impl.Generator(seed)
    while True:
        yield [[python.random(), numpy.random(), own.draw_seed() % 2**32] for _ in range(2)]


def plain(batches):
    return [{name: np.asarray(batch[name]).tolist() for name in batch} for batch in batches]


def test_the_recipe_of_pytorch_and_a_state_in_its_middle(tmp_path):
    loader = user_module(RECIPE).loader
    iterator = iter(loader)
    # Three of four: worker 0 has done two, worker 1 one.
    got = list(itertools.islice(iterator, 3))
    iterator._loader.save(tmp_path / "state")
    got = plain(got + list(iterator))

    base_seed = impl.Generator(0).draw_seed()
    expected = [streams(base_seed, each, recipe=True) for each in range(2)]
    for number, batch in enumerate(got):
        worker = number % 2
        seed = (base_seed + worker) % 2**32
        assert list(batch) == ["worker", "index", "seeds", "draws"]
        assert batch["worker"] == [worker, worker]
        assert batch["index"] == [2 * number, 2 * number + 1]
        assert batch["seeds"] == [[seed, seed], [seed, seed]]
        # Collated by position: the samples of a batch stand in the last dimension.
        drawn = np.moveaxis(np.array(batch["draws"]), -1, 0).tolist()
        assert drawn == [next(expected[worker]), next(expected[worker])]

    fresh = user_module(RECIPE).loader
    fresh.restore(tmp_path / "state")
    assert plain(fresh) == got[3:]
    assert fresh.generator.get_state().tolist() == loader.generator.get_state().tolist()
    alone = data.DataLoader(_data_sets.Draws(), 2, generator=impl.Generator())
    alone.restore(tmp_path / "state")
    assert [batch["index"] for batch in plain(alone)] == [batch["index"] for batch in got[3:]]


@pytest.fixture(scope="module")
def persistent():
    """A loader with one worker that stays, and the list of what it is told to do."""
    plan = []
    loader = data.DataLoader(
        _data_sets.Commands(),
        batch_size=None,
        sampler=plan,
        num_workers=1,
        collate_fn=lambda sample: sample,
        generator=impl.Generator(0),
        persistent_workers=True,
    )
    yield loader, plan
    if loader._pool is not None:
        loader._pool.close()


def told(persistent, *commands):
    loader, plan = persistent
    plan[:] = commands
    return iter(loader)


def test_each_epoch_of_a_worker_that_stays_has_its_seed(persistent):
    generator, pids = persistent[0].generator, []
    for _ in range(2):
        twin = impl.Generator()
        twin.set_state(generator.get_state())
        pid, *drawn = told(persistent, "pid", "draw", "draw")
        pids.append(pid)
        assert drawn == list(itertools.islice(streams(twin.draw_seed(), 0, recipe=False), 2))
    assert pids[0] == pids[1] != os.getpid()


def test_a_later_iterator_takes_the_worker_over(persistent):
    first = told(persistent, "pid", "pid", "pid", "pid", "pid", "pid")
    next(first)
    second = told(persistent, "draw", "draw")
    assert len(list(second)) == 2
    with pytest.raises(RuntimeError, match="a later one has taken"):
        next(first)


def test_a_worker_has_the_settings_of_the_main_process(persistent):
    expected = (impl.get_deterministic_profile(), 0, False, "cpu")
    assert list(told(persistent, "settings")) == [expected]
    impl.use_deterministic_algorithms(True, warn_only=True, profile="complete")
    with jax.enable_x64(True):
        assert list(told(persistent, "settings")) == [("complete", 1, True, "cpu")]


def test_an_exception_keeps_its_type_and_what_it_holds(persistent):
    iterator = told(persistent, "picky", "stop", "leave", "lock", "one_way", "pid")
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


def test_large_arrays_come_through_shared_memory(persistent):
    ((array, beside),) = told(persistent, "large")
    assert array.tolist() == list(range(100_000))
    assert type(array) is np.ndarray
    assert array.flags.writeable
    assert beside == "beside it"


def test_the_time_limit_and_a_worker_that_is_killed(persistent, monkeypatch):
    # The way out where a message is cut short; here the process itself has to be looked at.
    monkeypatch.setattr(engine, "_LOST_AFTER_S", 60)
    loader = persistent[0]
    loader.timeout = 0.2
    try:
        (pid,) = told(persistent, "pid")
        iterator = told(persistent, "sleep")
        with pytest.raises(RuntimeError, match=r"timed out after 0\.2 seconds.*worker 0"):
            next(iterator)
    finally:
        loader.timeout = 0
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=f"worker 0 .pid {pid}.*killed by SIGKILL.*dmesg"):
        next(iterator)
    with pytest.raises(RuntimeError, match="have been stopped"):
        next(iterator)
    # What was not handed out is not lost: it is in the state, and a new worker does it.
    assert loader.state_dict()["epoch"]["batches"] == ["sleep"]
    # Status 0 is no better an end than another.
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match="exited with status 0"):
        next(told(persistent, "quit", "pid"))
    assert time.monotonic() - begun < 50


class _Silent:
    """A process that died in the middle of a message: its thread waits for the rest."""

    exitcode, pid = -signal.SIGBUS, 7


def test_a_message_cut_short(monkeypatch):
    monkeypatch.setattr(engine, "_LOST_AFTER_S", 0.2)
    monkeypatch.setattr(engine, "_LOOK_EVERY_S", 0.1)
    monkeypatch.setattr(engine._Reader, "_read", lambda _: None)
    reader = engine._Reader(3, b"", b"", 1)
    reader._process, reader._ready_at = _Silent(), time.monotonic()
    with pytest.raises(RuntimeError, match=r"worker 3 .pid 7.*killed by SIGBUS.*/dev/shm"):
        reader.take(0)


def test_an_init_that_fails(monkeypatch):
    monkeypatch.setattr(engine, "_STOPPED_AFTER_S", 1.0)
    loader = data.DataLoader(
        _data_sets.Draws(), num_workers=1, worker_init_fn=_data_sets.failing_init
    )
    iterator = iter(loader)
    with pytest.raises(_data_sets.PickyError, match="0 of 1: Draws"):
        next(iterator)
    with pytest.raises(RuntimeError, match="have been stopped"):
        next(iterator)


PROGRAM = """
import os, signal, sys
import impl

class Here:
    def __len__(self):
        return 100
    def __getitem__(self, index):
        return Here.Sample(index)
    class Sample:
        def __init__(self, index):
            self.index, self.pid = index, os.getpid()

if __name__ == "__main__":
    scale = 10
    loader = impl.utils.data.DataLoader(
        Here(), num_workers=1, collate_fn=lambda samples: (samples[0], scale)
    )
    iterator = iter(loader)
    sample, ten = next(iterator)
    print(type(sample) is Here.Sample, ten, sample.pid, flush=True)
    signal.pause()
"""


def test_what_a_script_defines_and_a_main_process_that_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    main = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    same, ten, pid = main.stdout.readline().split()
    assert (same, ten) == ("True", "10")
    os.kill(int(pid), 0)
    main.kill()
    # The worker has the pipe too: it is at its end when both are.
    begun = time.monotonic()
    main.communicate(timeout=30)
    assert time.monotonic() - begun < 20


@pytest.fixture
def in_this_process():
    """The worker's code, in the process of the test."""
    before = workers.rng()
    yield
    workers.set_rng(before)
    _worker_info._worker_info = None


def epoch(base_seed, *, reseeded=False, rng=None):
    settings = workers.settings()
    return pickle.dumps(workers.Epoch(base_seed, ["draw"] * 3, reseeded, rng, settings))


def work(init=None):
    return pickle.dumps(workers.Work(_data_sets.Commands(), list, False, init, 1))


def payloads(worker):
    messages = [workers.unpack(worker.next()) for _ in range(4)]
    assert messages[-1][0] == "end"
    return [payload for _, payload, _ in messages[:-1]]


@pytest.mark.usefixtures("in_this_process")
def test_a_later_epoch_begins_alike_in_a_new_process():
    stayed = workers.Worker(0, work(_data_sets.init_that_draws), epoch(1))
    first = payloads(stayed)
    stayed.begin(epoch(2))
    second = payloads(stayed)
    started = workers.Worker(0, work(_data_sets.init_that_draws), epoch(2, reseeded=True))
    assert payloads(started) == second
    assert second == list(itertools.islice(streams(2, 0, recipe=False), 3))
    assert payloads(workers.Worker(0, work(_data_sets.init_that_draws), epoch(1))) == first
    assert first != second


@pytest.mark.usefixtures("in_this_process")
def test_states_come_with_each_batch_that_changed_them():
    worker = workers.Worker(0, work(), epoch(1))
    _, _, states = workers.unpack(worker.next())
    want = [workers.unpack(worker.next())[1] for _ in range(2)]
    started = workers.Worker(0, work(), epoch(1, rng=states))
    assert payloads(started)[:2] == want
    quiet = workers.Worker(
        0, work(), pickle.dumps(workers.Epoch(1, ["pid"] * 2, False, None, workers.settings()))
    )
    assert workers.unpack(quiet.next())[2] is not None
    assert workers.unpack(quiet.next())[2] is None


def test_the_words_for_numpy_are_those_of_pytorch():
    theirs = pytest.importorskip("torch.utils.data._utils.worker", reason="compares with PyTorch")
    for base_seed, worker_id in [(0, 0), (2**63 - 1, 3), (123456789012, 1)]:
        assert workers.numpy_seed(base_seed, worker_id) == theirs._generate_state(
            base_seed, worker_id
        )


def test_what_cannot_be_pickled_is_named():
    loader = data.DataLoader([1], num_workers=1, collate_fn=(each for each in ()))
    with pytest.raises(TypeError) as raised:
        iter(loader)
    assert "argument 'collate_fn' cannot be pickled" in raised.value.__notes__[0]

"""Positions in an epoch, loaders that are restored from one, and files with a loader's state."""

import contextlib
import itertools
import os
import resource

import pytest

import impl
from impl.tests.data._data_sets import Squares, batches, shuffled
from impl.utils import data
from impl.utils.data._position import Position


@pytest.mark.parametrize("num_workers", [1, 2, 3, 7])
@pytest.mark.parametrize("done", [0, 1, 4, 10])
def test_workers_take_turns(num_workers, done):
    position = Position(0, None, list(range(10)), done=done, num_workers=num_workers)
    shards = [position.shard(worker_id) for worker_id in range(num_workers)]
    assert sorted(itertools.chain(*shards)) == list(range(done, 10))
    for worker_id, shard in enumerate(shards):
        assert all(batch % num_workers == worker_id for batch in shard)


KINDS = {
    "shuffled": lambda: {"shuffle": True, "batch_size": 3},
    "sequential": lambda: {"batch_size": 3},
    "single": lambda: {"shuffle": True, "batch_size": None},
    "sampler": lambda: {
        "sampler": data.RandomSampler(Squares(), generator=impl.Generator(1)),
        "batch_size": 3,
    },
    "batch_sampler": lambda: {
        "batch_sampler": data.BatchSampler(
            data.RandomSampler(Squares(), generator=impl.Generator(1)), 3, drop_last=True
        )
    },
    "list": lambda: {"sampler": [5, 1, 2, 7], "batch_size": 2},
}


@pytest.mark.parametrize("done", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_loader_gives_the_rest_of_the_epoch_and_the_next_one(kind, done, tmp_path):
    path = tmp_path / "state"
    loader = data.DataLoader(Squares(), generator=impl.Generator(5), **KINDS[kind]())
    batches(loader)
    iterator = iter(loader)
    for _ in range(done):
        next(iterator)
    loader.save(path)
    expected = [batches(iterator), batches(loader)]
    fresh = data.DataLoader(Squares(), generator=impl.Generator(99), **KINDS[kind]())
    batches(fresh)
    fresh.restore(path)
    assert [batches(fresh), batches(fresh)] == expected


def test_the_end_of_an_epoch_is_a_position_too():
    loader = shuffled()
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    before_the_end = loader.state_dict()
    assert list(iterator) == []
    at_the_end = loader.state_dict()
    after = batches(loader)
    for state, expected in [(before_the_end, []), (at_the_end, after)]:
        fresh = shuffled()
        fresh.load_state_dict(state)
        assert batches(fresh) == expected


def test_a_state_outlives_the_loop_that_was_left():
    loader = shuffled()
    for _ in loader:
        break
    state = loader.state_dict()
    fresh = shuffled(generator=impl.Generator(1))
    fresh.load_state_dict(state)
    assert fresh.state_dict() == state
    assert batches(fresh) == batches(shuffled())[1:]
    # The default generator is restored too.
    impl.manual_seed(3)
    loader = shuffled(generator=None)
    next(iter(loader))
    state, expected = loader.state_dict(), batches(loader)
    impl.manual_seed(4)
    loader.load_state_dict(state)
    batches(loader)
    assert batches(loader) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 4}, "batch_size is 3 in the state, 4 here"),
        ({"shuffle": False}, "order is 'shuffled' in the state, 'sequential' here"),
        ({"drop_last": True}, "drop_last is False in the state, True here"),
        ({"dataset": Squares(11)}, "dataset length is 10 in the state, 11 here"),
    ],
)
def test_a_state_of_another_loader_is_refused(options, message):
    source = shuffled()
    next(iter(source))
    options = {
        "dataset": Squares(),
        "batch_size": 3,
        "shuffle": True,
        "generator": impl.Generator(8),
    } | options
    loader = data.DataLoader(**options)
    state = loader.state_dict()
    with pytest.raises(ValueError, match=message):
        loader.load_state_dict(source.state_dict())
    assert loader.state_dict() == state


def changed(**entries):
    loader = shuffled()
    next(iter(loader))
    state = loader.state_dict()
    return state | {"epoch": state["epoch"] | entries}


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (list, TypeError),
        (dict, ValueError),
        (lambda: shuffled().state_dict() | {"format": 2}, ValueError),
        (lambda: shuffled().state_dict() | {"generator": [1]}, ValueError),
        (lambda: shuffled().state_dict() | {"generator": [-1] * 5}, ValueError),
        (lambda: changed(order_seed="x"), ValueError),
        (lambda: changed(done=5), ValueError),
        (lambda: changed(done=-1), ValueError),
        (lambda: changed(rng={"0": []}), ValueError),
    ],
)
def test_a_value_that_is_no_state_is_refused(make, error):
    loader = shuffled()
    next(iter(loader))
    state = loader.state_dict()
    with pytest.raises(error, match="load_state_dict"):
        loader.load_state_dict(make())
    assert loader.state_dict() == state


DAMAGES = {
    "empty": (lambda content: content[:0], "is not a file that DataLoader.save wrote"),
    "foreign": (lambda content: b"PK\3\4" + content, "is not a file that DataLoader.save wrote"),
    "cut": (lambda content: content[:-1], "cut short or added to"),
    "longer": (lambda content: content + b" ", "cut short or added to"),
    "a bit": (lambda content: content[:-9] + bytes([content[-9] ^ 1]) + content[-8:], "damaged"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_refused(name, tmp_path):
    damage, message = DAMAGES[name]
    path = tmp_path / "state"
    loader = shuffled()
    loader.save(path)
    path.write_bytes(damage(path.read_bytes()))
    state = loader.state_dict()
    with pytest.raises(ValueError, match=message):
        loader.restore(path)
    assert loader.state_dict() == state


def names(folder):
    return [path.name for path in folder.iterdir()]


@contextlib.contextmanager
def largest_file(size):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_file_that_cannot_be_written_leaves_the_earlier_one(tmp_path, monkeypatch):
    path = tmp_path / "state"
    loader = shuffled()
    loader.save(path)
    content = path.read_bytes()
    next(iter(loader))
    with largest_file(100), pytest.raises(OSError, match="File too large") as raised:
        loader.save(path)
    assert "is unchanged" in raised.value.__notes__[0]
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", lambda *_: (tmp_path / "nothing").stat())
        with pytest.raises(FileNotFoundError):
            loader.save(path)
    assert path.read_bytes() == content
    assert names(tmp_path) == ["state"]
    loader.save(path)
    assert path.read_bytes() != content


def test_the_file_is_on_the_disk_before_it_has_its_name_and_a_link_stays_one(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, name=name, real=real: (calls.append(name), real(*args))[1]
        )
    shuffled().save(tmp_path / "state")
    assert calls == ["fsync", "replace", "fsync"]
    (tmp_path / "link").symlink_to(tmp_path / "state")
    shuffled().save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    shuffled().restore(tmp_path / "state")


def test_what_json_has_no_form_for_is_refused(tmp_path):
    loader = data.DataLoader({1j: 1.0}, sampler=[1j])
    next(iter(loader))
    loader.load_state_dict(loader.state_dict() | {"epoch": None})
    iter(loader)
    with pytest.raises(TypeError, match="cannot be written to a file: got a complex"):
        loader.save(tmp_path / "state")
    assert names(tmp_path) == []

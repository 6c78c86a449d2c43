"""Positions in an epoch, loaders that are restored from one, and files with a loader's state."""

import contextlib
import functools
import itertools
import os
import random
import re
import resource

import numpy as np
import pytest

import impl
from impl.tests.data._data_sets import Squares, draws, noisy, noisy_order, shuffled
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
    "sampler": lambda: {"sampler": noisy_order(), "batch_size": 3},
    "batch_sampler": lambda: {"batch_sampler": data.BatchSampler(noisy_order(), 3, drop_last=True)},
    "list": lambda: {"sampler": [5, 1, 2, 7], "batch_size": 2},
    "default generator": lambda: {"sampler": data.RandomSampler(Squares()), "generator": None},
}


@pytest.mark.parametrize("done", [None, 0, 1, 2, "all", "end"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_loader_gives_the_rest_of_the_epoch_and_the_next_one(kind, done, tmp_path):
    path = tmp_path / "state"
    impl.seed_everything(1)
    loader = noisy(**KINDS[kind]())
    rest = loader  # Before the first epoch.
    if done is not None:
        list(loader)
        rest = iter(loader)
        count = {"all": len(loader), "end": None}.get(done, done)
        assert len(list(itertools.islice(rest, count))) == (len(loader) if count is None else count)
    draws()  # As a step of the training may.
    loader.save(path)
    state = loader.state_dict()
    expected = [list(loader if done == "end" else rest), list(loader)]
    impl.seed_everything(2)
    fresh = noisy(**{"generator": impl.Generator(99)} | KINDS[kind]())
    list(fresh)
    fresh.restore(path)
    assert fresh.state_dict() == state
    assert [list(fresh), list(fresh)] == expected


def state_of(**options):
    loader = shuffled(**options)
    next(iter(loader))
    return loader.state_dict()


def changed(**entries):
    state = state_of()
    return state | {"epoch": state["epoch"] | entries}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (list, "must be a dict"),
        (dict, "has the format None"),
        (lambda: state_of() | {"format": 1}, "has the format 1"),
        (lambda: state_of() | {"generator": [1]}, "not what"),
        (lambda: state_of() | {"generator": [-1] * 5}, "not what"),
        (lambda: state_of() | {"process": [1, 2, 3]}, "not what"),
        (lambda: state_of() | {"process": [*state_of()["process"][:2], [1]]}, "not what"),
        (lambda: state_of() | {"sampler": {"next": 1}}, "not what"),
        (lambda: changed(order_seed="x"), "not what"),
        (lambda: changed(done=5), "5 batches are done of 4"),
        (lambda: changed(done=-1), "-1 batches are done of 4"),
        (lambda: changed(rng={"0": []}), "not what"),
        (lambda: state_of(batch_size=4), "batch_size is 4 in the state, 3 here"),
        (lambda: state_of(shuffle=False), "order is 'sequential' in the state, 'shuffled' here"),
        (lambda: state_of(drop_last=True), "drop_last is True in the state, False here"),
        (lambda: state_of(dataset=Squares(11)), "dataset length is 11 in the state, 10 here"),
    ],
)
def test_what_is_no_state_of_this_loader_is_refused_and_changes_nothing(make, message):
    loader, value = shuffled(), make()
    next(iter(loader))
    draws()
    state = loader.state_dict()
    with pytest.raises(TypeError if make is list else ValueError, match=message) as raised:
        loader.load_state_dict(value)
    assert "load_state_dict" in str(raised.value)
    assert loader.state_dict() == state


def test_numpys_global_generator_may_have_other_bits():
    bits = np.random.get_bit_generator()
    np.random.set_bit_generator(np.random.Philox(1))
    try:
        loader = noisy()
        state, expected = loader.state_dict(), list(loader)
        loader.load_state_dict(state)
        assert list(loader) == expected
    finally:
        np.random.set_bit_generator(bits)
    with pytest.raises(ValueError, match="MT19937"):
        loader.load_state_dict(state)


RNG, KNOWN = random.Random(0), [impl.Generator(), impl.default_generator]


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"sampler": iter([0])}, "the state of the sampler (list_iterator)"),
        ({"batch_sampler": data.BatchSampler({0}, 1, False)}, "the state of the sampler (set)"),
        ({"dataset": [np.random.default_rng(0)]}, "a Generator of numpy in dataset"),
        (
            {"dataset": [impl.Generator(), *KNOWN], "generator": KNOWN[0]},
            "a Generator of impl in dataset",
        ),
        ({"collate_fn": functools.partial(max, key=RNG)}, "a Random of random in collate_fn"),
        ({"collate_fn": noisy_order().__iter__}, "a Generator of impl in collate_fn"),
        ({"collate_fn": lambda _: [RNG for _ in "a"]}, "a Random of random in collate_fn"),
        ({"collate_fn": lambda _, own=RNG: own}, "a Random of random in collate_fn"),
    ],
)
def test_a_state_says_what_it_does_not_have(options, names):
    loader = data.DataLoader(**{"dataset": [1]} | options)
    with pytest.warns(UserWarning, match=re.escape(f"leaves out {names}: batches")):
        loader.state_dict()


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

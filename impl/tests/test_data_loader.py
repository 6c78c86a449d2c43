"""The loader without workers: arguments, epochs, and positions that are restored."""

import contextlib
import itertools
import os
import pickle
import re
import resource
import subprocess
import sys
import types

import numpy as np
import pytest

import impl
from impl.utils import data
from impl.utils.data._position import Position

pytest.importorskip("grain", reason="the extra 'data' is not installed")
workers = pytest.importorskip("impl.utils.data._workers")


class Squares:
    def __init__(self, length=10):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return index * index


class Iterable:
    def __iter__(self):
        return iter(range(3))


def batches(loader):
    return [np.asarray(batch).tolist() for batch in loader]


def shuffled(**options):
    options = {"batch_size": 3, "shuffle": True, "generator": impl.Generator(0)} | options
    return data.DataLoader(Squares(), **options)


# What is asked of the class; whether it is refused when the loader is made, or iterated over.
REFUSED = {
    "workers": ({"num_workers": -1}, ValueError, "'num_workers' got -1"),
    "timeout": ({"timeout": -1}, ValueError, "'timeout' got -1"),
    "prefetch": ({"prefetch_factor": 2}, ValueError, "'prefetch_factor' got 2"),
    "prefetched": (
        {"num_workers": 1, "prefetch_factor": -1},
        ValueError,
        "'prefetch_factor' got -1",
    ),
    "persistent": ({"persistent_workers": True}, ValueError, "'persistent_workers' needs"),
    "sampler": ({"sampler": [0], "shuffle": True}, ValueError, "'sampler' and 'shuffle'"),
    "batch_sampler": ({"batch_sampler": [[0]], "batch_size": 2}, ValueError, "'batch_sampler'"),
    "batch_sampler, shuffle": (
        {"batch_sampler": [[0]], "shuffle": True},
        ValueError,
        "'batch_sampler'",
    ),
    "batch_sampler, sampler": (
        {"batch_sampler": [[0]], "sampler": [0]},
        ValueError,
        "'batch_sampler'",
    ),
    "batch_sampler, drop_last": (
        {"batch_sampler": [[0]], "drop_last": True},
        ValueError,
        "'batch_sampler'",
    ),
    "no batches": ({"batch_size": None, "drop_last": True}, ValueError, "batch_size=None"),
    "batch size": ({"batch_size": 0}, ValueError, "but got 0"),
    "drop_last": ({"drop_last": 1}, ValueError, "but got 1"),
    "empty": ({"dataset": [], "shuffle": True}, ValueError, "'num_samples'"),
    "waits for nobody": ({"timeout": 1}, AssertionError, "'timeout' got 1"),
    "fetches nothing": (
        {"num_workers": 1, "prefetch_factor": 0},
        AssertionError,
        "'prefetch_factor' got 0",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_arguments(name):
    options, error, message = REFUSED[name]
    options = {"dataset": Squares()} | options
    with pytest.raises(error, match=message) as raised:
        iter(data.DataLoader(**options))
    assert type(raised.value) is error


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize("name", REFUSED)
def test_refused_as_in_pytorch(name):
    torch_data = pytest.importorskip("torch.utils.data", reason="compares with PyTorch")
    options, error, _ = REFUSED[name]
    options = {"dataset": Squares()} | options
    if name == "fetches nothing":
        pytest.skip("PyTorch refuses it too, and leaves an unfinished iterator behind")
    if error is AssertionError:
        loader = torch_data.DataLoader(**options)
        with pytest.raises(error):
            iter(loader)
    else:
        with pytest.raises(error):
            torch_data.DataLoader(**options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"pin_memory": True}, ValueError, "jax.device_put"),
        ({"multiprocessing_context": "fork"}, ValueError, "start by 'spawn'"),
        ({"num_workers": 1.0}, TypeError, "'num_workers' must be int"),
        ({"generator": 0}, TypeError, "must be an impl.Generator"),
        ({"dataset": Iterable()}, TypeError, "with __getitem__ and __len__, but got a Iterable"),
        ({"dataset": types.MappingProxyType({}).items()}, TypeError, "map style"),
        ({"dataset": iter([1])}, TypeError, "map style"),
    ],
)
def test_what_is_refused_here_alone(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        data.DataLoader(**{"dataset": Squares()} | options)


def test_names_order_and_defaults_are_those_of_pytorch():
    inspect = pytest.importorskip("inspect")
    torch_data = pytest.importorskip("torch.utils.data", reason="compares with PyTorch")
    theirs = inspect.signature(torch_data.DataLoader).parameters
    for name, mine in inspect.signature(data.DataLoader).parameters.items():
        assert (mine.default, mine.kind) == (theirs[name].default, theirs[name].kind)
    assert set(theirs) - {"pin_memory_device", "in_order"} == set(
        inspect.signature(data.DataLoader).parameters
    )


def test_attributes_that_are_fixed():
    loader = shuffled()
    with pytest.raises(ValueError, match="'batch_size' cannot be set"):
        loader.batch_size = 2
    loader.timeout = 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_size": 4, "drop_last": True},
        {"batch_size": None},
        {"sampler": [3, 1], "batch_size": 2},
        {"batch_sampler": [[2, 1], [0]]},
        {"batch_size": 20},
        {"sampler": [5, 6], "batch_size": None},
    ],
)
def test_batches_are_those_of_pytorch(options):
    torch_data = pytest.importorskip("torch.utils.data", reason="compares with PyTorch")
    mine, theirs = (
        data.DataLoader(Squares(), **options),
        torch_data.DataLoader(Squares(), **options),
    )
    assert batches(mine) == [np.asarray(each).tolist() for each in theirs]
    assert len(mine) == len(theirs) == len(iter(mine))


def test_a_data_set_may_fetch_a_whole_batch():
    class Whole(Squares):
        def __getitems__(self, indices):
            assert all(type(index) is int for index in indices)
            return [-index for index in indices]

    assert batches(data.DataLoader(Whole(3), 2)) == [[0, -1], [-2]]


def test_one_seed_for_an_epoch_and_one_for_its_order():
    loader, twin = shuffled(), impl.Generator(0)
    for _ in range(2):
        base_seed, order = twin.draw_seed(), list(data.RandomSampler(range(10), generator=twin))
        iterator = iter(loader)
        assert iterator.state_dict()["epoch"]["base_seed"] == base_seed
        assert list(itertools.chain(*batches(iterator))) == [index * index for index in order]
    sequential = shuffled(shuffle=False)
    batches(sequential)
    twin.manual_seed(0).draw_seed()
    assert sequential.generator.get_state().tolist() == twin.get_state().tolist()


def test_an_exception_loses_its_batch_alone():
    class Picky(Squares):
        def __getitem__(self, index):
            if index == 4:
                raise KeyError(index)
            if index == 6:
                raise StopIteration
            return index

    iterator = iter(data.DataLoader(Picky(8), 2))
    got = [next(iterator).tolist(), next(iterator).tolist()]
    with pytest.raises(KeyError):
        next(iterator)
    with pytest.raises(RuntimeError, match="the data set raised StopIteration"):
        next(iterator)
    assert got == [[0, 1], [2, 3]]
    assert list(iterator) == []


@pytest.mark.parametrize("num_workers", [1, 2, 3, 7])
@pytest.mark.parametrize("done", [0, 1, 4, 10])
def test_workers_take_turns(num_workers, done):
    at = Position(0, None, list(range(10)), done=done, num_workers=num_workers)
    shards = [at.shard(each) for each in range(num_workers)]
    assert sorted(itertools.chain(*shards)) == list(range(done, 10))
    assert all(batch % num_workers == each for each in range(num_workers) for batch in shards[each])


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
def test_a_restored_loader_goes_on_as_if_nothing_had_been(kind, done, tmp_path):
    path = tmp_path / "state"
    loader = data.DataLoader(Squares(), generator=impl.Generator(5), **KINDS[kind]())
    batches(loader)
    iterator = iter(loader)
    for _ in range(done):
        next(iterator)
    loader.save(path)
    want = [batches(iterator), batches(loader)]
    fresh = data.DataLoader(Squares(), generator=impl.Generator(99), **KINDS[kind]())
    batches(fresh)
    fresh.restore(path)
    assert [batches(fresh), batches(fresh)] == want


def test_the_end_of_an_epoch_is_a_position_too():
    loader = shuffled()
    iterator = iter(loader)
    for _ in range(len(loader)):
        next(iterator)
    before_the_end = loader.state_dict()
    assert list(iterator) == []
    at_the_end = loader.state_dict()
    after = batches(loader)
    for state, want in [(before_the_end, []), (at_the_end, after)]:
        fresh = shuffled()
        fresh.load_state_dict(state)
        assert batches(fresh) == want


def test_a_state_outlives_the_loop_that_was_left():
    loader = shuffled()
    for _ in loader:
        break
    state = loader.state_dict()
    fresh = shuffled(generator=impl.Generator(1))
    fresh.load_state_dict(state)
    assert fresh.state_dict() == state
    again = shuffled()
    assert batches(fresh) == batches(again)[1:]


def test_the_default_generator_is_restored():
    impl.manual_seed(3)
    loader = shuffled(generator=None)
    next(iter(loader))
    state, want = loader.state_dict(), batches(loader)
    impl.manual_seed(4)
    loader.load_state_dict(state)
    batches(loader)
    assert batches(loader) == want


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
    before = loader.state_dict()
    with pytest.raises(ValueError, match=message):
        loader.load_state_dict(source.state_dict())
    assert loader.state_dict() == before


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
def test_what_is_no_state_is_refused(make, error):
    loader = shuffled()
    next(iter(loader))
    before = loader.state_dict()
    with pytest.raises(error, match="load_state_dict"):
        loader.load_state_dict(make())
    assert loader.state_dict() == before


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
    before = loader.state_dict()
    with pytest.raises(ValueError, match=message):
        loader.restore(path)
    assert loader.state_dict() == before


def names(folder):
    return [each.name for each in folder.iterdir()]


@contextlib.contextmanager
def largest_file(size):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_file_that_cannot_be_written_leaves_the_earlier_one(tmp_path):
    path = tmp_path / "state"
    loader = shuffled()
    loader.save(path)
    before = path.read_bytes()
    next(iter(loader))
    with largest_file(100), pytest.raises(OSError, match="File too large") as raised:
        loader.save(path)
    assert "is unchanged" in raised.value.__notes__[0]
    assert path.read_bytes() == before
    assert names(tmp_path) == ["state"]
    loader.save(path)
    assert path.read_bytes() != before


def test_a_failed_rename_leaves_the_earlier_file(tmp_path, monkeypatch):
    path = tmp_path / "state"
    loader = shuffled()
    loader.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (tmp_path / "nothing").stat())
    next(iter(loader))
    with pytest.raises(FileNotFoundError):
        loader.save(path)
    assert path.read_bytes() == before
    assert names(tmp_path) == ["state"]


def test_the_file_is_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, name=name, real=real: (calls.append(name), real(*args))[1]
        )
    shuffled().save(tmp_path / "state")
    assert calls == ["fsync", "replace", "fsync"]


def test_a_link_stays_one(tmp_path):
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


def test_nothing_is_seeded_without_workers():
    impl.manual_seed(0)
    before = pickle.dumps(workers.rng())
    batches(shuffled())
    assert pickle.dumps(workers.rng()) == before
    assert impl.get_rng_state().tolist() == impl.Generator(0).get_state().tolist()
    assert data.get_worker_info() is None


def test_without_grain_only_the_loader_is_missing():
    program = """if True:
        import sys
        sys.modules["grain"] = None
        import impl
        assert impl.utils.data.default_collate([1, 2]).tolist() == [1, 2]
        assert impl.utils.data.get_worker_info() is None
        try:
            impl.utils.data.DataLoader([1, 2])
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=1)
    assert "samebits[data]" in done.stdout

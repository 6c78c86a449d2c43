"""Loaders of data: their batches, their arguments, and the programs that use them.

Samples as batches, against PyTorch's.

Tests: impl.utils.data._collate, impl.utils.data._loader.
"""

import collections
import functools
import inspect
import itertools
import os
import pickle
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl.tests.data._data_sets import Squares, batches, shuffled
from impl.tests.support.bits import assert_same_bits
from impl.utils import data
from impl.utils.data import _work


def test_some_attributes_cannot_be_set_and_without_cloudpickle_no_loader_is_made(monkeypatch):
    loader = shuffled()
    with pytest.raises(ValueError, match="'batch_size' cannot be set"):
        loader.batch_size = 2
    loader.timeout = 0
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ImportError, match=r"needs cloudpickle.*samebits\[data\]"):
        data.DataLoader(Squares())


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
def test_batches_are_those_of_pytorch(options, torch):
    ours = data.DataLoader(Squares(), **options)
    theirs = torch.utils.data.DataLoader(Squares(), **options)
    assert batches(ours) == [np.asarray(batch).tolist() for batch in theirs]
    assert len(ours) == len(theirs) == len(iter(ours))


def test_a_data_set_may_fetch_a_whole_batch():
    class Whole(Squares):
        def __getitems__(self, indices):
            assert all(type(index) is int for index in indices)
            return [-index for index in indices]

    assert batches(data.DataLoader(Whole(3), 2)) == [[0, -1], [-2]]


def test_one_seed_for_an_epoch_and_one_for_its_order():
    loader, twin = shuffled(), impl.Generator(0)
    for _ in range(2):
        twin.draw_seed()
        order = list(data.RandomSampler(range(10), generator=twin))
        assert list(itertools.chain(*batches(loader))) == [index * index for index in order]


def test_an_exception_takes_the_place_of_one_batch():
    class Picky(Squares):
        def __getitem__(self, index):
            if index == 4:
                raise KeyError(index)
            if index == 6:
                raise StopIteration
            return index

    iterator = iter(data.DataLoader(Picky(8), 2))
    first_batches = [next(iterator).tolist(), next(iterator).tolist()]
    with pytest.raises(KeyError):
        next(iterator)
    with pytest.raises(RuntimeError, match="the data set raised StopIteration"):
        next(iterator)
    assert first_batches == [[0, 1], [2, 3]]
    assert list(iterator) == []


def test_nothing_is_seeded_without_workers():
    impl.manual_seed(0)
    states = pickle.dumps(_work.generator_states())
    batches(shuffled())
    assert pickle.dumps(_work.generator_states()) == states
    assert impl.get_rng_state().tolist() == impl.Generator(0).get_state().tolist()
    assert data.get_worker_info() is None


#: Defines a data set and a function in the script itself. A large array is part of each batch.
START = """
import os, signal, sys, time
# A shell starts what runs in the background with Ctrl-C ignored, and processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
if __name__ == "__main__":
    sys.modules["cloudpickle"] = None
elif os.path.exists("late"):
    time.sleep(0.5)
import numpy as np
import impl
from impl.utils.data import DataLoader

if os.path.exists("unguarded"):
    next(iter(DataLoader([1], num_workers=1)))

class Here:
    def __len__(self):
        return 100
    def __getitem__(self, index):
        if index == 4:
            open("hangs", "w").close()
            time.sleep(1000)
        return Here.Sample(index)
    class Sample:
        def __init__(self, index):
            self.index, self.pid, self.array = index, os.getpid(), np.arange(100_000)

if __name__ == "__main__":
    assert impl.utils.data.default_collate([1, 2]).tolist() == [1, 2]
    assert impl.utils.data.get_worker_info() is None
    try:
        DataLoader([1, 2])
    except ImportError as error:
        print(error)
    del sys.modules["cloudpickle"]
    scale = 10
    iterator = iter(DataLoader(
        Here(), num_workers=1, collate_fn=lambda samples: (samples[0], scale), timeout=60
    ))
    sample, ten = next(iterator)
    print(type(sample) is Here.Sample, ten, sample.pid, flush=True)
"""

INTERRUPTED = """
    try:
        print("waits", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        print(next(iterator)[0].pid, flush=True)
    open("unguarded", "w").close()
    try:
        next(iter(DataLoader([1], num_workers=1)))
    except RuntimeError as error:
        print(error)
    print("the program ends", file=sys.stderr, flush=True)
"""

#: One worker hangs when the main process is killed, and another has not yet imported the script.
KILLED = """
    next(iterator), next(iterator)  # Two batches ahead is the one that hangs.
    while not os.path.exists("hangs"):
        time.sleep(0.01)
    open("late", "w").close()
    later = iter(DataLoader([1], num_workers=1))
    print("started", flush=True)
    signal.pause()
"""


@pytest.fixture
def start(tmp_path):
    """Runs a script, and ends it if the test does not."""
    processes = []

    def run(source):
        script = tmp_path / "script.py"
        script.write_text(source)
        paths = [str(Path(impl.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        process = subprocess.Popen(
            [sys.executable, script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))},
            start_new_session=True,
            text=True,
        )
        processes.append(process)
        assert "samebits[data]" in process.stdout.readline(), process.communicate()[1]
        defined_here, ten, worker = process.stdout.readline().split()
        assert (defined_here, ten) == ("True", "10")
        os.kill(int(worker), 0)
        return process, worker

    yield run
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def ended(process):
    """The output and the errors of a program, once all its processes have ended."""
    # Workers have the same pipes, which end when the last of them does.
    return process.communicate(timeout=100)


def test_a_program_that_is_interrupted_goes_on_and_ends_without_a_trace(start):
    main, worker = start(START + INTERRUPTED)
    assert main.stdout.readline() == "waits\n"
    os.killpg(main.pid, signal.SIGINT)  # As Ctrl-C does.
    output, errors = ended(main)
    assert main.returncode == 0
    pid, unguarded = output.splitlines()
    assert pid == worker
    guard = "must use a loader with workers under 'if __name__ == \"__main__\":'"
    assert "exited with status 1" in unguarded
    assert "It ended before it began: each worker imports the script, and a script" in unguarded
    assert guard in unguarded
    of_worker, of_main = errors.split("the program ends\n")
    assert "RuntimeError: DataLoader: a worker imports this script, and a script that" in of_worker
    assert guard in of_worker
    assert of_main == ""


def test_workers_end_when_the_main_process_is_killed(start):
    main, _ = start(START + KILLED)
    assert main.stdout.readline() == "started\n"
    main.kill()
    assert ended(main) == ("", "")


class Iterable:
    def __iter__(self):
        return iter(range(3))


#: Arguments, the exception, and a part of its message. An AssertionError is raised by `iter`.
REFUSED = [
    ({"num_workers": -1}, ValueError, "'num_workers' got -1"),
    ({"timeout": -1}, ValueError, "'timeout' got -1"),
    ({"prefetch_factor": 2}, ValueError, "'prefetch_factor' got 2"),
    ({"num_workers": 1, "prefetch_factor": -1}, ValueError, "'prefetch_factor' got -1"),
    ({"persistent_workers": True}, ValueError, "'persistent_workers' needs"),
    ({"sampler": [0], "shuffle": True}, ValueError, "'sampler' and 'shuffle'"),
    ({"batch_sampler": [[0]], "batch_size": 2}, ValueError, "'batch_sampler'"),
    ({"batch_sampler": [[0]], "shuffle": True}, ValueError, "'batch_sampler'"),
    ({"batch_sampler": [[0]], "sampler": [0]}, ValueError, "'batch_sampler'"),
    ({"batch_sampler": [[0]], "drop_last": True}, ValueError, "'batch_sampler'"),
    ({"batch_size": None, "drop_last": True}, ValueError, "batch_size=None"),
    ({"batch_size": 0}, ValueError, "but got 0"),
    ({"drop_last": 1}, ValueError, "but got 1"),
    ({"dataset": [], "shuffle": True}, ValueError, "'num_samples'"),
    ({"timeout": 1}, AssertionError, "'timeout' got 1"),
    ({"num_workers": 1, "prefetch_factor": 0}, AssertionError, "'prefetch_factor' got 0"),
]
#: The same of arguments that PyTorch accepts.
STRICTER = [
    ({"pin_memory": True}, ValueError, "jax.device_put"),
    ({"multiprocessing_context": "fork"}, ValueError, "start by 'spawn'"),
    ({"num_workers": 1.0}, TypeError, "'num_workers' must be int"),
    ({"generator": 0}, TypeError, "must be an impl.Generator"),
    ({"dataset": Iterable()}, TypeError, "with __getitem__ and __len__, but got a Iterable"),
    ({"dataset": MappingProxyType({}).items()}, TypeError, "map style"),
    ({"dataset": iter([1])}, TypeError, "map style"),
]


@pytest.mark.parametrize(("options", "error", "message"), [*REFUSED, *STRICTER])
def test_refused_arguments(options, error, message):
    with pytest.raises(error, match=re.escape(message)) as raised:
        iter(data.DataLoader(**{"dataset": Squares()} | options))
    assert type(raised.value) is error


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_refused_as_in_pytorch(torch):
    # PyTorch refuses the last ones too, and leaves an unfinished iterator behind.
    for options, error, _ in REFUSED[:-1]:
        make = functools.partial(torch.utils.data.DataLoader, **{"dataset": Squares()} | options)
        if error is AssertionError:
            make = functools.partial(iter, make())
        with pytest.raises(error):
            make()


def test_names_order_and_defaults_are_those_of_pytorch(torch):
    theirs = inspect.signature(torch.utils.data.DataLoader).parameters
    ours = inspect.signature(data.DataLoader).parameters
    for name, parameter in ours.items():
        assert (parameter.default, parameter.kind) == (theirs[name].default, theirs[name].kind)
    assert set(theirs) - {"pin_memory_device", "in_order"} == set(ours)
    assert list(ours)[:13] == list(theirs)[:13]
    assert [parameter.kind for parameter in list(ours.values())[13:]] == [
        inspect.Parameter.KEYWORD_ONLY
    ] * 2


class Pair(NamedTuple):
    left: object
    right: object


CASES = {
    "ints": [1, -2, 3],
    "floats": [1.0, 0.1, 2.5],
    "bools": [True, False],
    "strings": ["a", "b"],
    "bytes": [b"a", b"b"],
    "numpy numbers": [np.float32(1), np.float32(2)],
    "numpy bools": [np.bool_(True), np.bool_(False)],
    "arrays": [np.ones((2, 3), np.float16), np.zeros((2, 3), np.float16)],
    "0-d arrays": [np.array(1, np.int32), np.array(2, np.int32)],
    "no rows": [np.ones((0, 3)), np.ones((0, 3))],
    "one sample": [np.arange(3)],
    "dicts": [{"z": 1, "a": np.ones(2)}, {"z": 2, "a": np.zeros(2)}],
    "ordered dicts": [collections.OrderedDict(z=1), collections.OrderedDict(z=2)],
    "frozen mappings": [MappingProxyType({"z": 1}), MappingProxyType({"z": 2})],
    "tuples": [(1, "a"), (2, "b")],
    "lists": [[1, 2.0], [3, 4.0]],
    "named tuples": [Pair(1, [2]), Pair(3, [4])],
    "nested": [{"x": (1, [np.arange(2)])}, {"x": (2, [np.arange(2)])}],
    "empty tuples": [(), ()],
}

UNLIKE = {
    "none": ([None], TypeError, "sample must consist of"),
    "objects": ([np.array([None])], TypeError, "an array of object"),
    "strings in an array": ([np.array(["a"])], TypeError, "an array of <U1"),
    "shapes": ([np.ones(2), np.ones(3)], RuntimeError, r"\[2\] at entry 0 and \[3\] at entry 1"),
    "lengths": ([[1], [2, 3]], RuntimeError, r"the first, 1, but the samples have \[1, 2\]"),
    "beyond int64": ([2**63], ValueError, "within int64"),
    "keys": ([{"a": 1}, {"b": 1}], KeyError, "a"),
    "nothing": ([], IndexError, "no samples"),
}


def assert_same(result, theirs, torch):
    if isinstance(theirs, torch.Tensor):
        assert_same_bits(result, theirs.numpy())
    elif isinstance(theirs, collections.abc.Mapping):
        assert type(result) is type(theirs)
        assert list(result) == list(theirs)
        for key in theirs:
            assert_same(result[key], theirs[key], torch)
    elif isinstance(theirs, list | tuple) and theirs and not isinstance(theirs[0], str | bytes):
        assert type(result) is type(theirs)
        assert len(result) == len(theirs)
        for value, expected in zip(result, theirs, strict=True):
            assert_same(value, expected, torch)
    else:
        assert result == theirs
        assert type(result) is type(theirs)


@pytest.mark.parametrize("name", CASES)
def test_collate_and_convert_are_as_in_pytorch(name, torch):
    theirs = torch.utils.data
    assert_same(data.default_collate(CASES[name]), theirs.default_collate(CASES[name]), torch)
    for sample in CASES[name]:
        assert_same(data.default_convert(sample), theirs.default_convert(sample), torch)


@pytest.mark.parametrize("name", UNLIKE)
def test_refused_samples(name):
    batch, error, message = UNLIKE[name]
    with pytest.raises(error, match=message) as raised:
        data.default_collate(batch)
    assert type(raised.value) is error


def test_samples_are_refused_as_in_pytorch(torch):
    for batch, error, _ in UNLIKE.values():
        with pytest.raises(error):
            torch.utils.data.default_collate(batch)


def test_jax_arrays_become_numpy_and_a_float_after_an_integer_is_not_cut():
    batch = data.default_collate([{"x": jnp.arange(3)}, {"x": jnp.arange(3)}])["x"]
    assert type(batch) is np.ndarray
    assert batch.tolist() == [[0, 1, 2], [0, 1, 2]]
    assert type(data.default_convert(jnp.arange(3))) is np.ndarray
    assert data.default_collate([1, 2.5]).tolist() == [1.0, 2.5]

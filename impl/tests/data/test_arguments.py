"""The arguments of a loader, against PyTorch's."""

import inspect
import re
import sys
import types

import pytest

from impl.tests.data._loaders import Squares
from impl.utils import data

pytest.importorskip("cloudpickle", reason="the extra 'data' is not installed")


class Iterable:
    def __iter__(self):
        return iter(range(3))


#: Arguments, the exception, and a part of its message. An AssertionError is raised by `iter`.
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
    "timeout without workers": ({"timeout": 1}, AssertionError, "'timeout' got 1"),
    "no prefetching": (
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
    if name == "no prefetching":
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
def test_arguments_that_pytorch_accepts(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        data.DataLoader(**{"dataset": Squares()} | options)


def test_names_order_and_defaults_are_those_of_pytorch():
    torch_data = pytest.importorskip("torch.utils.data", reason="compares with PyTorch")
    theirs = inspect.signature(torch_data.DataLoader).parameters
    ours = inspect.signature(data.DataLoader).parameters
    for name, parameter in ours.items():
        assert (parameter.default, parameter.kind) == (theirs[name].default, theirs[name].kind)
    assert set(theirs) - {"pin_memory_device", "in_order"} == set(ours)
    assert list(ours)[:13] == list(theirs)[:13]
    assert [parameter.kind for parameter in list(ours.values())[13:]] == [
        inspect.Parameter.KEYWORD_ONLY
    ] * 2


def test_without_cloudpickle_no_loader_is_made(monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(ImportError, match=r"needs cloudpickle.*samebits\[data\]"):
        data.DataLoader(Squares())

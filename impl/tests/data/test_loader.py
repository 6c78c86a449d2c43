"""The loader without workers: its batches, its epochs and its attributes."""

import itertools
import pickle

import numpy as np
import pytest

import impl
from impl.tests.data._loaders import Squares, batches, shuffled
from impl.utils import data
from impl.utils.data import _seeding

pytest.importorskip("cloudpickle", reason="the extra 'data' is not installed")


def test_some_attributes_cannot_be_set():
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
    ours = data.DataLoader(Squares(), **options)
    theirs = torch_data.DataLoader(Squares(), **options)
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
        base_seed, order = twin.draw_seed(), list(data.RandomSampler(range(10), generator=twin))
        iterator = iter(loader)
        assert iterator.state_dict()["epoch"]["base_seed"] == base_seed
        assert list(itertools.chain(*batches(iterator))) == [index * index for index in order]
    sequential = shuffled(shuffle=False)
    batches(sequential)
    twin.manual_seed(0).draw_seed()
    assert sequential.generator.get_state().tolist() == twin.get_state().tolist()


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
    states = pickle.dumps(_seeding.generator_states())
    batches(shuffled())
    assert pickle.dumps(_seeding.generator_states()) == states
    assert impl.get_rng_state().tolist() == impl.Generator(0).get_state().tolist()
    assert data.get_worker_info() is None

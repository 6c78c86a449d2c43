"""Samplers, and the seeds of epochs.

Tests: impl.utils.data._work.
"""

import numpy as np
import pytest

import impl
from impl.utils import data
from impl.utils.data import _samplers, _work

MASK = (1 << 64) - 1


def philox(counter, key):
    """Philox-4x64-10 as Salmon and others (SC 2011) define it, in Python's integers."""
    for _ in range(10):
        first, second = 0xD2E7470EE14C6C93 * counter[0], 0xCA5A826395121157 * counter[2]
        counter = [
            second >> 64 ^ counter[1] ^ key[0],
            second & MASK,
            first >> 64 ^ counter[3] ^ key[1],
            first & MASK,
        ]
        key = [key[0] + 0x9E3779B97F4A7C15 & MASK, key[1] + 0xBB67AE8584CAA73B & MASK]
    return counter


@pytest.mark.parametrize(("size", "seed", "number"), [(1, 0, 0), (10, 2**63 - 1, 0), (37, 5, 3)])
def test_a_permutation_sorts_the_words_of_philox(size, seed, number):
    words = []
    for block in range(1, -(-size // 4) + 1):
        words += philox([block, 0, 0, 0], [seed, number])
    order = sorted(range(size), key=lambda index: (words[index], index))
    assert _samplers.permutation(size, seed, number).tolist() == order


def test_equal_words_keep_their_order(monkeypatch):
    monkeypatch.setattr(_samplers, "_words", lambda size, *_: np.arange(size, dtype=np.uint64) % 2)
    assert _samplers.permutation(100, 0).tolist() == [*range(0, 100, 2), *range(1, 100, 2)]


def test_each_iteration_draws_one_order():
    generator = impl.Generator(3)
    sampler = data.RandomSampler(range(20), generator=generator)
    orders = [list(sampler), list(sampler)]
    twin = impl.Generator(3)
    assert orders == [_samplers.permutation(20, twin.draw_seed()).tolist() for _ in range(2)]
    assert orders[0] != orders[1]
    assert all(type(index) is int for index in orders[0])
    impl.manual_seed(3)  # Without a generator, the default one is used.
    assert list(data.RandomSampler(range(20))) == orders[0]


def test_more_samples_than_the_data_set_has():
    sampler = data.RandomSampler(range(4), num_samples=10, generator=impl.Generator(0))
    order = list(sampler)
    assert len(order) == len(sampler) == 10
    assert sorted(order[:4]) == sorted(order[4:8]) == [0, 1, 2, 3]
    assert order[:4] != order[4:8]


def test_with_replacement_each_index_is_a_fraction_of_a_word():
    size = 3_000_000_019
    sampler = data.RandomSampler(
        range(size), replacement=True, num_samples=50, generator=impl.Generator(0)
    )
    words = _samplers._words(50, impl.Generator(0).draw_seed(), 0).tolist()
    assert list(sampler) == [word * size >> 64 for word in words]


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("size", [0, 1, 7, 8])
def test_batches(size, drop_last):
    sampler = data.BatchSampler(data.SequentialSampler(range(size)), 4, drop_last)
    batches = list(sampler)
    expected = [list(range(first, min(first + 4, size))) for first in range(0, size, 4)]
    assert batches == [batch for batch in expected if len(batch) == 4 or not drop_last]
    assert len(sampler) == len(batches)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda library: library.RandomSampler([]), ValueError),
        (lambda library: library.RandomSampler([1], num_samples=0), ValueError),
        (lambda library: library.RandomSampler([1], num_samples=1.5), ValueError),
        (lambda library: library.RandomSampler([1], replacement=1), TypeError),
        (lambda library: library.BatchSampler([1], 0, False), ValueError),
        (lambda library: library.BatchSampler([1], True, False), ValueError),
        (lambda library: library.BatchSampler([1], 1, 1), ValueError),
    ],
)
def test_refused_as_in_pytorch(make, error, torch):
    for library in (data, torch.utils.data):
        with pytest.raises(error):
            make(library)


def test_a_generator_of_another_library_is_refused():
    with pytest.raises(TypeError, match=r"must be an impl\.Generator or None, but got Generator"):
        data.RandomSampler([1], generator=np.random.default_rng())


def test_the_words_for_numpy_are_those_of_pytorch(torch):
    theirs = torch.utils.data._utils.worker
    for base_seed, worker_id in [(0, 0), (2**63 - 1, 3), (123456789012, 1)]:
        words = theirs._generate_state(base_seed, worker_id)
        assert _work.numpy_seed(base_seed, worker_id) == words

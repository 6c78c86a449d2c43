"""The seeds of workers, against PyTorch's."""

import pytest

from impl.utils.data import _seeding


def test_the_words_for_numpy_are_those_of_pytorch():
    theirs = pytest.importorskip("torch.utils.data._utils.worker", reason="compares with PyTorch")
    for base_seed, worker_id in [(0, 0), (2**63 - 1, 3), (123456789012, 1)]:
        words = theirs._generate_state(base_seed, worker_id)
        assert _seeding.numpy_seed(base_seed, worker_id) == words

"""Distributions of indices: shape, range and skew."""

import numpy as np
import pytest

from conformance.benchmarks import indices


@pytest.mark.parametrize("name", indices.DISTRIBUTIONS)
def test_indices_are_in_range_and_repeat(name):
    found = indices.draw(name, 100, 90)
    assert found.dtype == np.int32
    assert found.shape == (90,)
    assert found.min() >= 0
    assert found.max() < 100
    np.testing.assert_array_equal(found, indices.draw(name, 100, 90))


def test_each_distribution_has_its_skew():
    def most(name):
        return np.bincount(indices.draw(name, 1000, 1000)).max()

    assert most("unique") == 1
    assert most("uniform") < 10
    # The first of 1000 destinations has a share of 1 / sum(k ** -1.1), which is 0.18.
    assert 140 < most("Zipf 1.1") < 220
    assert most("one hot") == 1000
    assert (np.diff(indices.draw("sorted", 1000, 1000)) >= 0).all()

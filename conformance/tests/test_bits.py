"""The digest of a result tells apart results that compare equal."""

import numpy as np
import pytest

from conformance import trial


@pytest.mark.parametrize(
    "other",
    [
        np.array([-0.0, 1.0], np.float32),
        np.array([0.0, 1.0], np.float64),
        np.array([[0.0, 1.0]], np.float32),
    ],
    ids=["sign of zero", "dtype", "shape"],
)
def test_results_that_compare_equal_have_other_digests(other):
    assert trial.bits(np.array([0.0, 1.0], np.float32)) != trial.bits(other)

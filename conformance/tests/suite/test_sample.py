"""A sample judges results."""

import numpy as np
import pytest

from conformance.case import Sample, samples


def test_a_wrong_value_is_not_accepted():
    (sample, *_) = samples("index_add")
    assert isinstance(sample, Sample)
    result = sample.expected(*sample.arrays)
    sample.judge("forward", result.astype(np.float32))
    result[0, 0] += 0.1
    with pytest.raises(AssertionError):
        sample.judge("forward", result.astype(np.float32))

"""A generator of random numbers for each test."""

import numpy as np
import pytest


@pytest.fixture
def rng(request):
    return np.random.default_rng(len(request.node.name))

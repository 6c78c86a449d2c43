"""The kernels of selection."""

import jax.numpy as jnp
import numpy as np
import pytest

from impl._kernels import select_kth
from impl.tests.kernels._unwritten import assert_every_element_is_written


def find(launch, kernel):
    keys = jnp.asarray(np.random.default_rng(5).integers(0, 4, (3, 1030)), jnp.int32)
    kernel(keys, keys[:, -1], launch=launch)


#: Calls of each kernel, with sizes that fill no block, and several blocks.
CALLS = {select_kth.any_position: [find], select_kth.first_position: [find]}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])

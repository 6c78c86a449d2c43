"""The kernels of scatter-accumulate.

Tests: impl._kernels._contributions.
"""

import functools

import jax.numpy as jnp
import pytest

from impl._families import reductions
from impl._kernels import scatter_accumulate
from impl.tests.kernels._unwritten import assert_every_element_is_written, floats, indices


def atomic(launch, kernel, reduction, weighted=False):
    weights = floats(2, 150) if weighted else None
    updates = floats(2, 75 if weighted else 150, 3)
    index = indices((1, 150, 1), 40)
    kernel(floats(2, 40, 3), index, updates, reduction=reduction, launch=launch, weights=weights)


def chains(launch, kernel, reduction, width):
    start = jnp.asarray([0, 3, 3, *range(4, 154)], jnp.int32)
    end = jnp.asarray([3, 3, 4, *range(5, 155)], jnp.int32)
    kernel(
        start,
        end,
        jnp.arange(160, dtype=jnp.int32)[::-1],
        floats(160, width),
        reduction=reduction,
        launch=launch,
    )


def panels(launch, kernel, shape):
    kernel(floats(*shape), floats(shape[0], shape[2]), reduction=reductions.ADD, launch=launch)


#: Calls of each kernel, with sizes that fill no block, and several blocks.
CALLS = {
    scatter_accumulate.atomic: [
        functools.partial(atomic, reduction=reductions.ADD),
        functools.partial(atomic, reduction=reductions.MUL),
        functools.partial(atomic, reduction=reductions.ADD, weighted=True),
    ],
    scatter_accumulate.fold_chains: [
        functools.partial(chains, reduction=reductions.ADD, width=1),
        functools.partial(chains, reduction=reductions.MUL, width=130),
        functools.partial(chains, reduction=reductions.ADD, width=3),
    ],
    scatter_accumulate.fold_panels: [
        functools.partial(panels, shape=(50, 3, 5)),
        functools.partial(panels, shape=(3, 5, 130)),
    ],
}


@pytest.mark.parametrize("kernel", CALLS, ids=lambda kernel: kernel.__name__)
def test_a_kernel_writes_every_element(kernel):
    assert_every_element_is_written(kernel, CALLS[kernel])

"""Elements between the elements of an array. ``portable.ops_on_eight_devices`` shards them."""

import jax
import numpy as np
import pytest

from impl._core import spread
from impl._core.jax_internals import shardings


@pytest.mark.parametrize("edges", [(0, 0), (1, 2), (-1, 3), (2, -4), (-2, -1)], ids=str)
def test_it_is_the_padding_of_jax(edges):
    x = np.arange(1, 9, dtype=np.float32).reshape(2, 4)
    found = spread.spread(x, np.float32(7), [(0, 1), edges], [2, 3])
    expected = jax.lax.pad(x, np.float32(7), [(0, 1, 1), (*edges, 2)])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("batch", "axis"), [(0, 1), (1, 0)])
def test_a_batch_may_be_sharded(batch, axis):
    rows = jax.vmap(lambda row: shardings.whole(row, (0,)), batch, batch)
    (equation,) = jax.make_jaxpr(rows)(np.ones((2, 3))).eqns
    assert equation.params["axes"] == (axis,)

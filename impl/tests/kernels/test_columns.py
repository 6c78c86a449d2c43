"""Columns of a tile, in both ways of cutting and joining them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._kernels import _columns
from impl.tests.support.bits import bits


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("shape", [(3, 8), (3, 4, 5)])
def test_both_ways_have_the_same_bits(dtype, shape):
    whole = np.random.default_rng(0).integers(-(2**31), 2**31, shape).astype(np.int32)
    part = jnp.asarray(whole.view(np.float32) if dtype != "int32" else whole).astype(dtype)
    columns = [part[:, k] for k in range(shape[1])]

    @jax.jit
    def both_ways(part, columns):
        cut = [list(cut(part)) for cut in (_columns.cut, _columns.picked)]
        return cut, [joined(columns) for joined in (_columns.joined, _columns.placed)]

    for cut, joined in zip(*both_ways(part, columns), strict=True):
        assert list(map(bits, cut)) == list(map(bits, columns))
        assert bits(joined) == bits(part)

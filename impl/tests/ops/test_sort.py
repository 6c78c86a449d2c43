"""The lowerings of sort and argsort. ``test_selection.py`` tests their values.

Tests: impl._lowerings._common, impl._lowerings.sort.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from impl._kernels.launch import Launch
from impl._lowerings import sort as sort_lowerings
from impl.tests.support.bits import assert_same_bits


def test_the_sort_of_a_cpu_is_the_one_of_other_devices():
    for dtype in (np.float32, np.int16, np.uint8):
        few = np.random.default_rng(0).integers(0, 7, (3, 200)).astype(dtype)
        keys = jnp.asarray(few.view(f"u{np.dtype(dtype).itemsize}"))
        want = np.argsort(np.asarray(keys), 1, kind="stable").astype(np.int32)
        for function in (sort_lowerings.stable_argsort, sort_lowerings.packed_argsort):
            assert_same_bits(jax.jit(function)(keys), want)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int8", "uint32", "bool"])
@pytest.mark.parametrize("descending", [False, True])
def test_a_sort_without_keys_has_the_bits_of_one_with_keys(dtype, descending):
    rng = np.random.default_rng(3)
    values = jnp.asarray(rng.integers(-4, 5, (2, 40, 3)), dtype)
    if jnp.issubdtype(values.dtype, jnp.floating):
        special = jnp.asarray([np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0], dtype)
        values = values.at[:, ::2].set(special[rng.integers(0, 6, (2, 20, 3))])
    want = sort_lowerings.sort_xla(values, descending=descending)
    got = sort_lowerings.sort_without_keys(values, descending=descending, launch=Launch())
    for one, other in zip(got, want, strict=True):
        assert_same_bits(one, other)


def test_a_sort_with_the_mode_off_is_one_operation_on_a_gpu():
    def lowered(*, mode):
        with impl.deterministic(mode, profile="complete" if mode else None):
            traced = jax.jit(lambda x: impl.sort(x, -1)).trace(jnp.ones((40, 30)))
            return traced.lower(lowering_platforms=("cuda",)).as_text()

    assert lowered(mode=False).count("stablehlo.sort") == 1
    assert "gather" not in lowered(mode=False)
    assert "gather" in lowered(mode=True)

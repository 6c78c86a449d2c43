"""Scans by operations of XLA on whole arrays: what XLA makes of them."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from impl._lowerings import scan, scan_extreme
from impl.tests.support.bits import assert_same_bits


def test_running_extremes_are_computed_once_for_their_positions():
    shape = (4, 4096, 1)
    run = jax.jit(functools.partial(scan_extreme.extreme_cpu, by="max"))
    compiled = run.lower(jax.ShapeDtypeStruct(shape, jnp.float32)).compile()
    # A scan combines each element with 8 members, by about five operations each, and the bits of a
    # word take a few more: 60 in all. It is 90 or more if bits compute extremes again.
    assert compiled.cost_analysis()["flops"] < 75 * 4 * 4096


def test_no_operation_joins_blocks_that_it_folds():
    run = jax.jit(lambda rows: scan.ordered_xla(rows[..., None], by="add")[..., 0])
    compiled = run.lower(jax.ShapeDtypeStruct((4, 4096), jnp.float32)).compile()
    # XLA would find the index of each element in its block by arithmetic.
    folds = [line for line in compiled.as_text().splitlines() if " fusion(" in line]
    assert any("f32[4,256,16]" in line.split(" fusion(")[0] for line in folds)
    assert not any("f32[4,4096" in line.split(" fusion(")[0] for line in folds if "select" in line)


@pytest.mark.parametrize("by", ["min", "max"])
@pytest.mark.parametrize("shape", [(3, 7, 1), (2, 16, 1), (2, 17, 1), (2, 257, 3), (1, 4100, 1)])
@pytest.mark.parametrize("scale", [1, 1e-39])
def test_running_extremes_are_elements_with_their_bits(by, shape, scale):
    rng = np.random.default_rng(0)
    # Small integers are often equal. On a CPU XLA takes subnormal numbers for equal.
    values = rng.integers(-3, 4, shape).astype(np.float32) * np.float32(scale)
    values[:, shape[1] // 2 :] *= -1
    values[0, 3 * shape[1] // 4, 0] = np.nan
    extremes, positions = jax.jit(functools.partial(scan_extreme.extreme_cpu, by=by))(values)
    assert_same_bits(extremes, np.take_along_axis(values, np.asarray(positions), 1))
    if scale == 1:
        want = jax.jit(functools.partial(scan_extreme.extreme_xla, by=by))(values)
        assert_same_bits(positions, want[1])

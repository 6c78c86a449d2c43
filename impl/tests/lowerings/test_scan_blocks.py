"""Scans by operations of XLA on whole arrays: what XLA makes of them."""

import functools

import jax
import jax.numpy as jnp

from impl._lowerings import scan_extreme


def test_running_extremes_are_computed_once_for_their_positions():
    shape = (4, 4096, 1)
    run = jax.jit(functools.partial(scan_extreme.extreme_cpu, by="max"))
    compiled = run.lower(jax.ShapeDtypeStruct(shape, jnp.float32)).compile()
    # Two scans combine each element with 16 members, by about four operations each. Extremes that
    # are computed again, where positions are looked for, take 80 operations more.
    assert compiled.cost_analysis()["flops"] < 160 * 4 * 4096

"""Sums, running sums, running products, scatters.

A sum is the exact one, rounded once, so that no order of its terms shows (``impl._exact.sums``).
Running products and logarithms of sums have one order (``impl._exact.running``).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
from jax import lax

from impl._core import shard_axes
from impl._core.lax_functions import filled
from impl._exact import running
from impl._exact.elementary import complex_numbers
from impl._exact.sums import reduction, windows
from impl._mode import emulation
from impl._portable import shared
from impl._portable.device_sums import sharding_rules
from impl._portable.rule import FIRST, Rule, rule
from impl._portable.rules.rounding import converted, working
from impl._run_to_run import ordered


def _sum_of_one(value: jax.Array, *, axes: Any, flushes: bool, **_: Any) -> jax.Array:
    """Returns sums along axes of length 1: the elements themselves, with 0 for -0."""
    (wide,) = working((value,), flushes=flushes)
    zero = filled(wide, 0)
    result = lax.squeeze(lax.select(lax.eq(wide, zero), zero, wide), tuple(axes))
    return converted(result, value.dtype)


_SUM_OF_ONE = Rule("sum_of_one", compute=_sum_of_one, takes=frozenset({"flushes"}))


def _psum(value: jax.Array, *, axes: Any, axis_index_groups: Any = None, **_: Any) -> jax.Array:
    dimensions, names = shard_axes.split(axes)
    return reduction.reduce_sum(
        value, dimensions, axis_names=names, axis_index_groups=axis_index_groups
    )


def _scatter_add(
    *operands: jax.Array,
    subtract: bool = False,
    dimension_numbers: Any,
    mode: Any,
    indices_are_sorted: bool,
    unique_indices: bool,
    axis_names: Sequence[Any] = (),
    **_: Any,
) -> jax.Array:
    """Adds updates, or does so in the order of a schedule of tests."""
    stand_in = emulation.current()
    seed = 0 if stand_in is None else stand_in.seed
    add = functools.partial(
        reduction.scatter_add,
        dimension_numbers=dimension_numbers,
        mode=mode,
        # A schedule permutes the updates, so sorted indices are no longer sorted.
        indices_are_sorted=indices_are_sorted and not seed,
        unique_indices=unique_indices,
        subtract=subtract,
        axis_names=axis_names,
    )
    return ordered.under(seed, add, dimension_numbers, *operands) if seed else add(*operands)


rule(
    "reduce_sum",
    compute=reduction.reduce_sum,
    of_complex=complex_numbers.reduce_sum,
    # JAX adds the gradient of a bias once more, along an axis of length 1.
    simpler=lambda shape, params: (
        _SUM_OF_ONE if all(shape[axis] == 1 for axis in params["axes"]) else None
    ),
    linear=FIRST,
    over_devices=reduction.reduce_sum,
    sharding=sharding_rules.reduce_sum,
)
rule("psum", compute=_psum, names_mesh_axes=True, sharding=sharding_rules.replicate)
rule("psum_invariant", compute=_psum, names_mesh_axes=True, sharding=sharding_rules.replicate)
rule(
    "reduce_scatter",
    compute=reduction.reduce_scatter,
    names_mesh_axes=True,
    sharding=sharding_rules.reduce_scatter,
)
rule(
    "cumsum",
    compute=reduction.cumsum,
    keeps_whole=shared.axes_of_rounds,
    linear=FIRST,
    sharding=sharding_rules.keep_lengths,
)
rule(
    "reduce_window_sum",
    compute=windows.reduce_window_sum,
    keeps_whole=shared.windowed_axes,
    linear=FIRST,
)
rule(
    "select_and_scatter_add",
    compute=windows.select_and_scatter_add,
    keeps_whole=shared.windowed_axes,
)
rule(
    "scatter-add",
    compute=_scatter_add,
    of_complex=complex_numbers.scatter_add,
    guards=shared.of_no_slice,
    linear=(0, 2),
    over_devices=_scatter_add,
    sharding=sharding_rules.scatter_add,
)
rule(
    "scatter-sub",
    compute=functools.partial(_scatter_add, subtract=True),
    guards=shared.of_no_slice,
)
# ``impl._run_to_run`` combines the products of a destination in the order of the updates.
rule("scatter-mul", by_jax="original", guards=shared.of_no_slice)
rule("reduce_prod", compute=running.reduce_prod, keeps_whole=shared.axes_of_rounds)
rule("cumprod", compute=running.cumprod, keeps_whole=shared.axes_of_rounds)
rule("cumlogsumexp", compute=running.cumlogsumexp, keeps_whole=shared.axes_of_rounds)

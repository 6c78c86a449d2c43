"""Primitives whose floats JAX lowers: exact operations, and those that it writes with others.

Exact operations move, choose or negate elements, or communicate. They round nothing, so
``spec/portable.toml`` calls them exact. ``impl._portable.device_sums`` alone reads most of their
records: how sums over the devices of a ``shard_map`` pass them.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from impl._portable import shared
from impl._portable.device_sums import sharding_rules
from impl._portable.rule import FIRST, rule

# Each result has the sharding of its operand, and terms remain terms.
for _name in ("copy", "copy_p", "name", "neg"):
    rule(_name, linear=FIRST, sharding=sharding_rules.each_operand)
for _name in ("optimization_barrier", "pvary"):
    rule(_name, linear="each", sharding=sharding_rules.each_operand)

# Choices and moves of elements.
rule("broadcast_in_dim", linear=FIRST, sharding=sharding_rules.broadcast)
rule("reshape", linear=FIRST, sharding=sharding_rules.reshape)
rule("rev", linear=FIRST, sharding=sharding_rules.keep_lengths)
rule("scatter", guards=shared.of_no_slice, linear=(0, 2))
for _name in ("scatter-max", "scatter-min"):
    rule(_name, guards=shared.of_no_slice)
# Windows of integers: the guarantee refuses floats.
rule("reduce_window", keeps_whole=shared.windowed_axes)
rule("select_n", linear=slice(1, None), sharding=sharding_rules.select)
rule("squeeze", linear=FIRST, sharding=sharding_rules.squeeze)
rule("tile", linear=FIRST, sharding=sharding_rules.keep_lengths)
rule("transpose", linear=FIRST, sharding=sharding_rules.transpose)

# Extremes of bools.
rule("reduce_and", sharding=sharding_rules.reduce_extreme)
rule("reduce_or", sharding=sharding_rules.reduce_extreme)

# Communication.
rule("all_gather", sharding=sharding_rules.replicate)
rule("all_gather_invariant", sharding=sharding_rules.replicate)

# JAX has faster lowerings of some of these for one platform, with other bits.
for _name in (
    *("bcoo_dot_general", "bcoo_dot_general_sampled", "bcoo_extract", "bcoo_fromdense"),
    *("bcoo_sort_indices", "bcoo_spdot_general", "bcoo_sum_duplicates", "bcoo_todense"),
    *("bcoo_transpose", "bcsr_dot_general", "bcsr_extract", "bcsr_fromdense", "bcsr_todense"),
    *("coo_fromdense", "coo_matmat", "coo_matvec", "coo_todense", "csr_fromdense", "csr_matmat"),
    *("csr_matvec", "csr_todense", "polynomial", "qr", "ragged_dot_general", "random_gamma"),
    "todense",
):
    rule(_name, by_jax="written")


def _leading_zeros(value: jax.Array, **_: Any) -> jax.Array:
    """Counts the leading zeros of the unsigned integers with the same bits.

    XLA folds the count of a negative constant to a negative number (jax 0.10; no upstream
    issue is known).
    """
    unsigned = lax.bitcast_convert_type(value, f"uint{8 * jnp.dtype(value.dtype).itemsize}")
    return lax.convert_element_type(lax.clz(unsigned), value.dtype)


rule("clz", compute=_leading_zeros)

"""Exact operations that JAX lowers: how sums over the devices of a ``shard_map`` pass them.

These operations move, choose or negate elements, or communicate. They round nothing, so
``spec/portable.toml`` calls them exact. ``impl._portable.device_sums`` alone reads their records.
"""

from __future__ import annotations

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
rule("scatter", linear=(0, 2), keeps_whole=shared.unequal_axes)
for _name in ("scatter-max", "scatter-min"):
    rule(_name, keeps_whole=shared.unequal_axes)
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

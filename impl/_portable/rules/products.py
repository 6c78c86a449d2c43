"""Products of matrices and convolutions: exact sums of products, rounded once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from impl._exact import arithmetic
from impl._exact.elementary import complex_numbers
from impl._exact.products import convolution, dot_general
from impl._portable.device_sums import sharding_rules
from impl._portable.rule import rule


def _dot_general(*operands: jax.Array, out_sharding: Any = None, **params: Any) -> jax.Array:
    del out_sharding  # Without a mesh, a type has no sharding.
    return dot_general.dot_general(*operands, **params)


def _convolution(
    *operands: jax.Array,
    platforms: Sequence[str],
    is_partitioned: bool,
    out_sharding: Any = None,
    **params: Any,
) -> jax.Array:
    del out_sharding
    # The libraries of devices other than a CPU may compute a convolution by a transform. XLA's
    # partitioner gives wrong values, or aborts the process, where it partitions groups of features
    # or the spatial axes of a kernel.
    by_products = is_partitioned or arithmetic.are_kept_on(platforms)
    return convolution.conv_general_dilated(
        *operands, by_products=by_products, is_partitioned=is_partitioned, **params
    )


rule(
    "dot_general",
    compute=_dot_general,
    of_complex=complex_numbers.dot_general,
    takes=frozenset({"is_partitioned"}),
    linear="either",
    over_devices=_dot_general,
    sharding=sharding_rules.dot_general,
)
rule(
    "conv_general_dilated",
    compute=_convolution,
    of_complex=complex_numbers.conv_general_dilated,
    takes=frozenset({"platforms", "is_partitioned"}),
    linear="either",
    over_devices=_convolution,
    sharding=sharding_rules.convolution,
)

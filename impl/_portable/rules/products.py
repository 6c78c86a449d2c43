"""Products and convolutions, rounded once; decompositions and Fourier transforms, in steps."""

from __future__ import annotations

import functools
from typing import Any

import jax

from impl._exact.elementary import complex_numbers
from impl._exact.linear_algebra import decompositions, fourier, rotations
from impl._exact.products import convolution, dot_general
from impl._portable import shared
from impl._portable.device_sums import sharding_rules
from impl._portable.rule import rule


def _dot_general(*operands: jax.Array, out_sharding: Any = None, **params: Any) -> jax.Array:
    del out_sharding  # Without a mesh, a type has no sharding.
    return dot_general.dot_general(*operands, **params)


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
    compute=convolution.conv_general_dilated,
    of_complex=complex_numbers.conv_general_dilated,
    takes=frozenset({"is_partitioned"}),
    linear="either",
    over_devices=convolution.conv_general_dilated,
    sharding=sharding_rules.convolution,
)


_in_steps = functools.partial(rule, keeps_whole=shared.axes_of_steps)

_in_steps("cholesky", compute=decompositions.cholesky)
_in_steps("eigh", compute=rotations.eigh, has_several_results=True)
_in_steps("geqrf", compute=decompositions.geqrf, has_several_results=True)
_in_steps("householder_product", compute=decompositions.householder_product)
_in_steps("lu", compute=decompositions.lu, has_several_results=True)
_in_steps("ormqr", compute=decompositions.ormqr)
_in_steps("svd", compute=rotations.svd, has_several_results=True)
_in_steps("triangular_solve", compute=decompositions.triangular_solve)
_in_steps("fft", compute=fourier.fft)

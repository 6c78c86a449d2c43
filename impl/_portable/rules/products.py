"""Products and convolutions, rounded once; decompositions and Fourier transforms, in steps.

XLA may compute other values where several devices share the axes that the steps of a decomposition
or a transform go through: it did so for decompositions over three axes of a mesh. So each device
gets the whole of these axes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import jax

from impl._exact.elementary import complex_numbers
from impl._exact.linear_algebra import decompositions, fourier, rotations
from impl._exact.products import convolution, dot_general
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


def _matrix(_: Mapping[str, Any]) -> int:
    return 2


def _transformed(params: Mapping[str, Any]) -> int:
    return len(params["fft_lengths"])


_of_matrix = functools.partial(rule, whole_axes=_matrix)

_of_matrix("cholesky", compute=decompositions.cholesky)
_of_matrix("eigh", compute=rotations.eigh, has_several_results=True)
_of_matrix("geqrf", compute=decompositions.geqrf, has_several_results=True)
_of_matrix("householder_product", compute=decompositions.householder_product)
_of_matrix("lu", compute=decompositions.lu, has_several_results=True)
_of_matrix("ormqr", compute=decompositions.ormqr)
_of_matrix("svd", compute=rotations.svd, has_several_results=True)
_of_matrix("triangular_solve", compute=decompositions.triangular_solve)
rule("fft", compute=fourier.fft, whole_axes=_transformed)

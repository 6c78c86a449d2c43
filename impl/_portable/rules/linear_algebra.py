"""Decompositions of matrices and Fourier transforms, each in one order of steps.

XLA may compute other values where several devices share the axes that the steps go through: it did
so for decompositions over three axes of a mesh. So each device gets the whole of these axes.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from impl._exact.linear_algebra import fourier, householder, rotations, triangular
from impl._portable.rule import rule


def _matrix(_: Mapping[str, Any]) -> int:
    return 2


def _transformed(params: Mapping[str, Any]) -> int:
    return len(params["fft_lengths"])


_of_matrix = functools.partial(rule, whole_axes=_matrix)

_of_matrix("cholesky", compute=triangular.cholesky)
_of_matrix("eigh", compute=rotations.eigh, has_several_results=True)
_of_matrix("geqrf", compute=householder.geqrf, has_several_results=True)
_of_matrix("householder_product", compute=householder.householder_product)
_of_matrix("lu", compute=triangular.lu, has_several_results=True)
_of_matrix("ormqr", compute=householder.ormqr)
_of_matrix("svd", compute=rotations.svd, has_several_results=True)
_of_matrix("triangular_solve", compute=triangular.triangular_solve)
rule("fft", compute=fourier.fft, whole_axes=_transformed)

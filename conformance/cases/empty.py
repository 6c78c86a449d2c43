"""Samples of the ops that make arrays without initial values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from conformance.cases._uninitialized import makers
from conformance.suite.sample import Sample

_TWO_KINDS = ("floating", "integer")


def samples() -> Mapping[str, Sequence[Sample]]:
    return {
        "empty": tuple(makers(lambda ns, dtype: ns.empty(3, 5, dtype=dtype), (3, 5))),
        "empty_like": tuple(
            makers(
                lambda ns, dtype: ns.empty_like(np.zeros((3, 5), dtype)), (3, 5), kinds=_TWO_KINDS
            )
        ),
        # The second dimension from the end varies fastest in memory.
        "empty_permuted": tuple(
            makers(
                lambda ns, dtype: ns.empty_permuted((2, 3, 5), (0, 2, 1), dtype=dtype),
                (2, 3, 5),
                kinds=_TWO_KINDS,
            )
        ),
        # Columns are contiguous.
        "empty_strided": tuple(
            makers(
                lambda ns, dtype: ns.empty_strided((3, 5), (1, 3), dtype=dtype),
                (3, 5),
                kinds=_TWO_KINDS,
            )
        ),
        "new_empty_strided": tuple(
            makers(
                lambda ns, dtype: ns.new_empty_strided(np.zeros((2,), dtype), (3, 5), (1, 3)),
                (3, 5),
                kinds=_TWO_KINDS,
            )
        ),
        # The dtype comes from an array of another shape.
        "new_empty": tuple(
            makers(
                lambda ns, dtype: ns.new_empty(np.zeros((2,), dtype), (3, 5)),
                (3, 5),
                kinds=_TWO_KINDS,
            )
        ),
    }

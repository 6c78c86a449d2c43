"""The core primitives over which the ops are composed.

All work on arrays of three axes, [outer, n, inner], of which the middle one is computed along.
"""

from impl._primitives import (
    scatter_accumulate_derivatives as scatter_accumulate_derivatives,  # registers derivatives
)

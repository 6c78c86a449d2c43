"""The core primitives over which the ops are composed.

All work on arrays of three axes, [outer, n, inner], of which the middle one is computed along.
"""

from impl.primitives import scatter_jvps as scatter_jvps  # registers derivatives

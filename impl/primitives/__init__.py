"""The core primitives over which the ops are composed.

All work on arrays of three axes, [outer, n, inner], of which the middle one is computed along.
"""

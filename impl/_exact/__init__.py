"""Arithmetic whose results do not depend on an order: the same bits on every device.

Sums and products are computed on a grid, where they are exact, and are rounded once. Elementary
functions are computed in float64 and rounded once. The functions of this package take and return
arrays of ``jax.lax``, and must be called inside ``arithmetic.wide()``, since they use 64 bits
whatever ``jax_enable_x64`` is.
"""

"""Arithmetic whose results do not depend on an order: the same bits on every device.

A sum is exact, rounded once: float64 adds parts of its terms without error. A sum of products is
approximated in float64, and where the error may change the rounding, it is added without error.
Elementary functions are computed in float64 and rounded once. The functions of this package take
and return arrays of ``jax.lax``. Call them inside ``arithmetic.wide()``, since they use 64 bits
also where ``jax_enable_x64`` is off.

- ``nearest``: the rounding of sums, and their addition without error, on the ``devices`` that
  share their terms.
- ``sums`` of axes, of scatters and of windows; ``products`` of matrices, and convolutions;
  ``running`` products and logarithms of sums of exponentials.
- ``unrounded``: sums that are rounded later, after a loop or in another program.
- ``linear_algebra``: solutions, decompositions and Fourier transforms.
- ``elementary``: functions of one or two numbers.
- ``arithmetic``: operations that all of these share.
"""

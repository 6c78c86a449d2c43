"""Sums that no order changes: of axes, of scatters, and of windows.

Each function says how float64 adds parts of its terms, and ``impl._exact.nearest.exact_sum`` has
the parts.

- ``reduction`` adds along axes, over devices, a few arrays element by element, and by index.
- ``windows`` adds over windows, and ``pool_choices`` sends the gradient of a max pool to its
  elements.
"""

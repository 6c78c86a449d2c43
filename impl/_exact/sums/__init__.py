"""Sums that no order changes: of axes, of scatters, and of windows.

- ``grid`` rounds terms to the multiples of one step, and adds their digits.
- ``reduction`` adds along axes and over devices.
- ``scatter`` adds by index, in any form; ``scatter_rows`` is its form for one GPU, and
  ``scatter_sorted`` its form for wide rows.
- ``terms`` adds a few arrays, element by element.
- ``windows`` adds over windows, and ``pool_choices`` sends the gradient of a max pool to its
  elements.
"""

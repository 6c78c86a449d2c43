"""Sums that no order changes: of axes, of scatters, and of windows.

- ``reduction`` adds along axes and over devices.
- ``scatter`` adds by index, in any form; ``scatter_rows`` is its form for one device, and
  ``scatter_sorted`` its form for wide rows. ``measures`` are sums and maxima that bound the error
  of a sum, and ``measured_scatter`` scatters them, and parts of the terms where they leave a doubt.
  ``scatter_by_parts`` scatters the parts of all terms, on a CPU.
- ``terms`` adds a few arrays, element by element.
- ``windows`` adds over windows, and ``pool_choices`` sends the gradient of a max pool to its
  elements.
"""

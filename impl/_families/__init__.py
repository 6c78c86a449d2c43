"""Modules that the primitive, the lowerings and the kernels of one family of ops share.

- Scatters: ``reductions`` (the operations that combine), ``scatter_keys`` (contributions sorted by
  destination), ``replicas`` (of destinations that most updates meet in).
- Windows: ``window_table`` (the positions that windows read), ``convolution_window`` (the
  geometry of a convolution).
- Sorts: ``sort_keys`` (integers that sort as floats do).
"""

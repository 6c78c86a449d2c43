"""Modules that the primitive, the lowerings and the kernels of one family of ops share.

- Scatters: ``reductions`` (the operations that combine), ``scatter_keys`` (contributions sorted by
  destination), ``replicas`` (of destinations that most updates meet in).
"""

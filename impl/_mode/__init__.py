"""The mode: its state, and its effect on a call and on compilation.

- ``modes`` has the state and the functions that read and set it; ``scopes`` begins and ends a
  scope; ``variables`` reads the environment; ``checks`` checks arguments.
- ``decide`` asks the rows about one call, and ``sums`` has the dtype in which ops add.
  ``emulation`` lets a CPU take the paths of a GPU.
- ``compilation`` and ``flags`` give XLA the options of the mode, for one program and for a
  process. ``switches`` has the settings of ``impl.backends``.
"""

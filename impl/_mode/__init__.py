"""The mode: its state, and its effect on a call and on compilation.

- ``modes`` has the state and the functions that read and set it, also from the environment;
  ``scopes`` begins and ends a scope.
- ``decide`` asks the rows about one call, and ``alert`` raises or warns where a program is lowered.
  ``emulation`` lets a CPU take the paths of a GPU.
- ``compilation`` and ``flags`` give XLA the options of the mode, for one program and for a
  process. ``switches`` has the settings of ``impl.backends``.
"""

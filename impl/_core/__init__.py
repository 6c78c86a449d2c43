"""Functions that several rooms of this package share.

- ``arguments`` and ``number_arguments`` check arguments and raise PyTorch's exceptions;
  ``few_integers`` is a fast test of the range of indices. ``axes`` folds the axes of PyTorch's
  shapes into three.
- ``eager`` traces and compiles a call outside of ``jit`` once for each signature, of which
  ``eager_keys`` makes the key.
- ``numerics`` has arithmetic that XLA must not change; ``lax_functions`` has functions of
  ``jax.numpy`` in fewer equations; ``native_scatter`` has twins of JAX's scatters, which no rule
  of ours lowers.
- ``shard_axes`` and ``symbolic_sizes`` are about types inside ``shard_map``, and about sizes that
  a program leaves open. ``jax_internals`` has every use of a private part of JAX.
- ``threefry`` draws the keys. ``settings_module``, ``later`` and ``project`` help modules that
  users import: settings as attributes, imports at the first use, and the address of the tracker.
"""

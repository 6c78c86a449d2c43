"""Functions that several rooms of ``impl`` share, and that know of no op.

A module that serves one room only stands in that room (a test asserts this), and nothing here
imports another room but ``impl._jax``, so that every room may import this one.

======================  ============================================================================
Module                  Contents
======================  ============================================================================
``arguments``           checks of arguments, with PyTorch's exceptions; ``few_integers`` has a fast
                        test of indices
``axes``                axes as [outer, n, inner], indices along the middle one, and spread
                        elements
``contexts``            user contexts of JAX, which are made when ``impl`` is imported
``eager``               calls outside of ``jit``: compiled once for each signature
``float_order``         integers in the order of floats, and keys of sorts
``lax_functions``       functions of ``jax.numpy`` in fewer equations
``modules``             names that are imported when first used, and settings as attributes
``numerics``            arithmetic that XLA must not change: seals, quotients, square roots
``ordered_primitives``  JAX's primitives that the mode orders
``shard_axes``          the types of values inside ``shard_map``, and the devices that share sums
======================  ============================================================================
"""

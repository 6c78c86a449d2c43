"""The settings of scopes that are part of the key of every trace.

JAX adds each to the keys when ``jax.make_user_context`` makes it, and then traces all programs of
the process again. So they are made when ``impl`` is imported, not by the modules that read them,
which are imported at their first use.
"""

from __future__ import annotations

import jax

#: Whether the device keeps subnormals, which ``impl._exact.arithmetic`` then drops.
keeps_subnormals = jax.make_user_context(True)
#: The function that computes products in place of a library; None for a library.
replacement = jax.make_user_context(None)
#: The number of devices that XLA may partition a program of the engine ``native`` over; 0 outside.
devices = jax.make_user_context(0)
#: The engine that a scope asks for; None for the one of the device.
engine = jax.make_user_context(None)
#: Whether the rules for JAX's primitives look at the mode.
switch = jax.make_user_context(True)

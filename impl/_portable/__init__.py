"""The guarantee ``portable`` for JAX's own primitives: how each is lowered, or refused by name.

- ``register`` replaces JAX's lowering rules; ``lower`` lowers an equation by its record in
  ``rules``, whose fields ``rule`` explains. ``classes`` finds the class of an equation in the
  spec.
- ``refusal`` raises for an equation without a path; ``unknown`` judges primitives of other
  libraries.
- ``pins`` has derivatives that must not depend on the release of JAX.
- ``device_sums`` joins the sums of devices with the sums of each device. ``shared`` moves floats
  between devices as integers.
- ``entries`` is about a portable scope in another program, and ``exported`` about ``jax.export``.
"""

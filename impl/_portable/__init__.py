"""The guarantee ``portable`` for JAX's own primitives: how each is lowered, or refused by name."""

"""The primitives of this project: what JAX has none for.

- ``alert``: raises or warns when it is lowered for a platform that the alert names;
  ``alert_not_deterministic`` is the public function that puts one into the op of a user.
- ``uninitialized``: arrays without initial values, or filled with a known value.
"""

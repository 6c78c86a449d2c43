"""Fixtures for the tests of conformance."""

# It sets what Equinox reads when some test imports that.
from impl.tests._state import restored_state as restored_state

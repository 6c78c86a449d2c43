"""Fixtures for the tests of conformance."""

from impl.tests._state import restored_state as restored_state

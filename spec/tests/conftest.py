"""Fixtures for the tests of spec."""

from spec.tests._state import restored_state as restored_state

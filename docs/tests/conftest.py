"""Fixtures for the tests of the site and of its example."""

from impl.tests._state import restored_state as restored_state

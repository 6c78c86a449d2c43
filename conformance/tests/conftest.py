"""Fixtures for the tests of conformance."""

# It sets the variable that Equinox reads when a test imports Equinox.
from conformance import programs as programs
from impl.tests._state import restored_state as restored_state
from impl.tests.conftest import portable as portable
from impl.tests.conftest import rng as rng
from impl.tests.support.backend import pytest_runtest_setup as pytest_runtest_setup

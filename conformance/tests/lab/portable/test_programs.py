"""A program that nobody rewrote learns the same bits on one device and on eight, on every JAX."""

import os

import pytest

from conformance.lab.portable import programs, test_settings


def test_every_program_has_a_digest():
    assert set(test_settings.DIGESTS) == set(programs.PROGRAMS)


def test_a_program_on_eight_devices_has_the_digest_of_all():
    test_settings.test_digest("recurrent", 8, 2, "")


def test_a_process_that_fails_and_other_bits_are_found(monkeypatch):
    monkeypatch.setitem(os.environ, "XLA_FLAGS", "--no_such_flag")
    with pytest.raises(AssertionError, match="no_such_flag"):
        test_settings.test_digest("recurrent", 8, 2, "")
    done = test_settings.subprocess.CompletedProcess([], 0, "jax 0.10.2\nrecurrent 33\n")
    monkeypatch.setattr(test_settings.subprocess, "run", lambda *_, **__: done)
    with pytest.raises(AssertionError, match="33"):
        test_settings.test_digest("recurrent", 8, 2, "eager")

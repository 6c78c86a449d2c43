"""The environment variables that turn the mode on."""

import os
import subprocess
import sys

import pytest

import impl
from impl._mode import modes

ON = modes.Mode(enabled=True)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, modes.Mode()),
        ({"MODE": ""}, modes.Mode()),
        ({"MODE": "on"}, ON),
        ({"MODE": "1"}, ON),
        ({"MODE": "warn"}, ON._replace(warn_only=True)),
        ({"MODE": "off", "GUARANTEE": "portable"}, modes.Mode(guarantee="portable")),
        ({"MODE": "0"}, modes.Mode()),
        ({"GUARANTEE": "portable"}, ON._replace(guarantee="portable")),
        ({"PROFILE": "complete", "GUARANTEE": "run_to_run"}, ON._replace(profile="complete")),
    ],
)
def test_the_variables_are_the_arguments_of_the_call(values, expected, monkeypatch):
    for name, value in values.items():
        monkeypatch.setenv(f"SAMEBITS_{name}", value)
    modes.turn_on_by_variables()
    assert modes.current() == expected


@pytest.mark.parametrize("name", ["MODE", "GUARANTEE", "PROFILE"])
def test_another_value_is_refused(name, monkeypatch):
    monkeypatch.setenv(f"SAMEBITS_{name}", "portabel")
    message = f"the environment variable SAMEBITS_{name} is 'portabel'; allowed: '"
    with pytest.raises(ValueError, match=message):
        modes.turn_on_by_variables()
    assert modes.current() == modes.Mode()


def test_the_import_reads_the_variables():
    program = "import impl, os; print(impl.get_deterministic_guarantee(), os.environ['XLA_FLAGS'])"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        check=False,
        env={**os.environ, "XLA_FLAGS": "", "SAMEBITS_GUARANTEE": "portable"},
        text=True,
        timeout=120,
    )
    with impl.deterministic():
        assert done.stdout.split() == ["portable", *impl.xla_flags().split()], done.stderr

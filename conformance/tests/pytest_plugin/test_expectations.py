"""A run of plain JAX, which has no mode: it fails, and expectations of it are strict."""

import re

import jax
import pytest

from conformance.reporting import expectations, report
from conformance.reporting.expectations import Expectation
from impl.tests.support import processes

pytestmark = pytest.mark.once

PLAIN = "conformance.tests._plain"
#: The entries: a known fault, a fault that does not occur, an id that means no test, a fault of
#: another JAX, and two missing ops of which one exists.
KNOWN = (
    Expectation(("test_raise[R0059-*",), "fail", "There is no mode."),
    Expectation(("test_off[*-cumsum-forward-cpu-*-floating]",), "fail", "It passes."),
    Expectation(("R9999",), "fail", "No row has this id."),
    Expectation(("test_warn_only[R0059-*",), "fail", "An old release.", versions={"jax": "<0.2"}),
    Expectation(("bincount", "gather"), "missing", "The one is, the other is not."),
)


def run_of_plain_jax(folder):
    """Runs a few rows and returns the output and the report."""
    file, made = folder / "known.toml", folder / "report.json"
    expectations.write(file, KNOWN)
    words = (
        "R0001 and floating or R0059 or off and cumsum and floating or bincount-forward"
        " or means or exists and (gather or bincount)"
    )
    options = ["--expectations", str(file), "--report", str(made), "-k", words, "-n0", "-rA"]
    done = processes.run("-m", "conformance", "run", "--namespace", PLAIN, *options)
    return done, report.read(made)


def test_plain_jax_fails_and_expectations_are_strict(tmp_path):
    done, made = run_of_plain_jax(tmp_path)
    lines = re.findall(r"^([A-Z]+) \S*::(test_\w+\[.*?\])(?: - .*)?$", done.stdout, re.MULTILINE)
    outcomes = {name: outcome for outcome, name in lines}
    assert done.returncode == 1, done.stdout + done.stderr

    def of(start):
        return {outcome for name, outcome in outcomes.items() if name.startswith(start)}

    # It lacks a deterministic path, and alerts.
    assert of("test_no_race[R0001-index_add") == {"FAILED"}
    assert of("test_warn_only[R0059") == {"FAILED"}
    # A known fault, one that does not occur, and an id that means no test.
    assert of("test_raise[R0059") == {"XFAIL"}
    assert of("test_off[unlisted-cumsum-forward-cpu-torch-2.12-floating]") == {"FAILED"}
    assert "[XPASS(strict)] It passes." in done.stdout
    # Each failure of a cell names the command that repeats it. An expected failure does not.
    again = f"again: python -m conformance run --device cpu --profile .* --namespace {PLAIN} "
    failed = [name for name in outcomes if outcomes[name] == "FAILED"]
    count = sum(1 for name in failed if re.search("-c(pu|uda)-", name))
    assert len(re.findall(again, done.stdout)) == count > 0
    assert of("test_id_means_something[R9999]") == {"FAILED"}
    assert of("test_id_means_something[test_raise[R0059") == {"PASSED"}
    assert not of("test_id_means_something[test_warn_only")
    assert of("test_op_exists[bincount]") == {"PASSED"}
    assert of("test_op_exists[gather]") == {"FAILED"}
    assert "slowest 10 durations" in done.stdout
    # The report states an expected failure with its reason.
    details = {r.detail for r in made.records if r.check == "raise"}
    assert details == {"expected: There is no mode."}
    assert (made.environment["namespace"], made.environment["jax"]) == (PLAIN, jax.__version__)

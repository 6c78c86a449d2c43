"""The command ``python -m conformance run``: options that it refuses, and its report."""

import json
import subprocess
import sys

import jax
import pytest

from conformance import __main__ as command


def test_a_backend_without_rows_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    assert command.main(["run"]) == command.BROKEN
    assert "devices: RuntimeError: JAX computes on tpu here" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "cuda"], "a device that impl does not see here"),
        (["--report", "/nowhere/x.json"], "there is no folder /nowhere"),
        (["--expectations", "/nowhere/x.toml"], "there is no such file"),
    ],
)
def test_an_option_that_keeps_the_suite_from_running_is_refused(arguments, message, capsys):
    if jax.default_backend() != "cpu":
        pytest.skip("it needs a machine without a GPU")
    assert command.main(["run", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.once
def test_a_run_writes_a_report_with_the_outcome_of_each_check(tmp_path):
    file = tmp_path / "report.json"
    arguments = ["run", "--profile", "torch-2.12", "--report", str(file), "-k", "R0059 and rows"]
    done = subprocess.run(
        [sys.executable, "-m", "conformance", *arguments, "-n0"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(file.read_text())
    assert report["environment"]["jax"] == jax.__version__
    checks = {(record["row"], record["check"], record["outcome"]) for record in report["records"]}
    assert checks == {("R0059", check, "passed") for check in ("off", "raise", "warn only")}

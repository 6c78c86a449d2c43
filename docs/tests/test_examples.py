"""Tests of the example: every process gives the same weights, and without the mode they differ."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import impl

for module in ("optax", "sklearn"):
    pytest.importorskip(module, reason="the example needs it; `nox -s tests-3.11` has it")

EXAMPLE = Path(__file__).parents[1] / "examples" / "digits.py"
SMALL = ("--images", "50", "--batch-size", "25", "--epochs", "1")
TINY = ("--images", "80", "--batch-size", "10", "--epochs", "1", "--workers", "0")


def weights(text: str) -> list[str]:
    """Returns the fingerprints that the example printed."""
    return re.findall(r"^epoch \d+: .* weights ([0-9a-f]{64})$", text, re.MULTILINE)


def test_two_processes_print_one_fingerprint() -> None:
    children = [
        subprocess.Popen(
            [sys.executable, EXAMPLE, *SMALL],
            # NPROC is the number of threads that XLA computes with on a CPU.
            env={**os.environ, "PYTHONHASHSEED": str(number), "NPROC": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (1, 4)
    ]
    # Both processes end before the first assertion, so that none outlives the test.
    outputs = [child.communicate(timeout=600) for child in children]
    fingerprints = []
    for child, (out, err) in zip(children, outputs, strict=True):
        assert child.returncode == 0, err
        fingerprints += weights(out)
    assert len(fingerprints) == 2
    assert len(set(fingerprints)) == 1


@pytest.mark.parametrize(("mode", "changes"), [("off", True), ("on", False)])
def test_other_orders_change_the_fingerprint_only_without_the_mode(
    mode: str, changes: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    module_spec = importlib.util.spec_from_file_location("digits", EXAMPLE)
    assert module_spec is not None
    assert module_spec.loader is not None
    digits = importlib.util.module_from_spec(module_spec)
    module_spec.loader.exec_module(digits)
    try:
        for seed in ("0", "2"):
            digits.main([*TINY, "--mode", mode, "--schedule", seed])
    finally:
        impl.use_deterministic_algorithms(False)
    fingerprints = weights(capsys.readouterr().out)
    assert len(fingerprints) == 2
    assert (len(set(fingerprints)) > 1) == changes

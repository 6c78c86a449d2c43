"""The example's claim, in small: the same weights in every process; and that it can fail."""

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
SMALL = ("--images", "100", "--batch-size", "25", "--epochs", "1")
TINY = ("--images", "40", "--batch-size", "10", "--epochs", "1", "--workers", "0")


def weights(text: str) -> list[str]:
    """The fingerprints that the example printed."""
    return re.findall(r"^epoch \d+: .* weights ([0-9a-f]{64})$", text, re.MULTILINE)


def test_two_processes_print_one_fingerprint() -> None:
    # As users run it, whatever the tests compile with.
    inherited = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    children = [
        subprocess.Popen(
            [sys.executable, EXAMPLE, *SMALL],
            # NPROC is the number of threads that XLA computes with on a CPU.
            env={**inherited, "PYTHONHASHSEED": str(number), "NPROC": str(number)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in (1, 4)
    ]
    found = []
    for child in children:
        out, err = child.communicate(timeout=600)
        assert child.returncode == 0, err
        found += weights(out)
    assert len(found) == 2
    assert len(set(found)) == 1


@pytest.mark.parametrize(("mode", "different"), [("off", 2), ("on", 1)])
def test_other_orders_change_the_fingerprint_only_without_the_mode(
    mode: str, different: int, capsys: pytest.CaptureFixture[str]
) -> None:
    loaded = importlib.util.spec_from_file_location("digits", EXAMPLE)
    assert loaded is not None
    assert loaded.loader is not None
    digits = importlib.util.module_from_spec(loaded)
    loaded.loader.exec_module(digits)
    try:
        for seed in ("0", "1"):
            digits.main([*TINY, "--mode", mode, "--schedule", seed])
    finally:
        impl.use_deterministic_algorithms(False)
    found = weights(capsys.readouterr().out)
    assert len(found) == 2
    assert len(set(found)) == different

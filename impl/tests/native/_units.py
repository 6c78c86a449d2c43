"""Runs tests of the engine ``native`` again with another vector unit."""

import os
import subprocess
import sys

import pytest

#: The vector units of x86; another processor takes the first one for each.
UNITS = ("baseline", "avx2", "avx512")


def run_with_unit(unit, file, names):
    """Runs the tests of a file whose names match, in a process that has another vector unit.

    Args:
        unit: One of ``UNITS``. A processor that lacks it takes a narrower one.
        file: The file.
        names: An expression of ``pytest -k``.
    """
    if "SAMEBITS_VECTORS" in os.environ:
        pytest.skip("this process has a vector unit by choice")
    options = ("-q", "-x", "-p", "no:randomly", "-n", "0", "-k", names, file)
    command = [sys.executable, "-m", "pytest", *options]
    environment = {**os.environ, "SAMEBITS_VECTORS": unit}
    subprocess.run(command, env=environment, check=True, timeout=600)

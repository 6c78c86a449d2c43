"""Tests that need eight devices, which run in a process of their own."""

import os
import subprocess
import sys
from pathlib import Path

import impl


def run(*files, marks=""):
    """Runs the tests of files where the CPU stands for eight devices; each of them has to pass.

    Args:
        files: The files.
        marks: The marks of the tests to run, as an expression; of all if it is empty.
    """
    # The number of devices cannot change once JAX has been used, so the tests have a process.
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:xdist"]
    options += ["-m", marks]
    process = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *map(str, files)],
        capture_output=True,
        check=False,
        cwd=Path(impl.__file__).parents[1],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags.strip()},
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stdout + process.stderr

"""Whole programs, as newcomers bring them, keep their bits on eight devices by one added line.

They are a language model that is trained and sampled, a convolutional net over augmented images, a
graph net with a differential equation, and a policy that plays, learns and logs a spectrum.
"""

import functools
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import impl
from conformance import programs

MISSING = [name for name in programs.REQUIREMENTS if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"`nox -s tests-3.11` has {MISSING}")

SCRIPT = Path(__file__).with_name("programs_on_devices.py")
ROOT = SCRIPT.parents[2]


@functools.cache
def digests(devices, guarantee):
    """The digest of each program's results, by name."""
    own = f"--xla_force_host_platform_device_count={devices}"
    environment = {
        **os.environ,
        "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {own}",
        "PYTHONPATH": str(ROOT),
    }
    command = [sys.executable, str(SCRIPT), guarantee, *programs.WHOLE]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


def test_one_device_and_eight_give_the_same_bits_by_one_line():
    found = digests(1, "portable")
    assert found.keys() == set(programs.WHOLE)
    assert digests(8, "portable") == found


@pytest.mark.parametrize("name", programs.WHOLE)
def test_the_audit_finds_nothing_to_do(name):
    step, args = programs.build(name)
    with impl.deterministic(guarantee="portable"):
        assert impl.audit(step)(*args).ok
    with impl.deterministic():
        report = impl.audit(impl.jit(step))(*args)
    # Nobody knows whether the singular values of a GPU's library repeat.
    assert {finding.primitive for finding in report.select("unknown")} <= {"lax.linalg.svd"}
    assert not (*report.select("varies"), *report.select("raises"))

"""A program that nobody rewrote learns the same bits on one device and on eight, on every JAX."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from conformance import portable_programs

FILE = Path(portable_programs.__file__).with_suffix(".toml")
DIGESTS = tomllib.loads(FILE.read_text(encoding="utf-8"))


def test_every_program_has_a_digest():
    assert set(DIGESTS) == set(portable_programs.PROGRAMS)


def test_a_program_on_eight_devices_has_the_digest_of_all():
    flags = "--xla_force_host_platform_device_count=8"
    run = subprocess.run(
        [sys.executable, "-m", "conformance.portable_programs", "recurrent"],
        env={**os.environ, "XLA_FLAGS": flags},
        check=True,
        capture_output=True,
        text=True,
    )
    assert run.stdout.split()[1].startswith(DIGESTS["recurrent"])

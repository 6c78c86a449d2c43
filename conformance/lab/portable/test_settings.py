"""A program that nobody rewrote learns the same bits in every setting: ``programs.toml`` has them.

``python -m pytest conformance/lab/portable/test_settings.py`` trains each program of ``programs``
in a process for each setting. Another interpreter runs it with its own release of JAX.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

from conformance.lab.portable import programs

_ROOT = Path(__file__).parents[3]
#: The first digits of what each program learns.
DIGESTS: Mapping[str, str] = tomllib.loads(
    Path(__file__).with_name("programs.toml").read_text("utf-8")
)
_NOT_OPTIMISED = "--xla_backend_optimization_level=0"
#: The devices for which a CPU stands, the threads that XLA computes with, and further options of
#: XLA; or "eager", where the equations run one by one.
SETTINGS = (
    *((devices, 2, "") for devices in (1, 2, 4, 8)),
    *((devices, 1, "") for devices in (1, 8)),
    *((devices, 2, _NOT_OPTIMISED) for devices in (1, 8)),
    (1, 2, "eager"),
)


@pytest.mark.parametrize(("devices", "threads", "option"), SETTINGS)
@pytest.mark.parametrize("name", DIGESTS)
def test_digest(name: str, devices: int, threads: int, option: str) -> None:
    """A program has its digest in a setting."""
    if name not in programs.installed():
        pytest.skip(f"a library of {name} is not installed")
    eager = option == "eager"
    shared = f"--xla_force_host_platform_device_count={devices}"
    flags = [os.environ.get("XLA_FLAGS", ""), shared, *([] if eager else [option])]
    own = {"JAX_PLATFORMS": "cpu", "NPROC": str(threads), "XLA_FLAGS": " ".join(flags).strip()}
    module = "conformance.lab.portable.programs"
    done = subprocess.run(  # It runs a module of this package.
        [sys.executable, "-m", module, name, *["--eager"] * eager],
        env={**os.environ, **own},
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    digests = dict(line.split() for line in done.stdout.splitlines())
    assert digests[name].startswith(DIGESTS[name])

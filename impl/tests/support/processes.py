"""Python in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import impl

ROOT = Path(impl.__file__).parents[1]


def run(*arguments, folder=ROOT, devices=None, **variables):
    """Runs Python, where a CPU may stand for some devices, and returns its status and its output.

    Variables are further ones of the environment.
    """
    environment = {**os.environ, **variables}
    if devices is not None:
        flags = (
            f"{environment.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={devices}"
        )
        environment |= {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags.strip()}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        check=False,
        cwd=folder,
        env=environment,
        text=True,
        timeout=600,
    )

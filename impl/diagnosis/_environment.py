"""Reads the settings of a process: environment variables, flags of XLA, settings of JAX."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping

from impl._core import jax_internals
from impl._mode import flags
from impl.diagnosis._settings import ProcessSettings

#: A program that starts XLA.
_PROGRAM = "import jax; jax.devices()"


def settings(environment: Mapping[str, str] | None = None) -> ProcessSettings:
    """Returns the settings of this process."""
    environment = os.environ if environment is None else environment
    return ProcessSettings(flags.parsed(environment.get("XLA_FLAGS", "")), environment, _config())


def _config() -> dict[str, str]:
    # The value of an enumeration, such as a precision, is in its attribute ``value``.
    values = sorted(jax_internals.settings().items())
    return {name: str(getattr(value, "value", value)) for name, value in values}


def refusal(timeout: float = 60) -> str | None:
    """Returns XLA's message about a flag in XLA_FLAGS that it refuses; None if it accepts all.

    XLA aborts the process if it does not know a flag. Another process therefore starts it, on the
    CPU.
    """
    if not os.environ.get("XLA_FLAGS", "").strip() or not sys.executable:
        return None
    try:
        done = subprocess.run(  # noqa: S603  # This interpreter runs the program above.
            [sys.executable, "-c", _PROGRAM],
            capture_output=True,
            check=False,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
            text=True,
            timeout=timeout,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    logged = re.findall(r"[\w.]+\.cc:\d+\] (.+)", done.stderr)
    lines = logged or done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
    return str(lines[0])

"""Reading what a process was started with: variables, XLA's flags, and JAX's settings."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import jax

from impl.diagnosis._settings import Found

_STARTS = "import jax; jax.devices()"


def found(environment: Mapping[str, str] | None = None) -> Found:
    """The settings of this process."""
    environment = os.environ if environment is None else environment
    return Found(flags(environment.get("XLA_FLAGS", "")), environment, _config())


def _config() -> dict[str, str]:
    values: Mapping[str, object] = jax.config.values
    # By attribute where there is one: it knows of scopes such as jax.enable_x64.
    now = {name: getattr(jax.config, name, value) for name, value in values.items()}
    return {name: str(getattr(value, "value", value)) for name, value in sorted(now.items())}


def flags(text: str) -> dict[str, str]:
    """The flags in XLA_FLAGS, or in the file that it names, as XLA takes them apart.

    A flag without a value is ``true``; of one given twice, the last counts.
    """
    if text.strip() and not text.lstrip().startswith("--"):
        try:
            text = Path(text).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return {}  # XLA ends the process: `refusal` says so
    try:
        words = shlex.split(text)
    except ValueError:  # a quotation that does not end
        words = text.split()
    pairs = (word[2:].partition("=") for word in words if word.startswith("--"))
    return {name: value if given else "true" for name, given, value in pairs}


def refusal(timeout: float = 60) -> str | None:
    """What XLA says of XLA_FLAGS where it would end the process over them; None if it takes them.

    XLA aborts as it starts where it does not know a flag, so another process tries, on the CPU.
    """
    if not os.environ.get("XLA_FLAGS", "").strip() or not sys.executable:
        return None
    try:
        done = subprocess.run(  # noqa: S603  # this interpreter, with the code above
            [sys.executable, "-c", _STARTS],
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
    said = re.findall(r"[\w.]+\.cc:\d+\] (.+)", done.stderr)
    lines = said or done.stderr.strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
    return str(lines[0])

"""The environment of a run in words, which a log has so that a comparison can name what differs."""

from __future__ import annotations

import os
import platform
from importlib import metadata

import jax

from impl._core import jax_internals
from impl._mode import modes

_DISTRIBUTIONS = ("jax", "jaxlib", "numpy", "samebits")


def environment() -> dict[str, str]:
    """Returns the versions, the devices and the mode of this process; starts JAX's backend."""
    mode = modes.current()
    words = f"on, {mode.guarantee}, profile {mode.profile}" if mode.enabled else "off"
    devices = jax.devices()
    kinds = ", ".join(sorted({device.device_kind for device in devices}))
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in _DISTRIBUTIONS},
        "machine": platform.machine(),
        "devices": f"{len(devices)} {jax.default_backend()}: {kinds}",
        "processes": str(jax.process_count()),
        "mode": words + (", warn_only" if mode.enabled and mode.warn_only else ""),
        "x64": str(jax_internals.enables_x64()),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
    }


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"

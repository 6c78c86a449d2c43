"""Section 6 of the demo: one training on one device and on eight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

import jax

from impl._demo.report import Report


def settings() -> list[tuple[str, int]]:
    """Returns platforms and numbers of devices; a GPU or TPU of this machine is one of them."""
    own = jax.devices()[0].platform
    return [("cpu", 1), ("cpu", 8), *([(own, 1)] if own != "cpu" else [])]


def trainings(where: Sequence[tuple[str, int]]) -> list[dict[str, str]]:
    """Trains in a process for each setting, all at once, and returns their fingerprints.

    Raises:
        RuntimeError: A process failed.
    """
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "impl._demo.train_on_devices"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(os.environ, platform, devices),
            text=True,
        )
        for platform, devices in where
    ]
    ended = [(child, *child.communicate()) for child in children]
    for child, _, errors in ended:
        if child.returncode != 0:
            raise RuntimeError(f"training failed in a process of its own:\n{errors}")
    return [json.loads(output) for _, output, _ in ended]


def environment(current: Mapping[str, str], platform: str, devices: int) -> dict[str, str]:
    """Returns the environment of a process that computes on a platform with some devices."""
    if platform != "cpu":  # JAX starts with the device of this process by itself.
        return {**current, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    # XLA compiles for most of the time of a process, and less at this level.
    flags = (
        current.get("XLA_FLAGS", ""),
        f"--xla_force_host_platform_device_count={devices}",
        "--xla_backend_optimization_level=0",
    )
    return {**current, "XLA_FLAGS": " ".join(flags).strip(), "JAX_PLATFORMS": "cpu"}


def show(report: Report) -> None:
    where = settings()
    report.section("6. One training on one device and on eight")
    report.text(
        "The batch is cut over the devices, so each adds up a part of every gradient. Plain JAX "
        'rounds the parts. With impl.use_deterministic_algorithms(True, guarantee="portable") '
        "the sums are exact, so that it does not matter how they are cut."
    )
    found = trainings(where)
    for (platform, devices), each in zip(where, found, strict=True):
        place = f"{devices} {platform}{'s' if devices > 1 else ''}"
        report.line(
            f"    {place:<7} plain {each['plain'][:16]}…  portable {each['portable'][:16]}…"
        )
    plain, portable = ({each[name] for each in found} for name in ("plain", "portable"))
    report.claim("plain JAX gives several results", holds=len(plain) > 1)
    report.claim("the guarantee portable gives one", holds=len(portable) == 1)

"""The machine and the versions that a benchmark ran with."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

from conformance.benchmarks.case import device, memory_of_device, on_cpu, threads
from conformance.benchmarks.torch_peer import TorchPeer
from conformance.reporting import report


def environment(torch: TorchPeer | None) -> dict[str, str]:
    """Returns what names the machine and the versions.

    Args:
        torch: PyTorch; None without it.
    """
    name = _cpu_model() if on_cpu() else device().device_kind
    found = report.environment({"platform": device().platform, "device": name})
    return {
        **found,
        "torch": "not installed" if torch is None else str(torch.torch.__version__),
        "threads": str(threads()),
        "memory": f"{memory_of_device() / 2**30:.0f} GiB",
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        "load": f"{os.getloadavg()[0]:.1f}",
    }


def line(environment: Mapping[str, str]) -> str:
    """Returns the machine and the versions that matter, in one line."""
    packages = ("jax", "jaxlib", "torch")
    device_name = environment["device"]
    if environment["platform"] == "cpu":
        device_name += f", {environment['threads']} threads"
    versions = [f"{name} {environment[name]}" for name in packages]
    load = f"load at the start {environment['load']}"
    return ", ".join([device_name, f"Python {environment['python']}", *versions, load])


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    model = re.search(r"model name\s*: (.*)", text)
    return model.group(1) if model else platform.machine()

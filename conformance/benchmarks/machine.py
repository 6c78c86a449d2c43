"""The machine and the versions that a benchmark ran with."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp

from conformance.reporting import report


def device() -> jax.Device:
    """Returns the device that JAX computes on, also while a program is traced."""
    with jax.ensure_compile_time_eval():
        (chosen,) = jnp.zeros(()).devices()
    return chosen


def on_cpu() -> bool:
    """Returns whether JAX computes on a CPU. The benchmarks ask nothing else about the device."""
    is_cpu: bool = device().platform == "cpu"
    return is_cpu


def threads() -> int:
    """Returns the number of threads that JAX uses on a CPU."""
    return len(os.sched_getaffinity(0))


def memory_of_device() -> int:
    """Returns the bytes of memory of the device."""
    if on_cpu():
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(device().memory_stats()["bytes_limit"])


def environment(torch: str | None) -> dict[str, str]:
    """Returns what names the machine and the versions.

    Args:
        torch: The release of PyTorch; None without it.
    """
    name = _cpu_model() if on_cpu() else device().device_kind
    found = report.environment({"platform": device().platform, "device": name})
    return {
        **found,
        "torch": torch or "not installed",
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

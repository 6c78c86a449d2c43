"""Timing of several sides in turns, so that what else the machine does meets them all."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

from conformance.reporting.report import version

#: Runs once, and returns when the result is there.
Side = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Measured:
    """One case, measured.

    Attributes:
        case: What tells it from others, by column.
        ms: Median milliseconds by side.
        kept: Bytes that the ordered program keeps beside its arguments and its result.
        result: Bytes of its result.
    """

    case: Mapping[str, str]
    ms: Mapping[str, float]
    kept: int
    result: int


def measured(
    case: Mapping[str, str], sides: Mapping[str, Side], ordered: Any, *, rounds: int
) -> Measured:
    """Times the sides; ``ordered`` is the compiled program whose memory is reported."""
    memory = ordered.memory_analysis()
    times = median_ms(sides, rounds=rounds)
    return Measured(case, times, memory.temp_size_in_bytes, memory.output_size_in_bytes)


def run(compiled: Callable[..., Any], *arrays: Any) -> Side:
    """A side that runs a compiled JAX program."""
    return lambda: jax.block_until_ready(compiled(*arrays))


def has_torch() -> bool:
    """Whether PyTorch is there to compare with."""
    return importlib.util.find_spec("torch") is not None


def torch_on_this_device() -> tuple[Any, str]:
    """PyTorch in its deterministic mode with as many threads as JAX has, and its device."""
    import torch  # noqa: PLC0415  # optional: a peer to compare with

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.use_deterministic_algorithms(True)
    return torch, "cpu" if jax.default_backend() == "cpu" else "cuda"


def median_ms(sides: Mapping[str, Side], *, rounds: int, warmups: int = 2) -> dict[str, float]:
    """The median time of each side, in milliseconds, over rounds in which each runs once."""
    for _ in range(warmups):
        for side in sides.values():
            side()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            start = time.perf_counter()
            side()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(taken) for name, taken in times.items()}


def machine() -> str:
    """The device that the sides run on, and the versions that matter, in a line."""
    device = jax.devices()[0]
    name = device.device_kind
    if device.platform == "cpu":
        name = f"{_cpu_model()}, {len(os.sched_getaffinity(0))} threads"
    packages = [f"{package} {version(package)}" for package in ("jax", "jaxlib", "torch")]
    return ", ".join([name, f"Python {platform.python_version()}", *packages])


def _cpu_model() -> str:
    facts = Path("/proc/cpuinfo")
    text = facts.read_text(encoding="utf-8") if facts.exists() else ""
    found = re.search(r"model name\s*: (.*)", text)
    return found.group(1) if found else platform.machine()

"""Timing of several sides in turns, so that a disturbance of the machine affects them alike."""

from __future__ import annotations

import dataclasses
import os
import platform
import re
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

from conformance.report import version

#: A function that runs a program once, and returns when the result is complete.
Side = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Measurement:
    """The measurement of one case.

    Attributes:
        case: The description of the case, by column of the table.
        ms: The median milliseconds of each side.
        temporary_bytes: The memory of the ordered program beside its arguments and its result.
        result_bytes: The memory of its result.
    """

    case: Mapping[str, str]
    ms: Mapping[str, float]
    temporary_bytes: int
    result_bytes: int


def measure_case(
    case: Mapping[str, str], sides: Mapping[str, Side], ordered: Any, *, rounds: int
) -> Measurement:
    """Times the sides of a case.

    Args:
        case: The description of the case, by column of the table.
        sides: The sides, by name.
        ordered: The compiled program whose memory is reported.
        rounds: The number of rounds.
    """
    memory = ordered.memory_analysis()
    times = median_ms(sides, rounds=rounds)
    return Measurement(case, times, memory.temp_size_in_bytes, memory.output_size_in_bytes)


def run(compiled: Callable[..., Any], *arrays: Any) -> Side:
    """Returns a side that runs a compiled JAX program."""
    return lambda: jax.block_until_ready(compiled(*arrays))


def on_cpu() -> bool:
    """Returns whether JAX computes on a CPU. The benchmarks ask nothing else about the device."""
    return jax.default_backend() == "cpu"


def threads() -> int:
    """Returns the number of threads that JAX uses on a CPU."""
    return len(os.sched_getaffinity(0))


def median_ms(sides: Mapping[str, Side], *, rounds: int, warmups: int = 2) -> dict[str, float]:
    """Returns the median milliseconds of each side over rounds in which each side runs once."""
    for _ in range(warmups):
        for side in sides.values():
            side()
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            start = time.perf_counter()
            side()
            times[name].append((time.perf_counter() - start) * 1e3)
    return {name: statistics.median(milliseconds) for name, milliseconds in times.items()}


def machine() -> str:
    """Returns the name of the device and the versions that matter, in one line."""
    name = f"{_cpu_model()}, {threads()} threads" if on_cpu() else jax.devices()[0].device_kind
    packages = [f"{package} {version(package)}" for package in ("jax", "jaxlib", "torch")]
    return ", ".join([name, f"Python {platform.python_version()}", *packages])


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    model = re.search(r"model name\s*: (.*)", text)
    return model.group(1) if model else platform.machine()

"""``python -m impl demo``: shows the mode at work.

Each section of the demo prints claims and checks them. The command fails if one does not hold.

``sums``, ``alerts``, ``schedules``, ``runs`` and ``devices`` hold the sections, and ``report``
prints them. ``train_once`` and ``train_on_devices`` are the programs of other processes, with the
loop in ``training`` and the net in ``model``.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Sequence
from typing import TextIO

import jax

from impl._core import jax_internals
from impl._demo import alerts, devices, runs, schedules, sums
from impl._demo.report import Report

SECTIONS: tuple[Callable[[Report], None], ...] = (
    sums.show,
    alerts.show,
    schedules.show,
    runs.show_processes,
    runs.show_schedules,
    devices.show,
)


def run(out: TextIO, sections: Sequence[Callable[[Report], None]] = SECTIONS) -> int:
    """Runs the sections one after the other.

    Returns:
        The exit status: 0 if all claims hold, 1 otherwise.
    """
    started = time.perf_counter()
    _prepare()
    report = Report(out)
    device = jax.devices()[0]
    report.line(
        f"samebits on jax {jax.__version__}, Python {platform.python_version()}, "
        f"device: {device.platform} ({device.device_kind})"
    )
    for show in sections:
        show(report)
    report.line()
    seconds = f"{time.perf_counter() - started:.0f} s"
    if report.failed:
        report.line(f"{len(report.failed)} of {report.claims} claims do not hold ({seconds}):")
        for claim in report.failed:
            report.line(f"    {claim}")
        return 1
    report.line(f"All {report.claims} claims hold ({seconds}).")
    return 0


def _prepare() -> None:
    # Without this, this process would take most of the GPU's memory, which section 4's processes
    # need.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    # Interpreted kernels run on the CPU. With JAX_PLATFORMS=cuda, JAX would not offer it.
    platforms = jax_internals.platforms()
    if platforms and "cpu" not in platforms.split(","):
        jax.config.update("jax_platforms", f"{platforms},cpu")

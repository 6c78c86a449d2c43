"""The command ``python -m conformance bench``."""

from __future__ import annotations

import argparse
import importlib
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import jax

from conformance.benchmarks import FAMILIES, families, harness, machine, tables
from conformance.benchmarks.case import Setting
from conformance.benchmarks.machine import memory_of_device
from conformance.benchmarks.measurements import Family, Report, now
from conformance.benchmarks.torch_peer import torch_peer


def bench(options: argparse.Namespace) -> int:
    """Measures, prints tables, and returns the exit status: 1 if a family fails."""
    problem = _problem(options)
    if problem:
        print(f"python -m conformance bench: {problem}", file=sys.stderr)
        return 2
    command = f"python -m conformance bench {_arguments(options)}".strip()
    measured: dict[str, Family] = {}
    without: dict[str, str] = {}
    failed = False
    with _on(options.device), torch_peer() as torch:
        setting = Setting(options.times, options.quick, torch, memory_of_device())
        environment = machine.environment(None if torch is None else str(torch.torch.__version__))
        for name in options.family or FAMILIES:
            start_time = time.perf_counter()
            try:
                family = importlib.import_module(f"{families.__name__}.{name}")
                measured[name] = _measure(name, family, setting)
            except ModuleNotFoundError as error:
                without[name] = f"it needs {error.name}, which is not installed"
                print(f"\n{name}: not measured: {without[name]}", file=sys.stderr)
            except Exception as error:  # noqa: BLE001  # the other families are measured all the same
                without[name] = f"{type(error).__name__}: {error}"
                print(f"\n{name}: FAILED: {without[name]}", file=sys.stderr)
                failed = True
            report = Report(now(), environment, command, measured, without)
            if name in measured:
                print(f"\n{tables.table(report, report.families[name])}", flush=True)
                print(f"{name}: {time.perf_counter() - start_time:.0f} s", file=sys.stderr)
            if options.report is not None:
                report.write(options.report)
    return 1 if failed else 0


def _measure(name: str, family: ModuleType, setting: Setting) -> Family:
    return Family(
        title=family.TITLE,
        base=family.BASE,
        ours=family.OURS,
        remarks=tuple(getattr(family, "REMARKS", ())),
        measurements=tuple(harness.measure(name, family, setting)),
    )


@contextmanager
def _on(device: str | None) -> Iterator[None]:
    """Makes a device the one that JAX computes on."""
    if device is None:
        yield
        return
    with jax.default_device(jax.devices(device)[0]):
        yield


def _problem(options: argparse.Namespace) -> str | None:
    if options.times < 1:
        return f"--times {options.times}: it must be 1 or more"
    if options.report is not None and not options.report.absolute().parent.is_dir():
        return f"--report {options.report}: there is no folder {options.report.absolute().parent}"
    if options.device is not None:
        try:
            jax.devices(options.device)
        except RuntimeError:
            here = jax.default_backend()
            return f"--device {options.device}: JAX sees no such device here; it computes on {here}"
    return None


def _arguments(options: argparse.Namespace) -> str:
    words = [word for name in options.family or () for word in ("--family", name)]
    words += ["--device", options.device] if options.device else []
    words += ["--quick"] if options.quick else []
    words += ["--times", str(options.times)] if options.times > 1 else []
    words += ["--report", options.report.name] if options.report else []
    return shlex.join(words)

"""The command ``python -m conformance bench``."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import multiprocessing
import shlex
import sys
import time
from concurrent.futures import ProcessPoolExecutor

import jax

from conformance.benchmarks import FAMILIES, families, measurements
from conformance.benchmarks.engine import Benchmark, Setting
from conformance.benchmarks.measurements import Family, Report
from conformance.benchmarks.torch_peer import torch_peer


def bench(options: argparse.Namespace) -> int:
    """Measures, prints tables, and returns the exit status: 1 if a family fails."""
    if options.report is not None and not options.report.absolute().parent.is_dir():
        problem = (
            f"--report {options.report}: there is no folder {options.report.absolute().parent}"
        )
        print(f"python -m conformance bench: {problem}", file=sys.stderr)
        return 2
    command = f"python -m conformance bench {_arguments(options)}".strip()
    measured: dict[str, Family] = {}
    without: dict[str, str] = {}
    failed = False
    with torch_peer() as torch:
        setting = Setting(options.quick, torch, measurements.memory_of_device())
        environment = measurements.environment(
            None if torch is None else str(torch.torch.__version__)
        )
        for name in options.family or FAMILIES:
            start_time = time.perf_counter()
            try:
                measured[name] = _measured(name, setting)
            except ModuleNotFoundError as error:
                without[name] = f"it needs {error.name}, which is not installed"
                print(f"\n{name}: not measured: {without[name]}", file=sys.stderr)
            except Exception as error:  # noqa: BLE001  # the other families are measured all the same
                without[name] = f"{type(error).__name__}: {error}"
                print(f"\n{name}: FAILED: {without[name]}", file=sys.stderr)
                failed = True
            report = Report(measurements.now(), environment, command, measured, without)
            if name in measured:
                print(f"\n{measurements.table(report, measured[name])}", flush=True)
                print(f"{name}: {time.perf_counter() - start_time:.0f} s", file=sys.stderr)
            if options.report is not None:
                report.write(options.report)
    return 1 if failed else 0


def benchmark(name: str) -> Benchmark:
    """Returns a family of cases."""
    module = importlib.import_module(f"{families.__name__}.{FAMILIES[name]}")
    chosen: Benchmark = module.FAMILIES[name]
    return chosen


def _measured(name: str, setting: Setting) -> Family:
    """Returns the measurements of a family, which also may be about several devices of a CPU."""
    family = benchmark(name)
    measured = family.measured(setting)
    if family.devices <= jax.device_count() or not measurements.on_cpu():
        return measured
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        setting = dataclasses.replace(setting, torch=None)
        more = pool.submit(_on_devices, family, setting).result().measurements
    return dataclasses.replace(measured, measurements=measured.measurements + more)


def _on_devices(family: Benchmark, setting: Setting) -> Family:
    """Returns the measurements of a family, in a process whose CPU has several devices."""
    jax.config.update("jax_num_cpu_devices", family.devices)
    return family.measured(setting)


def _arguments(options: argparse.Namespace) -> str:
    words = [word for name in options.family or () for word in ("--family", name)]
    words += ["--quick"] if options.quick else []
    words += ["--report", options.report.name] if options.report else []
    return shlex.join(words)

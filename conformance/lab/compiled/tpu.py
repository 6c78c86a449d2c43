"""Compiles portable programs for TPUs, which are not needed, and reads the optimised programs.

``python -m conformance.lab.compiled.tpu`` needs libtpu, which ``nox -s tpu_compile`` installs. The
code of a portable program may have no float64, no product of matrices of floats, no sum of floats
that an order of additions rounds, and no function that a TPU approximates: a TPU has the engine
``integers`` (``spec/engines.toml``). Each program is compiled in a process of its own, with a
limit of its time, so that a slow one stops no other. ``--report FILE`` writes a report, in which
records of other programs by the same releases stay. A program that takes longer than the limit, or
more memory than the machine has, for which Linux kills it, is ``skipped``. No program runs, so this
tells nothing of the bits that a TPU computes.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.experimental import topologies

import impl
from conformance.lab.compiled import PROGRAM_CHECK, programs
from conformance.lab.readers import tpu as reader
from conformance.reporting import report
from conformance.reporting.report import Outcome, Record

_PLATFORM = "tpu"
#: The topology of which one chip is taken, by the name of the chip.
CHIPS = {"v5e": "v5e:2x2", "v6e": "v6e:2x2"}
#: libtpu asks a TPU and its metadata for these unless they are set.
_ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
}
_CHILD = (
    *(sys.executable, "-c"),
    "import sys; from conformance.lab.compiled import tpu; tpu.print_record(*sys.argv[1:])",
)
#: The characters of an error that a report keeps.
_LENGTH = 300


def compiled(
    name: str, chip: str, limit: float, command: Sequence[str] = _CHILD
) -> tuple[Outcome, str]:
    """Returns the outcome and the details of a program, compiled in a process of its own.

    The process is ended after ``limit`` seconds.
    """
    try:
        run = subprocess.run(  # noqa: S603  # It runs a module of this package.
            [*command, name, chip],
            env={**os.environ, **_ENVIRONMENT},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "skipped", f"it had not compiled after {limit:g} s"
    if run.returncode == -signal.SIGKILL:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        return "skipped", f"it needs more memory than {memory / 2**30:.0f} GiB"
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"exit status {run.returncode}"]
        return "failed", lines[-1][:_LENGTH]
    found = json.loads(run.stdout.splitlines()[-1])
    return ("failed", "; ".join(found["faults"])) if found["faults"] else ("passed", found["code"])


def print_record(name: str, chip: str) -> None:
    """Prints the record of a program as one line of JSON, in the process that compiles it."""
    print(json.dumps(record(name, chip)))


def record(name: str, chip: str) -> dict[str, Any]:
    """Returns the faults of the code of a program under ``portable``, and its figures in words."""
    topology = topologies.get_topology_desc(platform=_PLATFORM, topology_name=CHIPS[chip])
    sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
    function, arguments = programs.PROGRAMS[name]()
    shapes = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), arguments
    )
    with impl.deterministic(False):
        plain = _compiled(function, shapes)
    with impl.deterministic(guarantee="portable"):
        portable = _compiled(function, shapes)
    faults = reader.faults(_text(portable))
    # A check that finds nothing in a program of floats would find nothing anywhere.
    if not reader.faults(_text(plain)) and not reader.arithmetic(_text(plain)):
        faults.append("the check finds no float in the plain program")
    others = list(_figures(plain).values())
    figures = [f"{number:,} {key}" for key, number in _figures(portable).items()]
    figures[0] += f" ({others[0]:,} with the mode off)"
    figures[1:] = [f"{own} ({n:,})" for own, n in zip(figures[1:], others[1:], strict=True)]
    return {"faults": faults, "code": ", ".join(figures)}


def _compiled(function: Callable[..., Any], shapes: Sequence[Any]) -> Any:
    traced = jax.jit(function).trace(*shapes)
    return traced.lower(lowering_platforms=(_PLATFORM,)).compile()


def _text(compiled: Any) -> str:
    """Returns the optimised program, with the numbers of long constants."""
    # ``as_text()`` shortens the constants. The module has no types.
    options = importlib.import_module("jaxlib._hlo").HloPrintOptions()
    options.print_large_constants = True
    (module,) = compiled.runtime_executable().hlo_modules()
    text: str = module.to_string(options)
    return text


def _figures(compiled: Any) -> dict[str, int]:
    return {
        **reader.counts(_text(compiled)),
        "bytes accessed": int(compiled.cost_analysis()["bytes accessed"]),
        "bytes of code": compiled.memory_analysis().generated_code_size_in_bytes,
    }


def _record(name: str, chip: str, outcome: Outcome, seconds: float, detail: str) -> Record:
    fields = {"op": name, "device": "tpu", "lowering": chip, "check": PROGRAM_CHECK}
    fields |= {"behaviour": "deterministic", "evidence": "compiled", "detail": detail}
    return report.from_property(fields, outcome, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compiles programs, and prints their figures and faults; returns the exit status."""
    parser = argparse.ArgumentParser(description="Compiles portable programs for TPUs.")
    parser.add_argument("--only", nargs="+", choices=tuple(programs.PROGRAMS), metavar="NAME")
    parser.add_argument("--chips", nargs="+", choices=tuple(CHIPS), default=list(CHIPS))
    parser.add_argument("--limit", type=float, default=600, help="seconds for each program")
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="write a report")
    options = parser.parse_args(arguments)
    libtpu = report.version("libtpu")
    if libtpu == "not installed":
        print("It needs libtpu, which `nox -s tpu_compile` installs, or pip install 'jax[tpu]'.")
        return 2
    hardware = {"platform": "cpu", "device": "cpu"}
    environment = {**report.environment(hardware), "namespace": impl.__name__, "libtpu": libtpu}
    outcomes = set()
    for name in options.only or programs.PROGRAMS:
        for chip in options.chips:
            start = time.perf_counter()
            outcome, detail = compiled(name, chip, options.limit)
            outcomes.add(outcome)
            print(f"{outcome.upper()} {name} for {chip}: {detail}", flush=True)
            if options.report:
                record = _record(name, chip, outcome, time.perf_counter() - start, detail)
                report.update(options.report, environment, [record])
    return int(outcomes != {"passed"})


if __name__ == "__main__":
    sys.exit(main())

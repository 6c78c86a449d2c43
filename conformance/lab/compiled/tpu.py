"""Compiles portable programs for TPUs, which are not needed, and reads the optimised programs.

``python -m conformance.lab.compiled.tpu`` needs libtpu, which ``nox -s tpu_compile`` installs. The
code of a portable program may have no float64, no product of matrices of floats, no sum of floats
that an order of additions rounds, and no function that a TPU approximates: a TPU has the engine
``integers`` (``spec/engines.toml``). Each program is compiled in a process of its own, with a
limit of its time, so that a slow one stops no other. ``--report FILE`` keeps the records, with
the records of other programs that the file has of the same releases::

    "product": {
     "v5e": {"status": "compiled", "plain": {"operations": 9, ...}, ..., "faults": []},
     "v6e": {"status": "time limit", "limit": 600}
    }

A program that no run has tried is ``not tried``. Linux kills a process that needs more memory than
the machine has: such a record is ``{"status": "out of memory", "gib": 24}``. No program runs, so
this tells nothing of the bits that a TPU computes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from conformance.lab.compiled import small_programs
from conformance.lab.compiled.costs import records
from conformance.lab.compiled.tpu_child import CHIPS
from conformance.reporting import report

#: The report of which the site draws a table.
DATA = Path(__file__).with_name("tpu.json")
NOT_TRIED = "not tried"
#: libtpu asks a TPU and its metadata for these unless they are set.
_ENVIRONMENT = {
    "JAX_PLATFORMS": "cpu",
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
}
_CHILD = (sys.executable, "-m", "conformance.lab.compiled.tpu_child")
#: The characters of an error that a report keeps.
_LENGTH = 300


def compiled(name: str, chip: str, limit: float, command: Sequence[str] = _CHILD) -> dict[str, Any]:
    """Returns the record of a program, compiled in a process of its own.

    Args:
        name: One of ``small_programs.PROGRAMS``.
        chip: One of ``tpu_child.CHIPS``.
        limit: The seconds after which the process is ended.
        command: The start of the command of the process.
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
        return {"status": "time limit", "limit": limit}
    if run.returncode == -signal.SIGKILL:
        return {"status": "out of memory", "gib": round(_memory() / 2**30)}
    if run.returncode:
        lines = run.stderr.strip().splitlines() or [f"exit status {run.returncode}"]
        return {"status": "failed", "error": lines[-1][:_LENGTH]}
    return {"status": "compiled", **json.loads(run.stdout.splitlines()[-1])}


def _memory() -> int:
    """Returns the bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def about() -> dict[str, str]:
    """Returns the releases that programs are compiled with."""
    return {"jax": jax.__version__, "libtpu": report.version("libtpu")}


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Returns the records of a report by program and chip; none if it has other releases."""
    known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    is_same = {key: known.get(key) for key in about()} == about()
    cases: dict[str, dict[str, Any]] = known["cases"] if is_same else {}
    return cases


def write(path: Path, cases: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes a report with an entry for each program and chip."""
    every = {
        name: {chip: cases.get(name, {}).get(chip, {"status": NOT_TRIED}) for chip in CHIPS}
        for name in small_programs.PROGRAMS
    }
    path.write_text(records.text_of({**about(), "cases": every}), encoding="utf-8")


def line(name: str, chip: str, record: Mapping[str, Any]) -> str:
    """Returns a record in one line."""
    if record["status"] != "compiled":
        return f"{name} for {chip}: {record['status']} {record.get('error', '')}".rstrip()
    plain, portable = record["plain"], record["portable"]
    figures = ", ".join(f"{portable[key]:,} {key} ({plain[key]:,} plain)" for key in portable)
    return f"{name} for {chip}: {figures}; {len(record['faults'])} faults"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compiles programs, and prints their figures and faults; returns the exit status."""
    parser = argparse.ArgumentParser(description="Compiles portable programs for TPUs.")
    parser.add_argument("--only", nargs="+", choices=tuple(small_programs.PROGRAMS), metavar="NAME")
    parser.add_argument("--chips", nargs="+", choices=tuple(CHIPS), default=list(CHIPS))
    parser.add_argument("--limit", type=float, default=600, help="seconds for each program")
    parser.add_argument("--report", type=Path, metavar="FILE", help="keep the records")
    options = parser.parse_args(arguments)
    if report.version("libtpu") == "not installed":
        print("It needs libtpu, which `nox -s tpu_compile` installs, or pip install 'jax[tpu]'.")
        return 2
    cases = read(options.report) if options.report else {}
    is_right = True
    for name in options.only or small_programs.PROGRAMS:
        for chip in options.chips:
            record = compiled(name, chip, options.limit)
            print(line(name, chip, record), flush=True)
            for fault in record.get("faults", ()):
                print(f"FAILED {name} for {chip}: {fault}", flush=True)
            is_right = is_right and record["status"] == "compiled" and not record["faults"]
            cases.setdefault(name, {})[chip] = record
            if options.report:
                write(options.report, cases)
    return int(not is_right)


if __name__ == "__main__":
    sys.exit(main())

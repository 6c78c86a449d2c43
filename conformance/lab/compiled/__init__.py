"""Programs compiled to machine code for GPUs that are absent: ``python -m conformance compile``.

A lowered program shows what XLA receives, and not what XLA makes of it. Here XLA compiles the
program of each row for a named GPU. The checks read the optimised program and the kernels' PTX.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from spec import gpus
from spec.engines import DEFAULT, engine_of

#: The device of the spec that every target belongs to.
DEVICE = "cuda"
_ENGINES = {name: engine_of(DEVICE, capability=gpus.capability(name)) for name in gpus.NAMES}
#: The GPUs for which every row is compiled: their engine of ``portable`` is float64. One of each
#: generation suffices, since programs without an engine differ by generation alone.
TARGETS = tuple(name for name, engine in _ENGINES.items() if engine == DEFAULT)
#: The GPUs for which whole programs are compiled: one with much float64, and all with little.
PROGRAM_TARGETS = ("h200", *(name for name in gpus.NAMES if name not in TARGETS))


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "--target",
        action="append",
        choices=gpus.NAMES,
        help="a GPU to compile for; may be given again; default: all",
    )
    parser.add_argument(
        "-k",
        dest="words",
        action="append",
        default=[],
        metavar="NAME",
        help="only programs with this in their name: R0001, program-sum; may be given again",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE.json",
        help="write a report; records of other programs stay in it",
    )
    parser.add_argument(
        "-n",
        dest="processes",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="how many processes compile; default: one for each core",
    )


def run(options: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    from conformance.lab.compiled import compile_command  # noqa: PLC0415  # it imports JAX

    return compile_command.main(options)

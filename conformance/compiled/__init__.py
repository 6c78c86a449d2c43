"""Programs compiled to machine code for GPUs that are not there: ``python -m conformance compile``.

What a row's program is lowered to says what XLA was given, and not what it made of it. Here XLA
compiles it for a named GPU, and what is read is the optimised program and the kernels' PTX.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

#: What can be compiled for; each has a description in ``targets``.
TARGETS = ("a100", "h100", "h200", "b200")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "--target",
        action="append",
        choices=TARGETS,
        help="a GPU to compile for; may be given again; default: all",
    )
    parser.add_argument(
        "-k",
        dest="words",
        action="append",
        default=[],
        metavar="NAME",
        help="only what has this in its name, as R0001, index_add or kernel-; may be given again",
    )
    parser.add_argument(
        "-n",
        dest="processes",
        type=int,
        default=os.cpu_count() or 1,
        metavar="N",
        help="how many processes compile; default: one for each core",
    )
    parser.add_argument("--report", type=Path, metavar="FILE.json", help="write a report")


def run(options: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    from conformance.compiled import command  # noqa: PLC0415  # other commands need no JAX

    return command.main(options)

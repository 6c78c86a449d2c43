"""The cost of each ordered program by its compiled code: ``python -m conformance costs``.

A case is a call at sizes as in a benchmark, with a budget. The command compiles it for a GPU that
is absent, with the mode on, with the mode off, and as plain JAX, and counts launches and bytes.
"""

from __future__ import annotations

import argparse

from conformance.lab.compiled import TARGETS, add_processes


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "-k",
        dest="words",
        action="append",
        default=[],
        metavar="WORD",
        help="only cases with this in their name, as index_add or index_add-100k; may be given "
        "again",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument(
        "--explain",
        action="append",
        default=[],
        metavar="WORD",
        help="print each launch of the cases with this in their name; may be given again",
    )
    parser.add_argument(
        "--write",
        action="store_true",
        help="write costs.json; with -k the other cases stay as they are in the file",
    )
    parser.add_argument("--target", choices=TARGETS, default="h200", help="default: h200")
    add_processes(parser)


def run(options: argparse.Namespace) -> int:
    """Runs the command and returns its exit status."""
    from conformance.lab.compiled.costs import command  # noqa: PLC0415  # it imports JAX

    return command.main(options)

"""The command line of impl: ``demo``, ``doctor`` and ``audit`` after ``python -m impl``."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import runpy
import shutil
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes the buffered output as it exits, which would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print("python -m impl: the reader of the output went away before its end", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m impl", description="Deterministic operations for JAX."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="show the mode at work, in under a minute")
    demo.set_defaults(run=_demo)
    doctor = commands.add_parser("doctor", help="show what here can change bits, and what to do")
    doctor.add_argument("--json", action="store_true", help="as data: see diagnosis/schema.json")
    doctor.add_argument(
        "--strict",
        action="store_true",
        help="exit with status 1 if anything varies that has a remedy",
    )
    doctor.add_argument(
        "--after",
        metavar="FILE",
        type=_file,
        help="run this Python file first, and report on what it leaves set: the mode, seeds",
    )
    doctor.set_defaults(run=_doctor)
    audit = commands.add_parser("audit", help="list what can vary from run to run in a program")
    audit.add_argument(
        "program",
        metavar="FILE.py:NAME",
        type=_program,
        help="NAME() in this Python file returns the pair of a function and its arguments",
    )
    audit.add_argument("--device", default="cuda", help="the device to judge for (cuda)")
    audit.add_argument(
        "--level",
        default="program",
        help="program (default) reads equations, compiled what XLA makes for the device at hand",
    )
    audit.add_argument("--json", action="store_true", help="as data")
    audit.set_defaults(run=_audit)
    return parser


def _demo(_: argparse.Namespace) -> int:
    from impl._demo import run  # noqa: PLC0415  # The other commands do not need it.

    return run(sys.stdout)


def _doctor(options: argparse.Namespace) -> int:
    from impl import diagnosis  # noqa: PLC0415  # As above.

    if options.after is not None:
        _run(options.after)
    report = diagnosis.doctor()
    if options.json:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        print(report.text(shutil.get_terminal_size((100, 24)).columns))
        if options.after is None:
            print("The mode and the seeds are a new process's: --after FILE runs your file first.")
    return 1 if options.strict and report.varying else 0


def _audit(options: argparse.Namespace) -> int:
    from impl import audit  # noqa: PLC0415  # As above.

    file, name = options.program
    try:
        names = _run(file, run_name="__audit__")
        if not callable(names.get(name)):
            return _failed(f"{file} has no function {name!r}")
        with contextlib.redirect_stdout(sys.stderr):
            program = names[name]()
        if not (isinstance(program, tuple) and len(program) == 2 and callable(program[0])):
            return _failed(f"{name}() in {file} has to return (function, arguments)")
        function, args = program
        with contextlib.redirect_stdout(sys.stderr):
            report = audit(function, device=options.device, level=options.level)(*args)
    except Exception as error:  # noqa: BLE001  # Status 1 is for findings.
        traceback.print_exception(error)
        return _failed(f"{name}() in {file} could not be audited: {type(error).__name__}")
    if options.json:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        print(report.text(shutil.get_terminal_size((100, 24)).columns))
    return 0 if report.ok else 1


def _failed(message: str) -> int:
    print(f"python -m impl audit: {message}", file=sys.stderr)
    return 2


def _program(text: str) -> tuple[Path, str]:
    file, colon, name = text.rpartition(":")
    if not colon or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"{text!r} is not FILE.py:NAME")
    return _file(file), name


def _file(text: str) -> Path:
    if not Path(text).is_file():
        raise argparse.ArgumentTypeError(f"there is no file {text!r}")
    return Path(text)


def _run(file: Path, run_name: str = "__main__") -> dict[str, Any]:
    """Runs a file as ``python FILE`` does, but leaves the standard output to the report.

    Returns:
        The names that the file defines.
    """
    sys.path.insert(0, str(file.resolve().parent))
    sys.argv = [str(file)]
    try:
        with contextlib.redirect_stdout(sys.stderr):
            return runpy.run_path(str(file), run_name=run_name)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    return {}


if __name__ == "__main__":
    sys.exit(main())

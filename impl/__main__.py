"""The command line: ``demo``, ``doctor``, ``flags``, ``audit`` and ``compare``.

Each is a word after ``python -m impl``, or after the installed command ``samebits``. This module
parses the words, prints the result as text or JSON, and returns an exit status for scripts::

    python -m impl audit model.py:step --summary

    On cuda, with the mode off:
      varies     1  lax.scatter_add
          To do: Turn the mode on: it adds in a fixed order. If no index
          repeats, pass `unique_indices=True`, which is faster.
    Of 5 equations 1 varies, 0 are unknown and 0 raise.

The status is 0 if nothing was found, 1 for findings (an equation that varies, runs that differ) and
2 if the command could not judge.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from impl import __version__


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
    is_script = Path(*sys.argv[:1]).stem == "samebits"
    parser = argparse.ArgumentParser(
        prog="samebits" if is_script else "python -m impl",
        description="Deterministic operations for JAX.",
    )
    parser.add_argument("--version", action="version", version=f"samebits {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    demo = commands.add_parser("demo", help="show the mode at work, in under a minute")
    demo.set_defaults(run=_demo)
    doctor = commands.add_parser("doctor", help="show which settings can change bits, and remedies")
    _flag(doctor, "--json", "as data: see diagnosis/schema.json")
    _flag(doctor, "--all", "list fixed settings too")
    _flag(doctor, "--strict", "exit with status 1 if a setting has a remedy and is not fixed")
    doctor.add_argument(
        "--device",
        default="cuda",
        choices=("cuda", "cpu"),
        help="the device for which --after judges the programs that FILE compiles (cuda)",
    )
    file = doctor.add_mutually_exclusive_group()
    for name, words in (
        ("after", "first; report on its programs, random numbers and settings too"),
        ("twice", "in two processes, and name the first bits that differ"),
    ):
        file.add_argument(
            f"--{name}",
            metavar=("FILE", "ARGUMENT"),
            nargs=argparse.REMAINDER,
            action=_File,
            help=f"run this Python file {words}",
        )
    doctor.set_defaults(run=_doctor)
    flags = commands.add_parser(
        "flags", help="print the value of XLA_FLAGS that gives every program the flags of the mode"
    )
    flags.add_argument("--profile", help="the profile of the mode (the default one)")
    flags.set_defaults(run=_flags)
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
        help="program (default) reads equations; compiled reads the code that XLA makes of them",
    )
    audit.add_argument(
        "--gpu", help="with --level compiled: the GPU to compile for, such as h100, if it is absent"
    )
    form = audit.add_mutually_exclusive_group()
    _flag(form, "--json", "as data")
    _flag(form, "--summary", "a line for each primitive, and what to do")
    _flag(form, "--all", "a line for each finding, however many are alike")
    audit.set_defaults(run=_audit)
    compare = commands.add_parser("compare", help="name the first bits in which two runs differ")
    compare.add_argument("first", metavar="A.jsonl", help="a file of impl.DigestLog")
    compare.add_argument("second", metavar="B.jsonl", help="the file of another run")
    _flag(compare, "--common", "leave out steps and trees that one log does not have")
    _flag(compare, "--json", "as data")
    compare.set_defaults(run=_compare)
    return parser


def _flag(parser: Any, name: str, words: str) -> None:
    parser.add_argument(name, action="store_true", help=words)


def _demo(_: argparse.Namespace) -> int:
    from impl._demo import run  # noqa: PLC0415  # The other commands do not need it.

    return run(sys.stdout)


def _doctor(options: argparse.Namespace) -> int:
    from impl import diagnosis  # noqa: PLC0415  # As above.
    from impl.diagnosis import _after  # noqa: PLC0415

    if options.twice is not None:
        return _twice(options)
    ran = None
    if options.after is not None:
        file, arguments = options.after
        ran = _after.ran(file, arguments, options.device)
    report = diagnosis.report(ran)
    _print(report, options.json, every=options.all)
    if ran is None and not options.json:
        print(
            "The report shows the mode and the seeds of a new process: --after FILE runs your file "
            "first."
        )
    if ran is not None and ran.failure is not None:
        print(f"python -m impl doctor: {ran.file} {ran.failure}, as shown above", file=sys.stderr)
        return 1
    return 1 if options.strict and report.varying else 0


def _twice(options: argparse.Namespace) -> int:
    from impl.diagnosis import _twice  # noqa: PLC0415  # As above.

    file, arguments = options.twice
    comparison = _twice.compared(file, arguments)
    _print(comparison, options.json)
    return 0 if comparison.equal else 1


def _print(report: Any, as_json: bool, **how: bool) -> None:
    if as_json:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        print(report.text(shutil.get_terminal_size((100, 24)).columns, **how))


def _flags(options: argparse.Namespace) -> int:
    import impl  # noqa: PLC0415  # As above.

    try:
        with impl.deterministic(profile=options.profile):
            required = impl.xla_flags().split()
    except ValueError as error:
        return _failed(error, "flags")
    given = os.environ.get("XLA_FLAGS", "").split()
    print(" ".join([*given, *(flag for flag in required if flag not in given)]))
    return 0


def _audit(options: argparse.Namespace) -> int:
    from impl import audit  # noqa: PLC0415  # As above.
    from impl.diagnosis import _after  # noqa: PLC0415

    file, name = options.program
    try:
        names = _after.run(file, run_name="__audit__")
        if not callable(names.get(name)):
            return _failed(f"{file} has no function {name!r}")
        with contextlib.redirect_stdout(sys.stderr):
            program = names[name]()
            if not (isinstance(program, tuple) and len(program) == 2 and callable(program[0])):
                return _failed(f"{name}() in {file} has to return (function, arguments)")
            function, args = program
            audited = audit(function, device=options.device, level=options.level, gpu=options.gpu)
            report = audited(*args)
    except Exception as error:  # noqa: BLE001  # Status 1 is for findings.
        traceback.print_exception(error)
        return _failed(f"{name}() in {file} could not be audited: {type(error).__name__}")
    if options.summary:
        print(report.summary(shutil.get_terminal_size((100, 24)).columns))
    else:
        _print(report, options.json, every=options.all)
    return 0 if report.ok else 1


def _compare(options: argparse.Namespace) -> int:
    from impl import digests  # noqa: PLC0415  # As above.

    try:
        comparison = digests.compare(options.first, options.second, common=options.common)
    except (OSError, ValueError) as error:  # Status 1 is for differences.
        return _failed(error, "compare")
    print(json.dumps(comparison.as_dict(), indent=2) if options.json else comparison.text())
    return 0 if comparison.equal else 1


def _failed(message: object, command: str = "audit") -> int:
    print(f"python -m impl {command}: {message}", file=sys.stderr)
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


class _File(argparse.Action):
    """The name of a file and the arguments of the program, which may look like options."""

    def __call__(self, parser: Any, namespace: Any, values: Any, _: Any = None) -> None:
        try:
            file = _file(*values[:1])
        except (TypeError, argparse.ArgumentTypeError) as error:
            parser.error(str(error) if values else f"{self.option_strings[0]} needs a FILE")
        setattr(namespace, self.dest, (file, values[1:]))


if __name__ == "__main__":
    sys.exit(main())

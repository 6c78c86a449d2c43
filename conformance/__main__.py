"""The command line of the suite: ``python -m conformance``."""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import spec
from conformance import machine_code, reading, smoke
from conformance.hardware import options as hardware_options
from conformance.implementation import Implementation

_SUITE = Path(__file__).parent / "suite"
#: The exit status where the rows are not tried because the adapter does not work.
BROKEN = 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description="The conformance suite of samebits."
    )
    commands = parser.add_subparsers(
        title="commands", required=True, metavar="COMMAND", dest="command"
    )
    run = commands.add_parser(
        "run",
        help="try what the rows say",
        epilog="What else is given goes to pytest: -k R0001 tries one row, -x stops at a failure.",
    )
    run.add_argument("--device", choices=spec.DEVICES, help="default: what JAX computes on")
    run.add_argument("--profile", choices=list(spec.load().profiles), help="default: all")
    run.add_argument("--namespace", metavar="MODULE", default="impl", help="default: impl")
    run.add_argument("--expectations", type=Path, metavar="FILE.toml", help="what is known to fail")
    run.add_argument("--repeats", type=int, metavar="N", help="runs whose bits are compared")
    run.add_argument("--report", type=Path, metavar="FILE.json", help="write a report")
    hardware_options.add_options(run)
    expectations = commands.add_parser(
        "expectations", help="bring a file of expectations up to date with a report"
    )
    expectations.add_argument("--rewrite", type=Path, metavar="FILE.toml", required=True)
    expectations.add_argument("--report", type=Path, metavar="FILE.json", required=True)
    differences = commands.add_parser(
        "differences", help="print what a report shows to differ from PyTorch's documents"
    )
    differences.add_argument("report", type=Path, metavar="REPORT.json")
    compiling = commands.add_parser(
        "compile",
        help="compile every program and kernel for GPUs that need not be there",
        epilog="`nox -s gpu_compile` installs what it needs: XLA's plugin for CUDA, and no GPU.",
    )
    machine_code.add_options(compiling)
    show = commands.add_parser("show", help="print what a report found")
    show.add_argument("report", type=Path, metavar="REPORT.json")
    diff = commands.add_parser(
        "diff", help="print what is weaker in NEW than in OLD, and which bits are others"
    )
    diff.add_argument("old", type=Path, metavar="OLD.json")
    diff.add_argument("new", type=Path, metavar="NEW.json")
    options, rest = parser.parse_known_args(arguments)
    if options.command == "run":
        return _run(options, rest)
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    others = {
        "compile": machine_code.run,
        "expectations": _rewrite,
        "differences": _differences,
        "show": reading.show,
        "diff": reading.diff,
    }
    return others[options.command](options)


def _run(options: argparse.Namespace, rest: list[str]) -> int:
    since = time.monotonic()
    # JAX would take most of a GPU's memory, which this process leaves to those that it may start.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    problem = _without_adapter(options)
    if problem is None:
        try:
            tried = smoke.check(options.namespace)
        except smoke.BrokenError as error:
            print(
                f"python -m conformance run: the adapter {options.namespace} is broken, so that "
                f"no row was tried\n{error}",
                file=sys.stderr,
            )
            return BROKEN
        problem = _problem(options, tried)
    if problem is not None:
        print(f"python -m conformance run: {problem}", file=sys.stderr)
        return 2
    device = options.device or tried.devices()[0]
    rounds = hardware_options.round_options(options, device)
    if rounds is not None:
        from conformance.hardware import run_command  # noqa: PLC0415  # it needs pytest

        arguments = [*_chosen(options), *rest]
        return run_command.run(tried, rounds, arguments, options.report, start_time=since)
    import pytest  # noqa: PLC0415  # whoever lacks it gets the message above, not a traceback

    chosen = _chosen(options)
    for name in ("repeats", "report"):
        value = getattr(options, name)
        if value is not None:
            chosen.append(f"--{name}={value.absolute() if isinstance(value, Path) else value}")
    parallel = importlib.util.find_spec("xdist") is not None and device == "cpu"
    if parallel and not any(word.startswith("-n") for word in rest):
        chosen += ["-n", "auto", "--dist", "loadgroup"]
    return int(pytest.main([*chosen, *rest]))


def _chosen(options: argparse.Namespace) -> list[str]:
    """The arguments of pytest that say what is tried."""
    plugins = ("plugin", "expecting", "failing", "hardware.worker_plugin")
    chosen = [word for name in plugins for word in ("-p", f"conformance.{name}")]
    chosen += ["-c", str(_SUITE / "pytest.ini"), str(_SUITE)]
    for name in ("device", "profile", "namespace", "expectations"):
        value = getattr(options, name)
        if value is not None:
            chosen.append(f"--{name}={value.absolute() if isinstance(value, Path) else value}")
    return chosen


def _without_adapter(options: argparse.Namespace) -> str | None:
    """What keeps the suite from running whatever is tried, or None."""
    if importlib.util.find_spec("pytest") is None:
        return "it needs pytest: python -m pip install pytest"
    if options.report is not None and not options.report.absolute().parent.is_dir():
        return f"--report {options.report}: there is no folder {options.report.absolute().parent}"
    if options.expectations is not None:
        if not options.expectations.is_file():
            return f"--expectations {options.expectations}: there is no such file"
        from conformance.expectations import read  # noqa: PLC0415  # as pytest

        try:
            read(options.expectations)
        except ValueError as error:
            return f"--expectations {error}"
    return None


def _problem(options: argparse.Namespace, tried: Implementation) -> str | None:
    """What keeps the suite from trying an implementation as it was asked to, or None."""
    there = tried.devices()
    if options.device in (None, *there) or (options.device == "cpu" and tried.can_lower):
        return None
    message = (
        f"--device {options.device} asks for a device that {tried.name} does not see here; "
        f"it computes on {' and '.join(there)}."
    )
    if tried.can_lower:
        message += (
            " CUDA rows are also tried by --device cpu, by lowering for CUDA and by interpreting "
            "its kernels"
        )
    return message


def _rewrite(options: argparse.Namespace) -> int:
    from conformance import rewriting  # noqa: PLC0415  # it needs what pytest brings

    try:
        changed = rewriting.rewrite(options.rewrite, options.report)
    except (OSError, ValueError) as error:
        print(f"python -m conformance expectations: {error}", file=sys.stderr)
        return 2
    print(changed)
    return 0


def _differences(options: argparse.Namespace) -> int:
    from conformance import differences  # noqa: PLC0415  # as above

    try:
        print(differences.markdown(options.report), end="")
    except (OSError, ValueError) as error:
        print(f"python -m conformance differences: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

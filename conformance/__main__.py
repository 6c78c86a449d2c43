"""The command line of the suite: ``python -m conformance``.

A person types rows and devices, and pytest needs plugins, a configuration file and a folder. The
command ``run`` therefore checks the options and the adapter first, and then calls pytest::

    python -m conformance run --device cpu --profile complete -k R0001

    pytest -p conformance.pytest_plugin.run  (and the other plugins)
           -c conformance/suite/pytest.ini conformance/suite
           --device=cpu --profile=complete --namespace=impl --durations=10 -k R0001

Its exit status tells a wrong op from a wrong command:

======  ===============================================================================
status  reason
======  ===============================================================================
0       every test passed
1       a test failed
2       an option is wrong: ``--device cuda``, where the implementation sees no GPU
3       the adapter is broken: ``--namespace`` names a module that cannot be imported
======  ===============================================================================
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import spec
from conformance import benchmarks, smoke
from conformance.adapters.base import Adapter
from conformance.hunt import command as hunt
from conformance.lab import compiled
from conformance.reporting import show

_SUITE = Path(__file__).parent / "suite"
#: The exit status where the adapter does not work, so that no row was tested.
BROKEN = 3
#: The plugins of pytest that every run loads.
_PLUGINS = ("conformance.pytest_plugin.run", "conformance.pytest_plugin.failures")
#: The number of slowest tests that a run prints.
_SLOWEST = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    parser = _parser()
    options, rest = parser.parse_known_args(arguments)
    if options.command == "run":
        return _run(options, rest)
    if options.command == "compile":
        return compiled.run(options, [*_workers(rest), *rest])
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    handlers = {"bench": benchmarks.run_bench, "hunt": hunt.run}
    if options.command in handlers:
        return handlers[options.command](options)
    readers = {
        "tables": benchmarks.print_tables,
        "expectations": show.rewrite,
        "differences": show.differences,
        "show": show.show,
        "diff": show.diff,
    }
    try:
        return readers[options.command](options)
    except (OSError, ValueError) as error:  # A file is not there, or is not a report.
        print(f"python -m conformance {options.command}: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description="The conformance suite of samebits."
    )
    commands = parser.add_subparsers(
        title="commands", required=True, metavar="COMMAND", dest="command"
    )
    run = commands.add_parser(
        "run",
        help="try what the rows say",
        epilog="Other arguments go to pytest: -k R0001 tries one row, -x stops at a failure.",
    )
    _add_run_options(run)
    expectations_parser = commands.add_parser(
        "expectations", help="bring a file of expectations up to date with a report"
    )
    expectations_parser.add_argument("--rewrite", type=Path, metavar="FILE.toml", required=True)
    expectations_parser.add_argument("--report", type=Path, metavar="FILE.json", required=True)
    differences_parser = commands.add_parser(
        "differences", help="print what a report shows to differ from PyTorch's documents"
    )
    differences_parser.add_argument("report", type=Path, metavar="REPORT.json")
    compile_parser = commands.add_parser(
        "compile",
        help="compile every program for GPUs that need not be there",
        epilog="`nox -s gpu_compile` installs what it needs: XLA's plugin for CUDA, and no GPU. "
        "Other arguments go to pytest: -k R0001 or -k program-sum compiles a part, -n 2 by two "
        "processes.",
    )
    compiled.add_options(compile_parser)
    benchmarks.add_commands(commands)
    hunt_parser = commands.add_parser(
        "hunt",
        help="draw strange programs, and shrink those that show a fault to a file",
        epilog="The exit status is 0 without a finding, 1 with one, and 2 if it cannot run.",
    )
    hunt.add_options(hunt_parser)
    show_parser = commands.add_parser("show", help="print what a report found")
    show_parser.add_argument("report", type=Path, metavar="REPORT.json")
    diff_parser = commands.add_parser(
        "diff", help="print the tests that are weaker in NEW than in OLD, and other bits"
    )
    diff_parser.add_argument("old", type=Path, metavar="OLD.json")
    diff_parser.add_argument("new", type=Path, metavar="NEW.json")
    return parser


def _add_run_options(run: argparse.ArgumentParser) -> None:
    """Adds the options of the command ``run``."""
    run.add_argument("--device", choices=spec.DEVICES, help="default: the device of JAX")
    run.add_argument("--profile", choices=list(spec.load().profiles), help="default: all")
    run.add_argument("--namespace", metavar="MODULE", default="impl", help="default: impl")
    run.add_argument("--expectations", type=Path, metavar="FILE.toml", help="known failures")
    run.add_argument("--repeats", type=int, metavar="N", help="runs whose bits are compared")
    run.add_argument("--report", type=Path, metavar="FILE.json", help="write a report")
    group = run.add_argument_group(
        "in rounds",
        "On a GPU, and with one of these, the same command continues a report that was begun.",
    )
    group.add_argument("--rounds", type=int, metavar="N", help="default: 4 on a GPU, or else 1")
    group.add_argument(
        "--minutes",
        type=float,
        metavar="M",
        help="stop after so long, with status 6; default: 8 on a GPU",
    )


def _run(options: argparse.Namespace, rest: list[str]) -> int:
    """Tests the rows in this process, in workers of pytest-xdist, or in rounds."""
    # JAX would otherwise take most of a GPU's memory, which processes started from here need.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    # pytest leaves out the frames of JAX that have its mark.
    os.environ.setdefault("JAX_TRACEBACK_FILTERING", "tracebackhide")
    problem = _problem_of_options(options)
    if problem is None:
        try:
            adapter = smoke.check(options.namespace)
        except smoke.BrokenError as error:
            print(
                f"python -m conformance run: the adapter {options.namespace} is broken, so that "
                f"no row was tried\n{error}",
                file=sys.stderr,
            )
            return BROKEN
        problem = _problem_of_device(options, adapter)
    if problem is not None:
        print(f"python -m conformance run: {problem}", file=sys.stderr)
        return 2
    device = options.device or adapter.devices()[0]
    if device != "cpu" or options.rounds or options.minutes:
        from conformance import run_in_rounds  # noqa: PLC0415  # it needs pytest

        on_gpu = device != "cpu"
        return run_in_rounds.run(adapter, options, _arguments(options, rest), on_gpu=on_gpu)
    import pytest  # noqa: PLC0415  # without pytest the user gets the message above

    arguments = [f"--durations={_SLOWEST}"]
    for name in ("repeats", "report"):
        value = getattr(options, name)
        if value is not None:
            arguments.append(f"--{name}={value.absolute() if isinstance(value, Path) else value}")
    if device == "cpu":
        arguments += _workers(rest)
    return int(pytest.main([*arguments, *_arguments(options, rest)]))


def _workers(rest: Sequence[str]) -> list[str]:
    """Returns the arguments that share the tests among workers, where that saves time.

    A worker takes seconds to start. One process is faster for the tests of a few rows, by their
    ids, or for one test, by its own id.
    """
    is_small = any(re.search(r"::|\bR\d{4}\b", word) for word in rest)
    is_given = any(word.startswith("-n") for word in rest)
    if importlib.util.find_spec("xdist") is None or is_small or is_given:
        return []
    return ["-n", "auto", "--dist", "loadgroup"]


def _arguments(options: argparse.Namespace, rest: Sequence[str]) -> list[str]:
    """Returns the arguments of pytest: the plugins, the tests, the options, and ``rest``.

    The id of a test, as a failure names it, chooses the test alone.
    """
    arguments = [word for name in _PLUGINS for word in ("-p", name)]
    arguments += ["-c", str(_SUITE / "pytest.ini")]
    if not any("::" in word for word in rest):
        arguments.append(str(_SUITE))
    for name in ("device", "profile", "namespace", "expectations"):
        value = getattr(options, name)
        if value is not None:
            arguments.append(f"--{name}={value.absolute() if isinstance(value, Path) else value}")
    # The id of a test may begin with folders, as pytest prints it.
    tests = (re.sub(r"^[^:]*/", "", word) if "::" in word else word for word in rest)
    return arguments + [str(_SUITE / word) if "::" in word else word for word in tests]


def _problem_of_options(options: argparse.Namespace) -> str | None:
    """Returns a problem that any implementation would have with these options, or None."""
    if importlib.util.find_spec("pytest") is None:
        return "it needs pytest: python -m pip install pytest"
    if options.report is not None and not options.report.absolute().parent.is_dir():
        return f"--report {options.report}: there is no folder {options.report.absolute().parent}"
    if options.expectations is not None:
        if not options.expectations.is_file():
            return f"--expectations {options.expectations}: there is no such file"
        from conformance.reporting.expectations import read  # noqa: PLC0415  # as pytest

        try:
            read(options.expectations)
        except ValueError as error:
            return f"--expectations {error}"
    return None


def _problem_of_device(options: argparse.Namespace, adapter: Adapter) -> str | None:
    """Returns why an implementation cannot be tested on the device of the options, or None."""
    devices = adapter.devices()
    if options.device in (None, *devices) or (options.device == "cpu" and adapter.can_lower):
        return None
    message = (
        f"--device {options.device} asks for a device that {adapter.name} does not see here; "
        f"it computes on {' and '.join(devices)}."
    )
    if adapter.can_lower:
        message += (
            " CUDA rows are also tried by --device cpu, by lowering for CUDA and by interpreting "
            "its kernels"
        )
    return message


if __name__ == "__main__":
    sys.exit(main())

"""The command line of the suite: ``python -m conformance``."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path

import spec
from conformance import trial
from conformance.compiled import run as compiled

_SUITE = Path(__file__).parent / "suite"
#: What the suite turns a namespace's mode on and off with; they work as those of ``impl``.
_MODE = ("use_deterministic_algorithms", "deterministic")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m conformance", description="The conformance suite of samebits."
    )
    commands = parser.add_subparsers(
        title="commands", dest="command", required=True, metavar="COMMAND"
    )
    run = commands.add_parser(
        "run",
        help="try what the rows say",
        epilog="What else is given goes to pytest: -k R0001 tries one row, -x stops at a failure.",
    )
    run.add_argument("--device", choices=spec.DEVICES, help="default: what JAX computes on")
    run.add_argument("--profile", choices=list(spec.load().profiles), help="default: all")
    run.add_argument("--namespace", metavar="MODULE", default="impl", help="default: impl")
    run.add_argument("--repeats", type=int, metavar="N", help="runs whose bits are compared")
    run.add_argument("--report", type=Path, metavar="FILE.json", help="write a report")
    compile_ = commands.add_parser(
        "compile",
        help="compile every program and kernel for GPUs that need not be there",
        epilog="`nox -s gpu_compile` installs what it needs: XLA's plugin for CUDA, and no GPU.",
    )
    compiled.add_options(compile_)
    options, rest = parser.parse_known_args(arguments)
    if options.command == "compile":
        if rest:
            compile_.error(f"unrecognized arguments: {' '.join(rest)}")
        return compiled.main(options)
    return _run(options, rest)


def _run(options: argparse.Namespace, rest: list[str]) -> int:
    problem = _problem(options)
    if problem is not None:
        print(f"python -m conformance run: {problem}", file=sys.stderr)
        return 2
    import pytest  # noqa: PLC0415  # whoever lacks it gets the message above, not a traceback

    chosen = ["-p", "conformance.plugin", "-c", str(_SUITE / "pytest.ini"), str(_SUITE)]
    for name in ("device", "profile", "namespace", "repeats", "report"):
        value = getattr(options, name)
        if value is not None:
            chosen.append(f"--{name}={value.absolute() if isinstance(value, Path) else value}")
    parallel = importlib.util.find_spec("xdist") is not None and trial.here() == "cpu"
    if parallel and not any(word.startswith("-n") for word in rest):
        chosen += ["-n", "auto", "--dist", "loadgroup"]
    return int(pytest.main([*chosen, *rest]))


def _problem(options: argparse.Namespace) -> str | None:
    """What keeps the suite from running, or None."""
    if importlib.util.find_spec("pytest") is None:
        return "it needs pytest: python -m pip install pytest"
    if options.device not in (None, "cpu") and options.device != trial.here():
        return (
            f"--device {options.device} asks for a device that JAX does not see here; "
            f"it computes on {trial.here()}. CUDA rows are also tried by --device cpu, "
            "by lowering for CUDA and by interpreting its kernels"
        )
    if options.report is not None and not options.report.absolute().parent.is_dir():
        return f"--report {options.report}: there is no folder {options.report.absolute().parent}"
    try:
        namespace = importlib.import_module(options.namespace)
    except ImportError as error:
        return f"--namespace {options.namespace}: {error}"
    lacking = [name for name in _MODE if not hasattr(namespace, name)]
    if lacking:
        return f"--namespace {options.namespace}: it lacks {', '.join(lacking)}, which set its mode"
    return None


if __name__ == "__main__":
    sys.exit(main())

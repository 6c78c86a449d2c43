"""Programs compiled to machine code for GPUs that are absent: ``python -m conformance compile``.

A lowered program shows what XLA receives, and not what XLA makes of it. Here XLA compiles the
program of each row for a named GPU. The checks read the optimised program and the kernels' PTX.

``test_compiled`` has a test for each row, each whole program and each GPU. So pytest chooses them,
shares them among processes, and writes their records, as it does for the suite.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Sequence
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
#: The name of the check of a whole program.
PROGRAM_CHECK = "program compiled"
_INSTALL = (
    "python -m pip install jax==0.11.2 jax-cuda13-plugin==0.11.2 jax-cuda13-pjrt==0.11.2 "
    "absl-py nvidia-cuda-nvcc nvidia-nvvm"
)
_TESTS = Path(__file__).parent / "test_compiled.py"
#: The settings of pytest for the suite, which this is like.
_SETTINGS = Path(__file__).parents[2] / "suite" / "pytest.ini"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    parser.add_argument(
        "--target",
        action="append",
        choices=gpus.NAMES,
        default=[],
        help="a GPU to compile for; may be given again; default: all",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE.json",
        help="write a report; records of other programs stay in it",
    )


def run(options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Runs the command and returns its exit status."""
    problem = None
    if importlib.util.find_spec("jax_cuda13_plugin") is None:
        problem = (
            f"nothing can be compiled for a GPU here\nIt needs {_INSTALL}, or "
            "`nox -s gpu_compile`, which installs it."
        )
    elif options.report is not None and not options.report.absolute().parent.is_dir():
        problem = (
            f"--report {options.report}: there is no folder {options.report.absolute().parent}"
        )
    if problem:
        print(f"python -m conformance compile: {problem}", file=sys.stderr)
        return 2
    os.environ["JAX_PLATFORMS"] = "cpu"  # Do not look for a GPU.
    import pytest  # noqa: PLC0415  # Other commands do without it.

    from conformance.reporting import report  # noqa: PLC0415  # As above.

    plugin = "-pconformance.pytest_plugin.run"
    words = [plugin, "-c", str(_SETTINGS), "-W", "ignore", "--durations=10", str(_TESTS)]
    words += [word for target in options.target for word in ("--target", target)]
    with tempfile.TemporaryDirectory(prefix="samebits-") as folder:
        made = Path(folder) / "report.json"
        status = pytest.main([*words, f"--report={made}", *arguments])
        if options.report is not None and made.exists():
            new = report.read(made)
            names = ("jax-cuda13-plugin", "nvidia-cuda-nvcc")
            versions = {name: report.version(name) for name in names}
            report.update(options.report, {**new.environment, **versions}, new.records)
    return int(status)

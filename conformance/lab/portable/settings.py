"""Runs the portable programs in many settings, and prints a table of their digests.

``python -m conformance.lab.portable.settings`` trains each program of
``conformance.lab.portable.programs`` in a process for each setting: on 1, 2, 4 and 8 devices, with
one thread and two, at another level of XLA's optimisation, and equation by equation; with the
guarantee ``portable``, and with the mode off. It fails if a program has several results with the
guarantee. Another interpreter, given by ``--python``, adds its release of JAX to the table.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from conformance.lab.portable import programs

#: The number of digits of a digest that are shown.
_DIGITS = 8


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a process runs.

    Attributes:
        devices: The devices for which its CPU stands.
        threads: The threads that XLA computes with.
        flags: Further options of XLA.
        eager: Whether the equations run one by one.
    """

    devices: int
    threads: int = 2
    flags: str = ""
    eager: bool = False

    def __str__(self) -> str:
        parts = [f"{self.devices} device{'s' * (self.devices > 1)}", f"{self.threads} threads"]
        parts += ["not optimised"] if self.flags else []
        parts += ["eager"] if self.eager else []
        return ", ".join(parts).replace("1 threads", "1 thread")


SETTINGS = (
    *(Setting(devices) for devices in (1, 2, 4, 8)),
    Setting(1, threads=1),
    Setting(8, threads=1),
    Setting(1, flags="--xla_backend_optimization_level=0"),
    Setting(8, flags="--xla_backend_optimization_level=0"),
    Setting(1, eager=True),
)


def digests(
    setting: Setting, names: Sequence[str], *, plain: bool, python: str = sys.executable
) -> dict[str, str]:
    """Returns the digest of each program, trained in a process, and the release of ``jax`` there.

    Args:
        setting: How the process runs.
        names: Programs of ``programs.PROGRAMS``.
        plain: Whether to leave the mode off.
        python: The interpreter.

    Raises:
        RuntimeError: The process failed.
    """
    devices = f"--xla_force_host_platform_device_count={setting.devices}"
    flags = (os.environ.get("XLA_FLAGS", ""), devices, setting.flags)
    command = [python, "-m", "conformance.lab.portable.programs", *names]
    command += ["--plain"] * plain + ["--eager"] * setting.eager
    own = {"JAX_PLATFORMS": "cpu", "NPROC": str(setting.threads)}
    run = subprocess.run(  # noqa: S603  # It runs a module of this package.
        command,
        env={**os.environ, **own, "XLA_FLAGS": " ".join(flags).strip()},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(f"{setting}: a process failed:\n{run.stderr}")
    return dict(line.split() for line in run.stdout.splitlines())


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table, in Markdown; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs; default: all that are installed")
    parser.add_argument("--devices", type=int, nargs="+", help="only these numbers of devices")
    parser.add_argument("--python", action="append", default=[], help="a further interpreter")
    options = parser.parse_args(arguments)
    names = options.names or programs.installed()
    if unknown := set(names) - set(programs.PROGRAMS):
        parser.error(f"there is no program {', '.join(sorted(unknown))}")
    settings = [each for each in SETTINGS if each.devices in (options.devices or (1, 2, 4, 8))]
    columns: dict[tuple[str, bool], set[str]] = {
        (name, plain): set() for name in names for plain in (False, True)
    }
    print(f"| setting | {' | '.join(f'{name} | plain' for name in names)} |")
    print(f"| --- |{' --- |' * len(columns)}", flush=True)
    for python, setting in itertools.product((sys.executable, *options.python), settings):
        both = [digests(setting, names, plain=plain, python=python) for plain in (False, True)]
        for (name, plain), results in columns.items():
            results.add(both[plain][name])
        cells = " | ".join(f"`{both[plain][name][:_DIGITS]}`" for name, plain in columns)
        print(f"| jax {both[0]['jax']}, {setting} | {cells} |", flush=True)
    counts = " | ".join(str(len(results)) for results in columns.values())
    print(f"| **different results** | {counts} |")
    return int(any(len(results) > 1 for (_, plain), results in columns.items() if not plain))


if __name__ == "__main__":
    sys.exit(main())

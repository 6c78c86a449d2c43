"""Plain JAX under XLA's deterministic flags, in a process of its own: flags hold for a process.

The process makes the cases of a family as this one does, in the same order. For each case that is
asked for, it runs the plain side, and answers with the milliseconds that a run took there.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, Protocol

from conformance.benchmarks.case import Case, Setting
from conformance.benchmarks.machine import memory_of_device, on_cpu
from conformance.benchmarks.sides import Side

FLAGS = "--xla_gpu_deterministic_ops=true"
NAME = "plain JAX, XLA's flags"


class SidesElsewhere(Protocol):
    """Gives the sides of a case that run in another process, by name."""

    def __call__(self, case: Case, /) -> Mapping[str, Side]: ...


class Server:
    """A process that serves the cases of a family.

    Args:
        family: The name of the family.
        side: The side of its cases that the process runs.
        setting: How its cases are chosen.
        flags: The flags of XLA.
    """

    def __init__(self, family: str, side: str, setting: Setting, flags: str = FLAGS) -> None:
        environment = {
            **os.environ,
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip(),
            # Both processes have arrays on the GPU.
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        words = [family, side, str(setting.times), str(int(setting.quick))]
        self._process = subprocess.Popen(  # noqa: S603  # it runs this module
            [sys.executable, "-m", __name__, *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._flags = flags

    def __call__(self, case: Case) -> Mapping[str, Side]:
        """Returns the side that runs a case in the process, by name."""
        self._ask(dict(case.about))
        return {NAME: lambda: float(self._ask(None))}

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, question: Any) -> Any:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the process with {self._flags} ended; its error stands above")
        return json.loads(answer)


def _nowhere(_: Case) -> Mapping[str, Side]:
    return {}


@contextlib.contextmanager
def of_family(name: str, family: ModuleType, setting: Setting) -> Iterator[SidesElsewhere]:
    """Gives the sides of a family with ``UNDER_FLAGS``; none on a CPU, where the flags do nothing.

    Args:
        name: The name of the family.
        family: Its module.
        setting: How its cases are chosen.
    """
    side: str | None = getattr(family, "UNDER_FLAGS", None)
    if side is None or on_cpu():
        yield _nowhere
        return
    with contextlib.closing(Server(name, side, setting)) as server:
        yield server


def main(name: str, side: str, times: str, quick: str) -> None:
    """Serves the cases of a family: a message with a case makes it, a message of null runs it."""
    # The output of a program must not look like an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    setting = Setting(int(times), quick == "1", None, memory_of_device())
    family = importlib.import_module(f"conformance.benchmarks.families.{name}")
    cases: Iterator[Case] = family.cases(setting)
    chosen: Case | None = None
    for line in sys.stdin:
        about = json.loads(line)
        milliseconds = 0.0
        if about is not None:
            chosen = next(case for case in cases if case.about == about)
        elif chosen is not None:
            start_time = time.perf_counter()
            chosen.sides[side]()
            milliseconds = (time.perf_counter() - start_time) * 1e3
        print(json.dumps(milliseconds), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

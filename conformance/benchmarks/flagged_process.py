"""Sides that run in a process with other flags of XLA, because flags hold for a process.

The process makes the cases of a family as this one does, in the same order. It runs sides of the
case that is asked for, and answers with the milliseconds that a run took there.
"""

from __future__ import annotations

import contextlib
import functools
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
        setting: How its cases are chosen.
        flags: The flags of XLA.
    """

    def __init__(self, family: str, setting: Setting, flags: str = FLAGS) -> None:
        environment = {
            **os.environ,
            "XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} {flags}".strip(),
            # Both processes have arrays on the GPU.
            "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        }
        words = [family, str(setting.times), str(int(setting.quick))]
        self._process = subprocess.Popen(  # noqa: S603  # it runs this module
            [sys.executable, "-m", __name__, *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._flags = flags

    def sides(self, about: Mapping[str, str], names: Mapping[str, str]) -> Mapping[str, Side]:
        """Returns sides of a case that run in the process, by name.

        Args:
            about: The description of the case.
            names: The name that each side has in the process, by its name here.
        """
        self._ask(dict(about))
        return {name: functools.partial(self._ask, side) for name, side in names.items()}

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
    with contextlib.closing(Server(name, setting)) as server:
        yield lambda case: server.sides(case.about, {NAME: side})


def main(name: str, times: str, quick: str) -> None:
    """Serves the cases of a family: a message with a case makes it, the name of a side runs it."""
    # The output of a program must not look like an answer.
    answers, sys.stdout = sys.stdout, sys.stderr
    setting = Setting(int(times), quick == "1", None, memory_of_device())
    family = importlib.import_module(f"conformance.benchmarks.families.{name}")
    cases: Iterator[Case] = family.cases(setting)
    chosen: Case | None = None
    for line in sys.stdin:
        message = json.loads(line)
        milliseconds = 0.0
        if not isinstance(message, str):
            chosen = next(case for case in cases if case.about == message)
        elif chosen is not None:
            start_time = time.perf_counter()
            chosen.sides[message]()
            milliseconds = (time.perf_counter() - start_time) * 1e3
        print(json.dumps(milliseconds), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

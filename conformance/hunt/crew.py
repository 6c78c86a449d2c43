"""The workers of a hunt: the parent starts, asks, times and replaces them.

Each is a process of ``conformance.hunt.worker``: a crash of XLA ends it, and its options of XLA and
its release of JAX are its own.

The answers to four programs::

    a sum                  {"digests": ["450fec9a1d82af7e"], "seconds": 0.04}
    1 / 0                  {"error": "ZeroDivisionError", "message": "division by zero", ...}
    os._exit(1)            {"error": "crash", "message": the end of the worker's log}
    while True: pass       {"error": "hang", "message": the end of the worker's log}
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import selectors
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Self

from conformance.hunt import source
from conformance.hunt.program import Program
from conformance.hunt.settings import Setting

#: The checkout, from which workers import this project.
ROOT = Path(__file__).parents[2]
#: The devices for which the CPU of a worker stands.
_DEVICES = 8
#: The seconds after which a program counts as one that does not end.
TIMEOUT = 60.0
#: How much longer the other workers have for a program than the first one.
_OTHERS = 3
#: The least work in XLA: most programs of a hunt run once.
_CHEAP = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
#: The same for jaxlib 0.10: XLA compiles in a third of the time without its emitters of fusions,
#: which later releases have no option for, and in a tenth less if it inlines calls first.
_WITHOUT_EMITTERS = (
    f"{_CHEAP} --xla_cpu_use_fusion_emitters=false --xla_cpu_opt_preset=FAST_COMPILE"
)


def cheapest() -> str:
    """Returns the options of the least work for the release of JAX of this interpreter."""
    release = importlib.metadata.version("jaxlib")
    return _WITHOUT_EMITTERS if release.startswith("0.10.") else _CHEAP


@dataclasses.dataclass(frozen=True)
class Kind:
    """The options of a worker.

    The interpreter has its own release of JAX. ``plain`` leaves this project out, and the file
    ``plant`` changes it on purpose.
    """

    python: str = sys.executable
    flags: str = _CHEAP
    threads: int = 2
    plain: bool = False
    plant: Path | None = None

    def __str__(self) -> str:
        parts = [self.python, f"{self.threads} threads", self.flags or "default options of XLA"]
        return ", ".join([*parts, *(["plain JAX"] if self.plain else [])])

    def environment(self) -> dict[str, str]:
        """Returns the environment of the process."""
        flags = f"--xla_force_host_platform_device_count={_DEVICES} {self.flags}"
        return {
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "NPROC": str(self.threads),
            "XLA_FLAGS": flags.strip(),
            "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        }


def default_kinds(python: Sequence[str], plant: Path | None = None) -> tuple[Kind, ...]:
    """Returns the workers of a hunt: two of this interpreter, and one of each other interpreter.

    Each of them runs the file ``plant``.
    """
    own = (Kind(flags=cheapest(), plant=plant), Kind(flags="", threads=1, plant=plant))
    return (*own, *(Kind(python=each, plant=plant) for each in python))


class Worker:
    """A process that runs programs. It starts with the first request."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str]
        self._one_request = threading.Lock()

    def ask(self, request: dict[str, Any], timeout: float = TIMEOUT) -> dict[str, Any]:
        """Returns the answer to a request; ``crash`` or ``hang`` if the process has none.

        A request of another thread waits for its turn, and this time does not count.
        """
        with self._one_request:
            try:
                process = self._process = self._process or self._start()
            except OSError as error:
                self._log.close()
                return {"error": "crash", "message": str(error)}
            assert process.stdin is not None  # noqa: S101  # It is a pipe.
            assert process.stdout is not None  # noqa: S101  # It is a pipe.
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                return {"error": "crash", "message": self.close()}
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                if not selector.select(timeout):
                    return {"error": "hang", "message": self.close()}
            line = process.stdout.readline()
            return json.loads(line) if line else {"error": "crash", "message": self.close()}

    def close(self) -> str:
        """Ends the process, and returns the end of its log."""
        if self._process is None:
            return ""
        self._process.kill()
        self._process.communicate()
        self._process = None
        with self._log as log:
            log.seek(0)
            return log.read()[-2000:]

    def _start(self) -> subprocess.Popen[str]:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # It lives as long as the process.
        kind = self.kind
        options = ["--plain"] * kind.plain
        options += ["--plant", str(kind.plant.absolute())] if kind.plant else []
        return subprocess.Popen(  # noqa: S603  # It runs a module of this package.
            [kind.python, "-m", "conformance.hunt.worker", *options],
            cwd=ROOT,
            env=kind.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )


class Crew:
    """The workers; the first one runs ``BASE``. ``seconds`` are the time of CPU of answers."""

    def __init__(self, kinds: Sequence[Kind]) -> None:
        self.kinds = tuple(kinds)
        self.runs = 0
        self.seconds = 0.0
        self._count = threading.Lock()
        self._workers = [Worker(kind) for kind in kinds]
        # Plain JAX, in processes that never import this project. They start when they are needed.
        plain = [dataclasses.replace(each, plain=True, plant=None) for each in kinds]
        self._plain = [Worker(each) for each in plain]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self._workers, *self._plain):
            worker.close()

    def start(self) -> None:
        """Starts the workers."""
        request = {"source": "", "asks": [], "mode": "portable", "wide": False}
        for worker in self._workers:
            answer = worker.ask(request)
            if "error" in answer:
                raise ValueError(f"the worker {worker.kind} does not run:\n{answer['message']}")

    def run(
        self,
        program: Program,
        setting: Setting,
        asks: Sequence[str] = ("digests",),
        *,
        plain: bool = False,
        off: bool = False,
        all_variables: bool = False,
        exempt: bool = False,
        **further: object,
    ) -> dict[str, Any]:
        """Returns the answer of the worker of a setting.

        ``asks`` are parts of the answer: ``digests``, ``values`` of all variables or ``results``,
        ``equations``, ``audit``, ``text``, ``sums`` over devices, ``growth``; ``wide`` for
        arguments of float64. If ``plain``, a process without this project answers; if ``exempt``,
        sums over devices are in a scope without a guarantee. Further entries are ``scope`` for
        ``text``, and ``depths`` and ``gradient`` for ``growth``.
        """
        request = {
            "source": source.whole(program, setting, all_variables=all_variables, exempt=exempt),
            "asks": list(asks),
            "mode": "off" if off else "portable",
            "wide": program.is_wide or "wide" in asks,
            **further,
        }
        return self.ask(request, setting.worker, plain=plain)

    def ask(
        self, request: dict[str, Any], number: int = 0, *, plain: bool = False
    ) -> dict[str, Any]:
        """Returns the answer of a worker, by its number."""
        # A program that does not end with the first worker's options is tried with others.
        timeout = TIMEOUT if plain or number else TIMEOUT / _OTHERS
        answer = (self._plain if plain else self._workers)[number].ask(request, timeout)
        with self._count:
            self.runs += 1
            self.seconds += answer.get("seconds", 0.0)
        return answer

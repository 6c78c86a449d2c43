"""The processes of a hunt, as the parent sees them: it starts, asks, times and replaces them."""

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
from pathlib import Path
from typing import IO, Any

#: The checkout, from which workers import this project.
ROOT = Path(__file__).parents[2]
#: The devices for which the CPU of a worker stands.
_DEVICES = 8
#: The seconds after which a program counts as one that does not end.
TIMEOUT = 60.0
#: The least work in XLA: most programs of a hunt run once.
CHEAP = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
#: The same for jaxlib 0.10: XLA compiles in a third of the time without its emitters of fusions,
#: which later releases have no option for, and in a tenth less if it inlines calls first.
_WITHOUT_EMITTERS = f"{CHEAP} --xla_cpu_use_fusion_emitters=false --xla_cpu_opt_preset=FAST_COMPILE"


def cheapest() -> str:
    """Returns the options of the least work for the release of JAX of this interpreter."""
    release = importlib.metadata.version("jaxlib")
    return _WITHOUT_EMITTERS if release.startswith("0.10.") else CHEAP


@dataclasses.dataclass(frozen=True)
class Kind:
    """The options of a worker.

    Attributes:
        python: The interpreter, which has its own release of JAX.
        flags: Options of XLA.
        threads: The threads that XLA computes with.
        plain: Whether it leaves this project out.
        plant: A file that changes the project on purpose.
        root: The folder that it imports this project from.
    """

    python: str = sys.executable
    flags: str = CHEAP
    threads: int = 2
    plain: bool = False
    plant: Path | None = None
    root: Path = ROOT

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
            "PYTHONPATH": os.pathsep.join([str(self.root), os.environ.get("PYTHONPATH", "")]),
        }

    def command(self) -> list[str]:
        """Returns the command of the process."""
        options = ["--plain"] * self.plain
        options += ["--plant", str(self.plant.absolute())] if self.plant else []
        return [self.python, "-m", "conformance.hunt.worker", *options]


class Worker:
    """A process that runs programs. It starts with the first request.

    Args:
        kind: Its options.

    Attributes:
        kind: Its options.
    """

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._process: subprocess.Popen[str] | None = None
        self._log: IO[str] | None = None
        self._one_request = threading.Lock()

    def ask(self, request: dict[str, Any], timeout: float = TIMEOUT) -> dict[str, Any]:
        """Returns the answer to a request; ``crash`` or ``hang`` if the process has none.

        A request of another thread waits for its turn, and this time does not count.
        """
        with self._one_request:
            return self._asked(request, timeout)

    def _asked(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        try:
            process = self._process or self._start()
        except OSError as error:
            self.close()
            return {"error": "crash", "message": str(error)}
        assert process.stdin is not None  # noqa: S101  # It is a pipe.
        assert process.stdout is not None  # noqa: S101  # It is a pipe.
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            return self._ended("crash")
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout):
                return self._ended("hang")
        line = process.stdout.readline()
        if not line:
            return self._ended("crash")
        return dict(json.loads(line))

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()
            self._process.wait()
            self._process = None
        if self._log is not None:
            self._log.close()
            self._log = None

    def _start(self) -> subprocess.Popen[str]:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # It lives as long as the process.
        self._process = subprocess.Popen(  # noqa: S603  # It runs a module of this package.
            self.kind.command(),
            cwd=self.kind.root,
            env=self.kind.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
        )
        return self._process

    def _ended(self, how: str) -> dict[str, Any]:
        message = ""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._log is not None:
            self._log.seek(0)
            message = self._log.read()[-2000:]
        self.close()
        return {"error": how, "message": message}

"""Lines on stderr that say what a long call does now."""

from __future__ import annotations

import sys
import threading
import time
from typing import Self

#: The seconds after which a call counts as long.
PATIENCE = 5.0


class Progress:
    """Prints what a call does, from the moment at which it counts as long.

    Use it as a context manager, and name each step as it begins::

        with Progress("first_difference", None) as progress:
            progress.step("compiles run 1 of 2")

    Args:
        name: The name of the call.
        shown: Whether to print: True from the first step on, False never. None prints where stderr
            is a terminal, once the call is long.
    """

    def __init__(self, name: str, shown: bool | None) -> None:
        self._name = name
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._patience = 0.0 if shown else PATIENCE
        self._step = self._printed = ""
        self._lock = threading.Lock()
        self._begun = time.monotonic()
        self._later: threading.Timer | None = None

    def __enter__(self) -> Self:
        if self._shown and self._patience:
            self._later = threading.Timer(self._patience, self._print)
            self._later.daemon = True
            self._later.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._later is not None:
            self._later.cancel()

    def step(self, text: str) -> None:
        """States what the call does from now on."""
        self._step = text
        if self._shown and time.monotonic() - self._begun >= self._patience:
            self._print()

    def _print(self) -> None:
        """Prints the step, unless the timer or the call has printed it already."""
        seconds = time.monotonic() - self._begun
        with self._lock:
            if self._step == self._printed:
                return
            self._printed = self._step
            sys.stderr.write(f"{self._name}: {self._step} ({seconds:.0f} s)\n")
            sys.stderr.flush()

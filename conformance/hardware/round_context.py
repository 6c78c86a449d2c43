"""The round that a test of the suite runs in: its number, and the other work on the device."""

from __future__ import annotations

import contextlib
from typing import Any


class RoundContext:
    """The round that a test runs in.

    Args:
        number: The number of the round, from 1.
        background_work: The ``BackgroundWork`` of this process; None if there is none.

    Attributes:
        check_suffix: The words that name a fresh process in a record's check; empty in round 1.
    """

    def __init__(self, number: int = 1, background_work: Any = None) -> None:
        self.check_suffix = "" if number == 1 else f" in fresh process {number}"
        self._background_work = background_work

    @property
    def other_work(self) -> str:
        """The names of the other work on the device; empty if there is none."""
        return "" if self._background_work is None else str(self._background_work)

    def under_load(self) -> contextlib.AbstractContextManager[Any]:
        """Returns a context in which the other work is in flight."""
        if self._background_work is None:
            return contextlib.nullcontext()
        scope: contextlib.AbstractContextManager[Any] = self._background_work.scope()
        return scope

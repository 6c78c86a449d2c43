"""Promises: the tests of rows that are not about an op.

Rows of the kinds ``random`` and ``loader`` hold whatever the mode is, so the suite tests them by
functions of their own.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import importlib.util
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import spec

#: The kinds of rows that promises test.
KINDS: tuple[spec.Kind, ...] = ("random", "loader")


@dataclasses.dataclass(frozen=True, eq=False)
class Promise:
    """One test of a row. ``keep`` raises AssertionError where a namespace breaks the row.

    ``needs`` are the modules that the test needs besides the namespace.
    """

    row: str
    name: str
    keep: Callable[[ModuleType], None]
    needs: tuple[str, ...] = ()

    @property
    def about(self) -> dict[str, Any]:
        """The fields of a report's record that identify the test."""
        row = spec.load().row(self.row)
        return {"row": row.id, "op": row.op, "device": row.device, "sample": self.name}

    def __str__(self) -> str:
        """Returns a name that the command line can select. It begins with the id of the row."""
        return f"{self.row}-{spec.load().row(self.row).op}-{self.name}"


@functools.cache
def promises(op: str) -> Sequence[Promise]:
    """Returns the promises of an op, from the module of its family in ``conformance.promises``.

    A family is a file of ``spec/rows``. A family without a module has no promises.
    """
    name = f"conformance.promises.{family_of(op)}"
    if importlib.util.find_spec(name) is None:
        return ()
    return tuple(importlib.import_module(name).promises().get(op, ()))


def family_of(op: str) -> str:
    """Returns the file of ``spec/rows`` that has the rows of an op, without its suffix."""
    return spec.load().select(op=op)[0].family


def every_promise() -> tuple[Promise, ...]:
    """Returns the promises of every op that has rows of these kinds."""
    ops = {row.op for kind in KINDS for row in spec.load().select(kind=kind, active=True)}
    return tuple(promise for op in sorted(ops) for promise in promises(op))

"""What a promise of a row is, for rows that promise something whatever the mode is."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import spec
from conformance.case import exists

#: The kinds of rows that are tried by promises.
KINDS: tuple[spec.Kind, ...] = ("random", "loader")


@dataclasses.dataclass(frozen=True, eq=False)
class Promise:
    """One way to see that a row is kept.

    Attributes:
        row: Id of the row.
        name: Unique within the op.
        keep: Tries it on a namespace; raises AssertionError where the row is not kept.
        needs: The modules that it needs beside the namespace.
    """

    row: str
    name: str
    keep: Callable[[ModuleType], None]
    needs: tuple[str, ...] = ()

    @property
    def about(self) -> dict[str, Any]:
        """What a report says that was tried."""
        row = spec.load().row(self.row)
        return {"row": row.id, "op": row.op, "device": row.device, "sample": self.name}

    def __str__(self) -> str:
        """A name that the command line can pick: the row's id comes first."""
        return f"{self.row}-{spec.load().row(self.row).op}-{self.name}"


@functools.cache
def promises(op: str) -> Sequence[Promise]:
    """The promises of an op, from the module of ``conformance.promises`` that has its name."""
    name = f"conformance.promises.{op.lower()}"
    return tuple(importlib.import_module(name).promises()) if exists(name) else ()


def every_promise() -> tuple[Promise, ...]:
    """The promises of every op that has such rows."""
    ops = {row.op for kind in KINDS for row in spec.load().select(kind=kind, active=True)}
    return tuple(promise for op in sorted(ops) for promise in promises(op))

"""A case of a benchmark: a computation, and the sides that compute it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from conformance.benchmarks.sides import Program, Side
from conformance.benchmarks.torch_peer import TorchPeer

_Items = TypeVar("_Items", Mapping[str, Any], Sequence[Any])

#: The part of the memory of a machine that the arrays of a case may take.
_PART_OF_MEMORY = 16


@dataclasses.dataclass(frozen=True)
class Setting:
    """How the cases of a family are chosen.

    Attributes:
        times: The factor of the sizes.
        quick: Whether a family gives its smaller and fewer cases.
        torch: PyTorch; None without it.
        memory: The bytes of memory of the device.
    """

    times: int
    quick: bool
    torch: TorchPeer | None
    memory: int

    def some(self, items: _Items, count: int = 1) -> _Items:
        """Returns the items, or the first ``count`` of them in a quick run."""
        if not self.quick:
            return items
        if isinstance(items, Mapping):
            return dict(itertools.islice(items.items(), count))  # type: ignore[return-value]
        return items[:count]

    def fits(self, moved: int) -> bool:
        """Returns whether a case fits whose arguments and results have this many bytes."""
        return moved <= self.memory // _PART_OF_MEMORY


@dataclasses.dataclass(frozen=True)
class Case:
    """A computation that several sides do.

    Attributes:
        about: The description of the case, by column of the table.
        sides: The sides, by name.
        ours: The name of the side whose arguments and result are the floor of the bytes moved.
        few: Whether a run takes so long that a tenth of the rounds suffices.
        n: The size of a case that is one of several sizes, for a curve; None otherwise.
    """

    about: Mapping[str, str]
    sides: Mapping[str, Side]
    ours: str
    few: bool = False
    n: int | None = None

    @property
    def program(self) -> Program | None:
        """The program of the side that is ours; None if that side runs no single program."""
        side = self.sides[self.ours]
        return side if isinstance(side, Program) else None

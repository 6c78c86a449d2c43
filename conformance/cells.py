"""What there is to try: every combination of a sample, a direction, a device and a profile."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Iterator
from typing import Any

import spec
from conformance.case import Array, Sample, samples


@dataclasses.dataclass(frozen=True)
class Expected:
    """What an implementation of one PyTorch release does in a cell; ``documents`` finds it.

    Attributes:
        behaviour: What the mode does there; None where it changes nothing.
        row: The row that says so; None if none does.
        why: Why that is not what the profile lists, in a sentence; None if it is.
    """

    behaviour: spec.Behaviour | None
    row: spec.Row | None
    why: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Cell:
    """One thing to try, and the row that decides it.

    Attributes:
        op: Dotted name.
        sample: The call.
        direction: The call, or its pullback.
        device: The device it runs on.
        profile: The profile that holds.
        row: The row that decides; None where the profile lists nothing.
        instead: What is to be expected where it is not what the profile lists.
    """

    op: str
    sample: Sample
    direction: spec.Direction
    device: str
    profile: str
    row: spec.Row | None
    instead: Expected | None = None

    @property
    def inputs(self) -> tuple[Array, ...]:
        """The arrays to call with."""
        return self.sample.inputs(self.direction)

    def call(self, way: str = "native") -> tuple[Hashable, ...]:
        """What is called and how it is run, whichever profile holds: names what is made for it."""
        return self.sample, self.direction, way

    @property
    def listed(self) -> spec.Behaviour | None:
        """What the profile lists."""
        row = self.row
        return row.behaviour[self.profile] if row else None

    @property
    def behaviour(self) -> spec.Behaviour | None:
        """What the mode does here."""
        return self.instead.behaviour if self.instead else self.listed

    @property
    def rule(self) -> spec.Row | None:
        """The row that says what is to be expected; None where none does."""
        return self.instead.row if self.instead else self.row

    @property
    def about(self) -> dict[str, Any]:
        """What a report says that was tried."""
        return {
            "row": self.row.id if self.row else None,
            "op": self.op,
            "direction": self.direction,
            "device": self.device,
            "profile": self.profile,
            "sample": self.sample.name,
            "behaviour": self.listed,
            **({"detail": difference(self.instead)} if self.instead else {}),
        }

    def __str__(self) -> str:
        """A name that the command line can pick: the row's id comes first."""
        row = self.row.id if self.row else "unlisted"
        return f"{row}-{self.op}-{self.direction}-{self.device}-{self.profile}-{self.sample.name}"


def difference(expected: Expected) -> str:
    """What is expected in place of what is listed, and why: ``raise; Erratum of ...``."""
    return f"{expected.behaviour or 'unaffected'}; {expected.why}"


def tried_ops() -> tuple[str, ...]:
    """The ops of the spec that have samples, in alphabetical order."""
    ops = sorted({row.op for row in spec.load().select(kind="op", active=True)})
    return tuple(op for op in ops if samples(op))


@functools.cache
def cells() -> tuple[Cell, ...]:
    """Every cell of every op that has samples."""
    return tuple(_cells(spec.load()))


def _cells(rules: spec.Spec) -> Iterator[Cell]:
    for op in tried_ops():
        for sample in samples(op):
            for direction in sample.directions:
                for device in spec.DEVICES:
                    for profile in rules.profiles:
                        row = spec.deciding_row(
                            rules.rows, op, direction, device, sample.facts, profile
                        )
                        yield Cell(op, sample, direction, device, profile, row)

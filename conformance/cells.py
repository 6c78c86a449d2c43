"""What there is to try: every combination of a sample, a direction, a device and a profile."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator
from typing import Any

import spec
from conformance.case import Sample, samples


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
    """

    op: str
    sample: Sample
    direction: spec.Direction
    device: spec.Device
    profile: str
    row: spec.Row | None

    @property
    def behaviour(self) -> spec.Behaviour | None:
        """What the mode does here."""
        return self.row.behaviour[self.profile] if self.row else None

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
            "behaviour": self.behaviour,
        }

    def __str__(self) -> str:
        """A name that the command line can pick: the row's id comes first."""
        row = self.row.id if self.row else "unlisted"
        return f"{row}-{self.op}-{self.direction}-{self.device}-{self.profile}-{self.sample.name}"


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

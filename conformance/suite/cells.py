"""Cells: every combination of a sample, a direction, a device and a profile.

A cell is one thing to test. ``spec.resolve`` answers what the mode does there.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import Any

import spec
from conformance.adapters.base import resolve
from conformance.cases.table import Array, Sample, samples


@dataclasses.dataclass(frozen=True)
class ReleaseBehaviour:
    """The behaviour of one PyTorch release in a cell. ``conformance.suite.releases`` derives it.

    Attributes:
        behaviour: The effect of the mode. None where the mode changes nothing.
        row: The row that states the behaviour, or None.
        caller: The op's name in an alert; None if the release gives none, or no row states it.
        reason: Why the profile lists another behaviour, in a sentence. None if it does not.
    """

    behaviour: spec.Behaviour | None
    row: spec.Row | None
    caller: str | None = None
    reason: str | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Cell:
    """A call under a profile, and what the mode does with it.

    Attributes:
        op: Dotted name.
        sample: The call.
        direction: ``forward`` for the call, ``backward`` for its gradient.
        device: The device that the row is tested for.
        profile: The profile that holds.
        answer: The spec's answer with the mode on, whether the profile lists the call or not.
        release: The behaviour to expect of a PyTorch release, where the profile lists another.
    """

    op: str
    sample: Sample
    direction: spec.Direction
    device: str
    profile: str
    answer: spec.Answer
    release: ReleaseBehaviour | None = None

    @property
    def row(self) -> spec.Row | None:
        """The row that decides. None where the profile lists nothing."""
        return self.answer.row if self.answer.listed else None

    @property
    def inputs(self) -> tuple[Array, ...]:
        """The arrays to call the function with."""
        return self.sample.inputs(self.direction)

    def call(self, lowering: str = "native") -> tuple[Hashable, ...]:
        """Returns a key for programs: the call and its lowering, whatever the profile is."""
        return self.sample, self.direction, lowering

    @property
    def listed(self) -> spec.Behaviour | None:
        """The behaviour that the profile lists."""
        return self.answer.behaviour if self.answer.listed else None

    @property
    def behaviour(self) -> spec.Behaviour | None:
        """The behaviour to expect of a listed call. None where nothing is listed."""
        return self.release.behaviour if self.release else self.listed

    @property
    def expected_row(self) -> spec.Row | None:
        """The row that states the behaviour to expect, or None."""
        return self.release.row if self.release else self.row

    @property
    def states_bits(self) -> bool:
        """Whether the row states the bits of the call, rather than that runs have equal bits."""
        return self.expected_row is not None and self.expected_row.guarantee == "portable"

    @property
    def caller(self) -> str | None:
        """The op's name in an alert, if the behaviour to expect is one."""
        if self.release:
            return self.release.caller
        return self.row.callers.get(self.profile) if self.row else None

    @property
    def about(self) -> dict[str, Any]:
        """The fields of a report's record that identify the cell."""
        return {
            "row": self.row.id if self.row else None,
            "op": self.op,
            "direction": self.direction,
            "device": self.device,
            "profile": self.profile,
            "sample": self.sample.name,
            "behaviour": self.listed,
            **self._difference(),
        }

    def _difference(self) -> dict[str, str]:
        if self.release is None or self.release.reason is None:
            return {}
        return {"detail": difference(self.release)}

    def __str__(self) -> str:
        """Returns a name that the command line can select. It begins with the id of the row."""
        row = self.row.id if self.row else "unlisted"
        return f"{row}-{self.op}-{self.direction}-{self.device}-{self.profile}-{self.sample.name}"


def difference(expected: ReleaseBehaviour) -> str:
    """Returns the behaviour to expect and the reason: ``raise; Erratum of ...``."""
    return f"{expected.behaviour or 'unaffected'}; {expected.reason}"


def words_of(sample: Sample) -> Hashable:
    """Returns the facts of a call that choose a path of an op's code: those that are words."""
    return frozenset(fact for fact in sample.facts.items() if isinstance(fact[1], str))


def ops_with_samples() -> tuple[str, ...]:
    """Returns the ops of the spec that have samples, in alphabetical order."""
    ops = sorted({row.op for row in spec.load().select(kind="op", active=True)})
    return tuple(op for op in ops if samples(op))


@functools.cache
def cells() -> tuple[Cell, ...]:
    """Returns every cell of every op that has samples."""
    return tuple(_cells(spec.load()))


def _cells(rules: spec.Spec) -> Iterator[Cell]:
    for op in ops_with_samples():
        for sample in samples(op):
            for direction in sample.directions:
                for device in spec.DEVICES:
                    for profile in rules.profiles:
                        answer = spec.resolve(op, direction, device, sample.facts, profile)
                        yield Cell(op, sample, direction, device, profile, answer)


def portable_cells(among: Iterable[Cell], devices: Collection[str]) -> list[Cell]:
    """Returns cells of devices that are exact under ``portable``, by rules for JAX's primitives.

    There is one for each row, direction and dtype.
    """
    first: dict[Hashable, Cell] = {}
    for cell in among:
        row = cell.row
        if row is None or cell.device not in devices or cell.behaviour != "deterministic":
            continue
        answer, dtype = spec.portable_answer(row), cell.sample.facts.get("dtype")
        if answer == "rule" and cell.sample.oracle(cell.direction) is not None:
            first.setdefault((row.id, cell.direction, dtype), cell)
    return list(first.values())


def to_edit(row: spec.Row | None, op: str, namespace: Any) -> Iterator[str]:
    """Yields the sources of an op and its row, one of which may be wrong, as lines of text."""
    module = getattr(resolve(namespace, op), "__module__", None) or "the namespace"
    yield f"edit:  {op} in {module}, if the implementation is wrong"
    rows = [row] if row is not None else spec.load().select(op=op)
    files = dict.fromkeys(f"spec/rows/{each.family}.toml" for each in rows)
    state = "missing" if row is None else "wrong"
    yield f"       {', '.join(files)}, if a row is {state}"

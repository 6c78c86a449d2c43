"""The form of an answer: the words, and the cell."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, TypeAlias

import spec

Word: TypeAlias = Literal[
    "raises",
    "refused",
    "may vary",
    "unknown",
    "deterministic",
    "ordered under complete",
    "fills",
    "same bits anyway",
    "exact everywhere",
    "JAX's rules",
]
#: The words, and what each means wherever it stands: the legend of a table. The first of several
#: words is the one that a reader has to know first.
WORDS: Mapping[Word, str] = {
    "raises": "The call raises an error that names it, or warns if `warn_only=True`.",
    "refused": "The guarantee `portable` has no path for it, and raises an error with the reason.",
    "may vary": "Two runs of one program on one machine can give other bits.",
    "unknown": "Nothing that the mode does can decide whether two runs give the same bits.",
    "deterministic": "The mode runs a deterministic algorithm, as the profile lists it.",
    "ordered under complete": (
        "PyTorch's documents do not list the call. The mode runs the deterministic algorithm of"
        " the profile `complete`."
    ),
    "fills": "The mode writes a known value into memory that would otherwise be uninitialized.",
    "same bits anyway": "Each run gives the same bits, also with the mode off.",
    "exact everywhere": (
        "The bits are the same on a CPU and on any GPU, over any number of devices."
    ),
    "JAX's rules": (
        "The call is made of primitives of JAX, and the rules of the guarantee `portable` hold for"
        " them: each gives the same bits everywhere, or is refused by name."
    ),
}
#: The sentence about memory that is not filled.
NOT_FILLED = "The memory is not filled: it keeps what it held, which can be anything."
SAME: Word = "same bits anyway"
#: The guarantee of a cell with the mode off.
OFF = None
#: The guarantees that a user can ask for.
GUARANTEES = ("run_to_run", "portable")


@dataclasses.dataclass(frozen=True)
class Cell:
    """The answer to the calls of an op that the rows do not tell apart.

    Attributes:
        op: The dotted name of the op: ``nn.functional.pad``, or ``lax.scatter_add``.
        kind: ``op`` for a function of ``impl``, ``primitive`` for a primitive of JAX.
        direction: ``forward`` for the call, ``backward`` for its gradient.
        device: The name of the device.
        condition: The calls, in English; empty for all of them. Among cells that differ in nothing
            else, the first one whose condition holds is the answer. So a cell without a condition
            is for all calls that meet no earlier condition.
        calls: The facts of one call for each case that the rows tell apart.
        profile: The profile; None where it does not matter: with the mode off, and for primitives
            of JAX.
        guarantee: ``run_to_run`` or ``portable``; None with the mode off.
        word: The answer.
        sentence: The answer to a person who sees no other cell.
        row: The id of the row that decides; None if no row does.
        order: The name of the order of the path that is taken; None if it has none.
        primitives: The names in a jaxpr that the cell is about; none for an op.
    """

    op: str
    kind: Literal["op", "primitive"]
    direction: spec.Direction
    device: str
    condition: str
    calls: tuple[spec.Facts, ...]
    profile: str | None
    guarantee: str | None
    word: Word
    sentence: str
    row: str | None = None
    order: str | None = None
    primitives: tuple[str, ...] = ()


def ops(rules: spec.Spec | None = None) -> tuple[str, ...]:
    """Returns the names of the ops, in alphabetical order."""
    rules = rules or spec.load()
    return tuple(sorted({row.op for row in rules.select(kind="op", active=True)}))


def primitives(rules: spec.Spec | None = None) -> tuple[str, ...]:
    """Returns the names that rows have for JAX's primitives, in alphabetical order."""
    rules = rules or spec.load()
    return tuple(sorted({row.op for row in rules.primitives if row.active}))


def devices(rules: spec.Spec | None = None) -> tuple[str, ...]:
    """Returns the names of the devices that JAX has a platform for."""
    rules = rules or spec.load()
    return tuple(device.name for device in rules.devices.values() if device.platforms)

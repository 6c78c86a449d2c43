"""The findings about the elementary functions, and the records of a report that keep them."""

from __future__ import annotations

import dataclasses

from conformance.reporting import report
from conformance.reporting.report import Record

#: The name of the check.
CHECK = "correctly rounded"
_KINDS = {
    "every": "every argument",
    "some": "one argument in 16, since it divides two results of log",
    "significands": "every significand, with exponents -64 to 64",
    "random": "random pairs",
}
#: The number of the hardest arguments that a report names, and the words before them.
_HARDEST = 4
_HARDEST_ARE = "; hardest "


@dataclasses.dataclass
class Outcome:
    """The findings about a function.

    Attributes:
        tried: The number of arguments.
        by_mpmath: The number of results that mpmath decided.
        wrong: The results that are not correctly rounded: the arguments and the result.
        error: The greatest error of those, in units in the last place.
        contracted: The arguments whose result depends on contraction.
        hardest: The arguments whose value is closest to the middle of two floats: the distance in
            units in the last place, and the arguments.
    """

    tried: int = 0
    by_mpmath: int = 0
    wrong: list[tuple[tuple[float, ...], float]] = dataclasses.field(default_factory=list)
    error: float = 0.5
    contracted: list[float] = dataclasses.field(default_factory=list)
    hardest: list[tuple[float, tuple[float, ...]]] = dataclasses.field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Adds the findings about other arguments."""
        self.tried += other.tried
        self.by_mpmath += other.by_mpmath
        self.wrong += other.wrong
        self.error = max(self.error, other.error)
        self.contracted += other.contracted
        self.hardest = sorted(self.hardest + other.hardest)[:_HARDEST]

    def is_faultless(self) -> bool:
        """Returns whether every result is correctly rounded, however products are contracted."""
        return not self.wrong and not self.contracted


def record(name: str, kind: str, dtype: str, outcome: Outcome, seconds: float) -> Record:
    """Returns the record of a function and a dtype.

    Args:
        name: The name of the function.
        kind: The arguments that were tried: ``every``, ``some``, ``significands`` or ``random``.
        dtype: The name of the dtype.
        outcome: The findings.
        seconds: The time that all dtypes took.
    """
    detail = f"{outcome.tried:,} arguments, {outcome.by_mpmath} decided by mpmath"
    if not outcome.is_faultless():
        detail += f", {len(outcome.wrong)} wrong, {len(outcome.contracted)} depend on contraction"
    hardest = ", ".join(" ".join(map(float.hex, each)) for _, each in outcome.hardest)
    detail = f"{_KINDS[kind]}: {detail}" + (f"{_HARDEST_ARE}{hardest}" if hardest else "")
    fields = {"op": name, "device": "cpu", "check": CHECK, "sample": dtype, "detail": detail}
    return report.from_property(fields, "passed" if outcome.is_faultless() else "failed", seconds)


def hardest(record: Record) -> list[list[float]]:
    """Returns the hardest arguments that a record of ``record`` names, each as a list."""
    _, _, words = (record.detail or "").partition(_HARDEST_ARE)
    return [[float.fromhex(word) for word in each.split()] for each in words.split(",") if words]

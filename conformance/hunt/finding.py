"""The record of a finding."""

from __future__ import annotations

import dataclasses

from conformance.hunt.oracles import Wrong
from conformance.hunt.program import Program
from conformance.hunt.settings import Setting


@dataclasses.dataclass(frozen=True)
class Finding:
    """A fault, with the program that shows it.

    Attributes:
        kind: Its kind, as in the table of ``conformance.hunt.checks``.
        program: The program.
        setting: The setting that differs from ``BASE``, or in which the program fails.
        detail: A sentence, a message, or the numbers of results.
        mark: The text that stays while the program shrinks: a token, or the start of a message.
        wrong: The wrong element of a finding of the kind ``value``.
    """

    kind: str
    program: Program
    setting: Setting
    detail: str
    mark: str = ""
    wrong: Wrong | None = None

"""Asks every oracle about a program, and tells faults of this project from what JAX does, too.

===========  ======================================================================================
kind         a finding
===========  ======================================================================================
``bits``     two settings give other bits
``value``    an equation has another value than its oracle says
``error``    a program fails, or is refused, and runs with the mode off
``crash``    the process ends, and plain JAX runs the program
``hang``     the program does not end in time, and ends in plain JAX
``audit``    ``impl.audit`` calls a program portable that is refused, or the reverse
``off``      with the mode off, the lowered program is another one than without this project
===========  ======================================================================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from conformance.hunt.crew import Crew
from conformance.hunt.oracles import Wrong
from conformance.hunt.program import Program
from conformance.hunt.settings import BASE, Setting, base_of

#: Answers of a worker that has ended.
_ENDED = ("crash", "hang")


@dataclasses.dataclass(frozen=True)
class Finding:
    """A fault, with the program that shows it.

    Attributes:
        kind: Its kind, as in the table of this module.
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


def check(
    crew: Crew, program: Program, settings: Sequence[Setting], extra: Sequence[str] = ()
) -> tuple[Finding | None, dict[str, Any]]:
    """Runs a program in its settings, and returns the first finding and the answer for ``BASE``.

    Args:
        crew: The workers.
        program: The program.
        settings: The settings that are compared with ``BASE``.
        extra: Further oracles: ``value``, ``audit``, ``off``.
    """
    asks = ["digests", "equations", *(["audit"] if "audit" in extra else [])]
    judges = "value" in extra and program.derivative == "none"
    asks += ["values"] if judges else []
    bases = [*dict.fromkeys(base_of(each, program) for each in settings)]
    bases = [each for each in bases if each != BASE]
    runs = [*bases, *settings]
    answers = crew.run_all(program, runs, asks)
    base = answers[0]
    by_setting = dict(zip((BASE, *bases), answers, strict=False))
    finding: Finding | None = None
    for setting, answer in zip((BASE, *runs), answers, strict=True):
        compared = answer if setting in bases else by_setting[base_of(setting, program)]
        finding = _of_answer(crew, program, setting, answer, compared)
        if finding is not None:
            return finding, base
    if judges and "digests" in base:
        finding = of_values(crew, program, base)
    if finding is None and "audit" in extra:
        finding = _of_audit(program, base)
    if finding is None and "off" in extra and "digests" in base:
        finding = of_mode_off(crew, program)
    return finding, base


def _of_answer(
    crew: Crew, program: Program, setting: Setting, answer: dict[str, Any], base: dict[str, Any]
) -> Finding | None:
    if "missing" in answer:
        return None
    if "error" in answer:
        return of_error(crew, program, setting, answer)
    if "digests" not in base or answer["digests"] == base["digests"]:
        return None
    pairs = zip(base["digests"], answer["digests"], strict=True)
    differing = [str(i) for i, (a, b) in enumerate(pairs) if a != b]
    return Finding("bits", program, setting, f"results {', '.join(differing)} have other bits")


def of_error(
    crew: Crew, program: Program, setting: Setting, answer: dict[str, Any]
) -> Finding | None:
    """Returns a finding if a program fails that runs in plain JAX."""
    kind = answer["error"] if answer["error"] in _ENDED else "error"
    plain = crew.run(program, setting, plain=True)
    if "digests" not in plain:
        return None
    mark = f"{answer['error']}: {_start(answer['message'])}"
    return Finding(kind, program, setting, answer["message"], mark)


def _start(message: str) -> str:
    """Returns the words of a message before its first number or name of a line."""
    words = message.split()
    return " ".join(word for word in words[:6] if word.replace("_", "").isalpha())


def of_values(crew: Crew, program: Program, answer: dict[str, Any] | None = None) -> Finding | None:
    """Returns a finding if an equation has a wrong value; ``answer`` has all variables."""
    found = crew.wrong(program, answer)
    if not found:
        return None
    first = found[0]
    token = program.equations[first.variable - program.primals].token
    return Finding("value", program, BASE, first.sentence, token, first)


def _of_audit(program: Program, base: dict[str, Any]) -> Finding | None:
    audit = base.get("audit")
    if audit is None or audit["ok"]:
        return None
    return Finding("audit", program, BASE, audit["text"])


def of_mode_off(crew: Crew, program: Program) -> Finding | None:
    """Returns a finding if the mode, while it is off, changes the lowered program."""
    off = crew.run(program, BASE, ("text",), off=True)
    plain = crew.run(program, BASE, ("text",), plain=True)
    if "text" not in off or "text" not in plain or off["text"] == plain["text"]:
        return None
    detail = f"with the mode off, the lowered text is another one; plain JAX's is {plain['text']}"
    return Finding("off", program, BASE, detail)


def again(crew: Crew, finding: Finding) -> Finding | None:
    """Runs the program of a finding once more; returns a finding of the same kind, or None."""
    program, setting = finding.program, finding.setting
    if finding.kind == "value":
        found = of_values(crew, program)
    elif finding.kind == "off":
        found = of_mode_off(crew, program)
    elif finding.kind == "bits":
        first = crew.run(program, base_of(setting, program))
        second = crew.run(program, setting)
        found = _of_answer(crew, program, setting, second, first) if "digests" in second else None
    else:
        asks = ["digests", *(["audit"] if finding.kind == "audit" else [])]
        answer = crew.run(program, setting, asks)
        found = (
            of_error(crew, program, setting, answer)
            if "error" in answer
            else _of_audit(program, answer)
        )
    same = found is not None and (found.kind, found.mark) == (finding.kind, finding.mark)
    return found if same else None

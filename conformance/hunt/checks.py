"""Asks every oracle about a program, and tells faults of this project from what JAX does, too.

===========  ======================================================================================
kind         a finding
===========  ======================================================================================
``bits``     two settings give other bits
``value``    an equation has another value than its oracle says
``error``    a program fails, or is refused, and runs with the mode off
``crash``    the process ends, and plain JAX runs the program
``hang``     the program does not end in time, and ends in plain JAX
``gradient`` a derivative is far from plain JAX's, which float64 confirms
``growth``   the lowered program grows faster than the number of its equations
``refusal``  a program is not refused by name, although an equation has no portable path
``audit``    ``impl.audit`` calls a program refused that runs, or one portable whose lowered text
             has sums or functions of the platform
``off``      with the mode off, or in a scope without a guarantee, the lowered program is another
             one than without this project
===========  ======================================================================================
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from conformance.hunt import whole
from conformance.hunt.crew import Crew
from conformance.hunt.finding import Finding as Finding
from conformance.hunt.program import Program
from conformance.hunt.settings import BASE, Setting, base_of

#: Answers of a worker that has ended.
_ENDED = ("crash", "hang")


def check(
    crew: Crew, program: Program, settings: Sequence[Setting], extra: Sequence[str] = ()
) -> tuple[Finding | None, dict[str, Any]]:
    """Runs a program in its settings, and returns the first finding and the answer for ``BASE``.

    Args:
        crew: The workers.
        program: The program.
        settings: The settings that are compared with ``BASE``.
        extra: Further oracles: ``value``, ``audit``, ``growth``, ``off``.
    """
    if whole.must_be_refused(program):
        return whole.of_refusal(crew, program), {}
    asks = ["digests", "equations", *(["audit"] if "audit" in extra else [])]
    judges = "value" in extra and program.derivative == "none"
    has_gradient = "value" in extra and whole.is_smooth(program)
    asks += ["values"] if judges else ["results"] if has_gradient else []
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
    if finding is None and has_gradient and "digests" in base:
        finding = whole.of_gradient(crew, program, base)
    if finding is None and "audit" in extra:
        finding = whole.of_audit(program, base)
    if finding is None and "growth" in extra and "digests" in base:
        finding = whole.of_growth(crew, program)
    if finding is None and "digests" in base:
        finding = _of_texts(crew, program, settings, everything="off" in extra)
    return finding, base


def _of_texts(
    crew: Crew, program: Program, settings: Sequence[Setting], *, everything: bool
) -> Finding | None:
    """Compares lowered texts with the texts of plain JAX: it compiles nothing, so it is cheap."""
    shared = [each for each in settings if each.partition == "shard_map"]
    shared = [dataclasses.replace(each, call="jit", worker=0) for each in shared[:1]]
    texts = [(each, how) for each in shared for how in ("scope", "sums")]
    texts += [(BASE, "mode"), (BASE, "scope")] if everything else []
    for setting, how in texts:
        finding = whole.of_mode_off(crew, program, setting, how)
        if finding is not None:
            return finding
    return None


def _of_answer(
    crew: Crew, program: Program, setting: Setting, answer: dict[str, Any], base: dict[str, Any]
) -> Finding | None:
    if "missing" in answer:
        return None
    if "error" in answer:
        return of_error(crew, program, setting, answer)
    finding = _of_bits(program, setting, answer, base)
    if finding is not None and setting.call == "constants":
        return _of_constants(crew, program, setting, base)
    return finding


def _of_bits(
    program: Program, setting: Setting, answer: dict[str, Any], base: dict[str, Any]
) -> Finding | None:
    both = "digests" in answer and "digests" in base
    if not both or answer["digests"] == base["digests"]:
        return None
    pairs = zip(base["digests"], answer["digests"], strict=True)
    differing = [str(i) for i, (a, b) in enumerate(pairs) if a != b]
    return Finding("bits", program, setting, f"results {', '.join(differing)} have other bits")


def _of_constants(
    crew: Crew, program: Program, setting: Setting, base: dict[str, Any]
) -> Finding | None:
    """Returns a finding if constants give other bits, but not where XLA kept a subnormal number.

    The guarantee takes subnormal numbers for zeros. XLA keeps them in what it computes from
    constants while it compiles, and a later equation may make a normal number of one. So the same
    program has to differ with other values, which are far from subnormal numbers.
    """
    as_arguments = dataclasses.replace(setting, call="jit")
    finding = _of_bits(program, as_arguments, crew.run(program, as_arguments), base)
    if finding is not None:
        return finding
    ordinary = program.with_ordinary_values()
    bases = crew.run(ordinary, base_of(setting, ordinary))
    return _of_bits(ordinary, setting, crew.run(ordinary, setting), bases)


def of_error(
    crew: Crew, program: Program, setting: Setting, answer: dict[str, Any]
) -> Finding | None:
    """Returns a finding if a program fails that runs in plain JAX.

    The first worker has options of XLA with which most programs compile in a third of the time, but
    a sum of a few float64 in minutes. So a program must not end with the second worker's, either.
    """
    kind = answer["error"] if answer["error"] in _ENDED else "error"
    if kind == "hang" and setting.call == "integers":
        return None  # Plain JAX would compile another program: the engine has ten times as much.
    if kind == "hang" and setting.worker == 0:
        usual = dataclasses.replace(setting, worker=1)
        if "digests" in crew.run(program, usual):
            return None
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


def again(crew: Crew, finding: Finding) -> Finding | None:
    """Runs the program of a finding once more; returns a finding of the same kind, or None."""
    program, setting = finding.program, finding.setting
    found: Finding | None
    if finding.kind == "bits":
        first = crew.run(program, base_of(setting, program))
        second = crew.run(program, setting)
        found = _of_answer(crew, program, setting, second, first) if "digests" in second else None
    elif finding.kind in _ALONE:
        found = _ALONE[finding.kind](crew, finding)
    else:
        answer = crew.run(program, setting)
        found = of_error(crew, program, setting, answer) if "error" in answer else None
    same = found is not None and (found.kind, found.mark) == (finding.kind, finding.mark)
    return found if same else None


#: The kinds of findings that are about a program, and not about a setting of it.
_ALONE: dict[str, Callable[[Crew, Finding], Finding | None]] = {
    "value": lambda crew, old: of_values(crew, old.program),
    "gradient": lambda crew, old: whole.of_gradient(crew, old.program),
    "growth": lambda crew, old: whole.of_growth(crew, old.program),
    "refusal": lambda crew, old: whole.of_refusal(crew, old.program),
    "audit": lambda crew, old: whole.of_audit(
        old.program, crew.run(old.program, BASE, ("digests", "audit"))
    ),
    "off": lambda crew, old: whole.of_mode_off(crew, old.program, old.setting, old.mark),
}

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
             has sums or functions of the platform, on one device or in a ``shard_map``
``off``      with the mode off, or in a scope without a guarantee, the lowered program is another
             one than without this project
===========  ======================================================================================

Plain JAX has no exact derivative, but it has two: one in the dtypes of the program, and one whose
arguments are float64. Their distance is the noise of rounding, which a right derivative does not
exceed by much. A program that is called 2, 4 and 8 times, each time at later arguments, has a
lowered text whose operations grow in proportion::

    calls            2      4      8
    operations     410    800   1580    twice 390, as it should be
    operations     410   1300   4900    4 times 890: a finding
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from conformance.hunt import oracles, source
from conformance.hunt.crew import Crew
from conformance.hunt.program import Array, Program, packed, unpacked
from conformance.hunt.settings import BASE, Setting, base_of
from conformance.hunt.tokens import TOKENS

#: Answers of a worker that has ended.
_ENDED = ("crash", "hang")
#: The most equations of a program that is called so often.
_LONG = 3
#: The greatest noise of a derivative that is judged, and how far one may be from float64's: a
#: multiple of the noise, and of the last place of its dtype. Both are relative to the greatest
#: element of an array.
_NOISE, _TIMES_NOISE, _TIMES_EPS = 0.02, 30.0, 500.0
#: The most letters before the words "has no portable path" in a message.
_FIRST_WORDS = 400


@dataclasses.dataclass(frozen=True)
class Finding:
    """A fault of a kind of this module's table, with the program that shows it.

    ``setting`` differs from ``BASE``, or makes the program fail. ``mark`` is the text that stays
    while the program shrinks: a token, or the start of a message.
    """

    kind: str
    program: Program
    setting: Setting
    detail: str
    mark: str = ""

    @property
    def primitives(self) -> list[str]:
        """The primitives that the equations of the program were drawn for."""
        names = [TOKENS[each.token].primitives for each in self.program.equations]
        return list(dict.fromkeys(name for each in names for name in each))


def check(
    crew: Crew, program: Program, settings: Sequence[Setting], extra: Sequence[str] = ()
) -> tuple[Finding | None, dict[str, Any]]:
    """Runs a program in its settings, and returns the first finding and the answer for ``BASE``.

    The settings are compared with ``BASE``. ``extra`` are further oracles: ``audit``, ``growth``,
    ``off``.
    """
    if must_be_refused(program):
        return of_refusal(crew, program), {}
    judges, is_derived = program.derivative == "none", is_smooth(program)
    usual = ["digests", *(["audit"] if "audit" in extra else [])]
    own = ["equations", "values"] if judges else ["equations", "results"][: 1 + is_derived]
    # Where a program has no derivative, one run of all variables serves two oracles.
    base = crew.run(program, BASE, usual + own, all_variables=judges)
    if judges and "digests" in base:
        base["digests"] = [base["digests"][v - program.primals] for v in program.outputs]
    answers = {BASE: base}
    finding = _of_answer(crew, program, BASE, base, base)
    for setting in settings:
        first = base_of(setting, program)
        for each in dict.fromkeys((first, setting)):
            if finding is None and each not in answers:
                # A ``shard_map`` has sums over devices, and a release has primitives of its own.
                own_release = each.worker > 1 and each.partition == "none"
                has_sums = each.partition == "shard_map"
                asks = usual if each is setting and (own_release or has_sums) else ["digests"]
                answers[each] = crew.run(program, each, asks)
                finding = _of_answer(crew, program, each, answers[each], answers[first])
    if finding is not None or "digests" not in base:
        return finding, base
    if judges:
        finding = of_values(crew, program, base)
    elif is_derived:
        finding = of_gradient(crew, program, base)
    for setting, answer in answers.items():
        finding = finding or of_audit(program, answer, setting)
    if finding is None and "growth" in extra:
        finding = of_growth(crew, program)
    if finding is None:
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
        finding = of_mode_off(crew, program, setting, how)
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
    answer = answer or crew.run(program, BASE, ("digests", "values"), all_variables=True)
    if "values" not in answer:
        return None
    own = [each.values() for each in program.inputs[: program.primals]]
    variables = [*own, *map(unpacked, answer["values"])]
    text, names = source.references(program, oracles.REFERENCES)
    references: dict[tuple[int, str], Array] = {}
    if names:
        # Equations that are compared bit by bit have JAX's own widths.
        request = {"source": text, "asks": ["references"], "mode": "off", "wide": True}
        answer = crew.ask({**request, "variables": [*map(packed, variables)]})
        if "values" not in answer:
            return None
        references = dict(zip(names, map(unpacked, answer["values"]), strict=True))
    wrong = oracles.wrong(program, variables, references)
    if not wrong:
        return None
    first = wrong[0]
    token = program.equations[first.variable - program.primals].token
    return Finding("value", program, BASE, first.sentence, token)


def must_be_refused(program: Program) -> bool:
    """Returns whether the guarantee refuses an equation."""
    return any(TOKENS[each.token].refused for each in program.equations)


def of_refusal(crew: Crew, program: Program) -> Finding | None:
    """Returns a finding if a program is not refused by name that has to be."""
    if not must_be_refused(program):
        return None
    token = next(each for e in program.equations if (each := TOKENS[e.token]).refused)
    name = token.primitives[0] if token.primitives else token.name
    audit = crew.run(program, BASE, ("audit",))
    answer = crew.run(program, BASE)
    if "missing" in answer or "missing" in audit:
        return None
    if audit.get("audit", {}).get("ok", True):
        message = audit.get("message", "it calls the program portable")
        return Finding("refusal", program, BASE, f"the audit of {name}: {message}", "audit")
    # Not by the name of a primitive inside of it, which its author may not know.
    first = answer.get("message", "").partition("has no portable path")[0]
    if not first.removeprefix("lax.").startswith(f"{name} of ") or len(first) > _FIRST_WORDS:
        message = f"{answer.get('error', 'it runs')}: {answer.get('message', '')}"
        return Finding("refusal", program, BASE, f"{name} is not refused; {message}", name)
    return None


def of_audit(program: Program, answer: dict[str, Any], setting: Setting = BASE) -> Finding | None:
    """Returns a finding if the audit's verdict is not what the lowered program shows."""
    audit = answer.get("audit")
    if audit is None or "digests" not in answer:
        return None
    if not audit["ok"]:
        return Finding("audit", program, setting, audit["text"], "refused")
    # The reader cannot prove that the slices of a sum of float64 are added without error.
    lines = [x for x in answer.get("varying", ()) if not (program.is_wide and "sums are" in x)]
    if lines:
        detail = f"the audit calls it portable, but: {'; '.join(lines)}"
        return Finding("audit", program, setting, detail, "varying")
    return None


def of_mode_off(crew: Crew, program: Program, setting: Setting, how: str) -> Finding | None:
    """Returns a finding if the lowered program is not the one of JAX without this project.

    ``how`` is ``mode``, with the mode off, or ``scope``, in a scope without a guarantee. With
    ``sums``, the sums over devices alone are in such a scope, and stay as many.
    """
    if how == "sums":
        return _of_exempt_sums(crew, program, setting)
    is_scope = how == "scope"
    off = crew.run(program, setting, ("text",), off=not is_scope, scope=is_scope)
    plain = crew.run(program, setting, ("text",), plain=True)
    if "text" not in off or "text" not in plain or off["text"] == plain["text"]:
        return None
    detail = f"off by {how}, the lowered text is another one; plain JAX's is {plain['text']}"
    return Finding("off", program, setting, detail, how)


def _of_exempt_sums(crew: Crew, program: Program, setting: Setting) -> Finding | None:
    primitives = {name for each in program.equations for name in TOKENS[each.token].primitives}
    if "psum" not in primitives or primitives & {"pmax", "pmin"} or program.derivative != "none":
        return None
    own = crew.run(program, setting, ("sums",), exempt=True).get("sums")
    plain = crew.run(program, setting, ("sums",), plain=True).get("sums")
    if own is None or plain is None or own == plain:
        return None
    detail = f"sums over devices in a scope without a guarantee are {own}, and {plain} in plain JAX"
    return Finding("off", program, setting, detail, "sums")


def of_growth(crew: Crew, program: Program) -> Finding | None:
    """Returns a finding if the lowered program grows faster than the number of its equations."""
    if program.derivative != "none" or len(program.equations) > _LONG:
        return None
    gradient = has_gradient(program)
    own = crew.run(program, BASE, ("growth",), gradient=gradient).get("growth")
    if own is None or not own["grows"]:
        return None
    plain = crew.run(program, BASE, ("growth",), plain=True, gradient=gradient).get("growth")
    if plain is None or plain["grows"]:
        return None
    detail = f"{own['counts']}, and {plain['counts']} in plain JAX"
    return Finding("growth", program, BASE, detail)


def has_gradient(program: Program) -> bool:
    """Returns whether ``of_growth`` asks for the gradient, too."""
    is_real = any("float" in each.aval.dtype for each in program.inputs)
    return is_real and all(TOKENS[each.token].has_derivative for each in program.equations)


def is_smooth(program: Program) -> bool:
    """Returns whether a program has a derivative, and no equation that jumps."""
    tokens = [TOKENS[each.token] for each in program.equations]
    return program.derivative != "none" and not any(each.jumps for each in tokens)


def of_gradient(crew: Crew, program: Program, base: dict[str, Any] | None = None) -> Finding | None:
    """Returns a finding if a derivative is far from plain JAX's.

    ``base`` is the answer of a worker with the results, if there is one.
    """
    if not is_smooth(program):
        return None
    asks = ("digests", "results")
    base = base or crew.run(program, BASE, asks)
    wide = crew.run(program, BASE, (*asks, "wide"), plain=True)
    # In a program, XLA makes |x| of sqrt(x * x), which has a derivative where x * x is 0.
    for call in ("jit", "eager"):
        plain = crew.run(program, dataclasses.replace(BASE, call=call), asks, plain=True)
        if not all("values" in each for each in (base, plain, wide)):
            return None
        if not (detail := _first_error(base, plain, wide)):
            return None
    return Finding("gradient", program, BASE, detail)


def _first_error(*answers: dict[str, Any]) -> str:
    """Returns which result of an answer is too far from the results of two others, or nothing."""
    arrays = ([*map(unpacked, each["values"])] for each in answers)
    for number, (own, near, right) in enumerate(zip(*arrays, strict=True)):
        error = _distance(own, near, right)
        if error is not None:
            return f"result {number} is {error[0]:.3g} off, and plain JAX's {error[1]:.3g}"
    return ""


def _distance(own: Array, near: Array, right: Array) -> tuple[float, float] | None:
    """Returns how far two arrays are from a third one, if the first is too far; None if not."""
    if own.size == 0 or "float" not in own.dtype.name or right.shape != own.shape:
        return None
    if own.dtype.name in ("float0", "float64"):
        return None
    eps = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}[own.dtype.name]
    first, second, third = (each.astype(np.float64) for each in (own, near, right))
    if not all(np.isfinite(each).all() for each in (second, third)):
        return None
    scale = max(float(np.abs(third).max()), 1e-30)
    noise = float(np.abs(second - third).max()) / scale
    error = float(np.abs(first - third).max()) / scale
    allowed = _TIMES_NOISE * noise + min(_TIMES_EPS * eps, 0.3)
    return None if noise > _NOISE or error <= allowed else (error, noise)


def again(crew: Crew, finding: Finding) -> Finding | None:
    """Runs the program of a finding once more; returns a finding of the same kind, or None."""
    program, setting = finding.program, finding.setting
    if finding.kind in _ALONE:
        new = _ALONE[finding.kind](crew, finding)
    else:
        first = crew.run(program, base_of(setting, program)) if finding.kind == "bits" else {}
        new = _of_answer(crew, program, setting, crew.run(program, setting), first)
    is_same = new is not None and (new.kind, new.mark) == (finding.kind, finding.mark)
    return new if is_same else None


#: The kinds of findings that are about a program, and not about a setting of it.
_ALONE: dict[str, Callable[[Crew, Finding], Finding | None]] = {
    "value": lambda crew, old: of_values(crew, old.program),
    "gradient": lambda crew, old: of_gradient(crew, old.program),
    "growth": lambda crew, old: of_growth(crew, old.program),
    "refusal": lambda crew, old: of_refusal(crew, old.program),
    "audit": lambda crew, old: of_audit(
        old.program, crew.run(old.program, old.setting, ("digests", "audit")), old.setting
    ),
    "off": lambda crew, old: of_mode_off(crew, old.program, old.setting, old.mark),
}

"""Oracles about a whole program: its derivative, its growth, its refusal, and its lowered text.

Plain JAX has no exact derivative, but it has two: one in the dtypes of the program, and one whose
arguments are float64. Their distance is the noise of rounding, which a right derivative does not
exceed by much. A program that is called 2, 4 and 8 times, each time at later arguments, has a
lowered text whose operations grow in proportion::

    calls            2      4      8
    operations     410    800   1580    twice 390, as it should be
    operations     410   1300   4900    4 times 890: a finding
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conformance.hunt.crew import Crew
from conformance.hunt.finding import Finding
from conformance.hunt.program import Array, Program, unpacked
from conformance.hunt.settings import BASE, Setting
from conformance.hunt.tokens import TOKENS

#: The most equations of a program that is called so often.
_LONG = 3
#: The greatest noise of a derivative that is judged, and how far one may be from float64's: a
#: multiple of the noise, and of the last place of its dtype. Both are relative to the greatest
#: element of an array.
_NOISE, _TIMES_NOISE, _TIMES_EPS = 0.02, 30.0, 500.0
#: The most letters before the words "has no portable path" in a message.
_FIRST_WORDS = 400
#: Primitives that jump: an argument that differs in its last bit may have another derivative.
_JUMPS = frozenset(
    {
        *("sort", "top_k", "max", "min", "clamp", "floor", "ceil", "round", "sign", "rem", "abs"),
        *(
            "reduce_max",
            "reduce_min",
            "argmax",
            "argmin",
            "cummax",
            "cummin",
            "convert_element_type",
        ),
        *("reduce_window_max", "reduce_window_min", "scatter-max", "scatter-min", "nextafter"),
        *("reduce_precision", "lt", "le", "gt", "ge", "eq", "ne", "is_finite", "qr", "geqrf", "lu"),
    }
)
#: Tokens of several equations that jump.
_JUMPING_TOKENS = frozenset({"median", "gelu", "elu", "q", "solve", "optax_clip"})


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


def of_audit(program: Program, base: dict[str, Any]) -> Finding | None:
    """Returns a finding if the audit's verdict is not what the lowered program shows."""
    audit = base.get("audit")
    if audit is None or "digests" not in base:
        return None
    if not audit["ok"]:
        return Finding("audit", program, BASE, audit["text"], "refused")
    # The reader cannot prove that the slices of a sum of float64 are added without error.
    if base.get("varying") and not program.is_wide:
        detail = f"the audit calls it portable, but: {'; '.join(base['varying'])}"
        return Finding("audit", program, BASE, detail, "varying")
    return None


def of_mode_off(crew: Crew, program: Program, setting: Setting, how: str) -> Finding | None:
    """Returns a finding if the lowered program is not the one of JAX without this project.

    Args:
        crew: The workers.
        program: The program.
        setting: Its setting.
        how: ``mode``, with the mode off, or ``scope``, in a scope without a guarantee. With
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
    return program.derivative != "none" and not any(
        each.name in _JUMPING_TOKENS or _JUMPS & set(each.primitives) for each in tokens
    )


def of_gradient(crew: Crew, program: Program, base: dict[str, Any] | None = None) -> Finding | None:
    """Returns a finding if a derivative is far from plain JAX's.

    Args:
        crew: The workers.
        program: The program.
        base: The answer of a worker with the results, if there is one.
    """
    if not is_smooth(program):
        return None
    base = base or crew.run(program, BASE, ("digests", "results"))
    plain = crew.run(program, BASE, ("digests", "results"), plain=True)
    wide = crew.run(program, BASE, ("digests", "results", "wide"), plain=True)
    if not all("values" in each for each in (base, plain, wide)):
        return None
    arrays = ([*map(unpacked, each["values"])] for each in (base, plain, wide))
    for number, (own, near, right) in enumerate(zip(*arrays, strict=True)):
        error = _distance(own, near, right)
        if error is not None:
            detail = f"result {number} is {error[0]:.3g} off, and plain JAX's {error[1]:.3g}"
            return Finding("gradient", program, BASE, detail)
    return None


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

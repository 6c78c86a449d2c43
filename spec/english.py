"""Renders conditions and effects in English, so that no page words them by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from spec.model import (
    LISTED,
    Behaviour,
    Device,
    Direction,
    Effect,
    Erratum,
    Fact,
    FactValue,
    Portability,
    PortableAnswer,
    Test,
)

#: The words for a call to which PyTorch's mode does nothing.
UNAFFECTED = "not affected by the mode"
#: The effect of the mode on a call, as a predicate.
EFFECTS: Mapping[Effect, str] = {
    "raises": "raises",
    "fills": "fills memory",
    "ordered": "deterministic",
    "ordered_unlisted": "ordered here, though PyTorch's documents are silent",
    "same": "the same bits anyway",
    "unknown": "unknown: no row states what happens",
}

#: The effect of the guarantee ``portable`` on the calls of a row about a function.
PORTABLE: Mapping[PortableAnswer, str] = {
    "exact": "the same path",
    "rule": "another path, of primitives of JAX",
    "refused": "refused",
}


def portability(found: Portability) -> str:
    """Returns what the guarantee ``portable`` does to a class of primitives, in sentences."""
    if found.answer == "refused":
        return f"Refused, because {found.reason}."
    way = "as it is" if found.answer == "exact" else "by a rule"
    only = f" The floats are {', '.join(sorted(found.dtypes))}." if found.dtypes else ""
    others = f" Others are refused, because {found.reason}." if found.limits else ""
    return f"Computed {way}. {found.statement}{only}{others}"


def portabilities(names: Sequence[str], classes: Sequence[Portability]) -> list[str]:
    """Returns what the guarantee ``portable`` does to primitives, a text for each class."""
    if len(classes) == 1:
        return [portability(classes[0])]
    members = (", ".join(f"`{n}`" for n in names if n in each.primitives) for each in classes)
    return [f"{of}: {portability(each)}" for of, each in zip(members, classes, strict=True)]


def verb(behaviour: Behaviour | None) -> str:
    """Returns a behaviour, or that the mode does nothing, as a predicate."""
    return EFFECTS[LISTED[behaviour]] if behaviour else UNAFFECTED


def releases(erratum: Erratum) -> str:
    """Returns the releases whose code does what an erratum states."""
    text = f"since {erratum.since}" + " or before" * erratum.since_is_bound
    return f"{text}, up to {erratum.until}" if erratum.until else text


def behaviour_of_code(
    erratum: Erratum, facts: Mapping[str, Fact], devices: Mapping[str, Device]
) -> str:
    """Returns the behaviour, the releases and the condition of an erratum, in a sentence."""
    behaviour = verb(erratum.behaviour)
    if erratum.caller:
        behaviour += f" as `{erratum.caller}`"
    if erratum.device:
        behaviour += f" on {devices[erratum.device].english} device"
    condition = " and ".join(filter(None, (conditions(erratum.when, facts), erratum.calls)))
    when = f", when {condition}" if condition else ""
    otherwise = f"; otherwise {UNAFFECTED}" if erratum.unaffected_elsewhere else ""
    return f"PyTorch's code {releases(erratum)}: {behaviour}{when}{otherwise}."


def condition(
    when: Mapping[str, Test], device: Device | None, direction: Direction, facts: Mapping[str, Fact]
) -> str:
    """Renders the calls to which a row applies, as a phrase to stand after the op's name.

    For example: ``when called on a CUDA array and `weights` is given``.
    """
    call = _call(device, direction)
    parts = [call] if call else []
    parts += [conditions(when, facts)] if when else []
    if not parts:
        return "on every device"
    lead = "when " if call else "on every device when "
    return lead + " and ".join(parts)


def conditions(when: Mapping[str, Test], facts: Mapping[str, Fact]) -> str:
    """Renders all tests of a ``when``; empty if there is none."""
    return " and ".join(phrase(facts[name], test) for name, test in when.items())


def phrase(fact: Fact, test: Test) -> str:
    """Renders one test of one fact.

    "(s)" in the English of the fact becomes "s", or nothing if the test names the number 1.
    """
    if isinstance(test, Mapping):
        return " and ".join(
            _filled(fact.english[name], limit if name == "not" else (limit,))
            for name, limit in test.items()
        )
    if isinstance(test, bool):
        return fact.english["true" if test else "false"]
    return _filled(fact.english["is"], test if isinstance(test, tuple) else (test,))


def _filled(template: str, values: tuple[FactValue, ...]) -> str:
    plural = "" if values == (1,) else "s"
    # An argument with a name in a program has values that a program writes.
    is_code = "`" in template
    words = [
        f"`{value!r}`" if is_code and isinstance(value, str) else str(value) for value in values
    ]
    return template.replace("(s)", plural).format(_join(words))


def _call(device: Device | None, direction: Direction) -> str:
    """Renders the device and the direction; empty for forward calls on every device."""
    if direction == "backward":
        return "differentiating " + (f"{device.english} array" if device else "it")
    return f"called on {device.english} array" if device else ""


def _join(words: Sequence[str]) -> str:
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

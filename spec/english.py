"""The one place where a condition becomes English."""

from __future__ import annotations

from collections.abc import Mapping

from spec.model import Device, Direction, Fact, FactValue, Test

_DEVICES: Mapping[Device, str] = {"cpu": "a CPU", "cuda": "a CUDA", "mps": "an MPS"}


def condition(
    when: Mapping[str, Test],
    device: Device,
    direction: Direction,
    facts: Mapping[str, Fact],
) -> str:
    """Renders the calls to which a row applies.

    Returns:
        A phrase to stand after the op's name, for example ``when called on a CUDA array and
        `weights` is given``.
    """
    parts = [_place(device, direction)] if device != "any" or direction == "backward" else []
    parts += [phrase(facts[name], test) for name, test in when.items()]
    if not parts:
        return "on every device"
    lead = "when " if device != "any" or direction == "backward" else "on every device when "
    return lead + " and ".join(parts)


def phrase(fact: Fact, test: Test) -> str:
    """Renders one test of one fact."""
    if isinstance(test, Mapping):
        return " and ".join(
            fact.english[name].format(_join(limit) if name == "not" else limit)
            for name, limit in test.items()
        )
    if isinstance(test, bool):
        return fact.english["true" if test else "false"]
    return fact.english["is"].format(_join(test if isinstance(test, tuple) else (test,)))


def _place(device: Device, direction: Direction) -> str:
    if direction == "backward":
        return "differentiating " + (f"{_DEVICES[device]} array" if device != "any" else "it")
    return f"called on {_DEVICES[device]} array"


def _join(values: tuple[FactValue, ...]) -> str:
    words = [f"`{value!r}`" if isinstance(value, str) else str(value) for value in values]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

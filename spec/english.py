"""Renders conditions in English; nothing else does, so that no page words a condition by hand."""

from __future__ import annotations

from collections.abc import Mapping

from spec.model import Device, Direction, Fact, FactValue, Test


def condition(
    when: Mapping[str, Test],
    device: Device | None,
    direction: Direction,
    facts: Mapping[str, Fact],
) -> str:
    """Renders the calls to which a row applies.

    Args:
        when: The condition of the row.
        device: The device that the row is about; None if it is about every device.
        direction: The direction of the row.
        facts: The vocabulary.

    Returns:
        A phrase to stand after the op's name, for example ``when called on a CUDA array and
        `weights` is given``.
    """
    call = _call(device, direction)
    parts = [call] if call else []
    parts += [phrase(facts[name], test) for name, test in when.items()]
    if not parts:
        return "on every device"
    lead = "when " if call else "on every device when "
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


def _call(device: Device | None, direction: Direction) -> str:
    """Renders the device and the direction; empty for forward calls on every device."""
    if direction == "backward":
        return "differentiating " + (f"{device.english} array" if device else "it")
    return f"called on {device.english} array" if device else ""


def _join(values: tuple[FactValue, ...]) -> str:
    words = [f"`{value!r}`" if isinstance(value, str) else str(value) for value in values]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)

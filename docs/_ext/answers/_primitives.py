"""The cells of JAX's primitives."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import spec
from answers._cell import OFF, WORDS, Cell, Word, devices
from spec import english
from spec.calls import distinct_calls
from spec.conditions import precedence


def of_primitive(op: str, rules: spec.Spec | None = None) -> tuple[Cell, ...]:
    """Returns the cells of a primitive of JAX, which are the same under every profile.

    With the guarantee ``portable`` there is a cell for each class of ``portable.toml`` that one of
    its names is in.

    Args:
        op: The name that rows have for the primitive: ``lax.scatter_add``.
        rules: The rows; None for this distribution's rows.
    """
    return tuple(_of_primitive(op, rules or spec.load()))


def _of_primitive(op: str, rules: spec.Spec) -> Iterator[Cell]:
    rows = [row for row in rules.primitives if row.op == op and row.active]
    names = tuple(dict.fromkeys(name for row in rows for name in row.primitives))
    for device in devices(rules):
        for guarantee in (OFF, "run_to_run"):
            yield from _by_rows(op, names, rows, device, guarantee, rules)
        for found in _classes(names, rules):
            own = tuple(name for name in names if name in found.primitives) or names
            word: Word = "refused" if found.answer == "refused" else "exact everywhere"
            yield Cell(
                op,
                "primitive",
                "forward",
                device,
                f"floats are {', '.join(sorted(found.dtypes))}" if found.dtypes else "",
                (),
                None,
                "portable",
                word,
                " ".join(filter(None, (english.portability(found), found.remedy))),
                primitives=own,
            )


def _classes(names: Sequence[str], rules: spec.Spec) -> tuple[spec.Portability, ...]:
    """Returns the classes of primitives under ``portable``, each once."""
    tables = rules.class_of_primitive, rules.class_of_complex
    found = [table[name] for name in names for table in tables if name in table]
    return tuple({each.name: each for each in found}.values()) or (rules.unlisted,)


def _by_rows(
    op: str,
    names: tuple[str, ...],
    rows: Sequence[spec.Primitive],
    device: str,
    guarantee: str | None,
    rules: spec.Spec,
) -> Iterator[Cell]:
    """Yields the cells that rows decide, with the mode off or on."""
    found: dict[str | None, list[spec.Facts]] = {}
    for facts in distinct_calls(rows, rules.facts):
        answer = spec.resolve_primitive(names[0], device, facts, rules)
        found.setdefault(answer.row.id if answer.row else None, []).append(facts)
    by_id = {row.id: row for row in rows}
    deciding = sorted((by_id[id] for id in found if id is not None), key=precedence, reverse=True)
    for row in deciding:
        word = _word_of_primitive(row, device, guarantee, rules)
        yield Cell(
            op,
            "primitive",
            "forward",
            device,
            english.conditions(row.when, rules.facts),
            tuple(found[row.id]),
            None,
            guarantee,
            word,
            WORDS[word],
            row.id,
            row.order if word == "deterministic" else None,
            row.primitives,
        )
    if None in found:
        calls = tuple(found[None])
        cell = Cell(op, "primitive", "forward", device, "", calls, None, guarantee, "unknown", "")
        yield dataclasses.replace(cell, sentence=WORDS["unknown"], primitives=names)


def _word_of_primitive(
    row: spec.Primitive, device: str, guarantee: str | None, rules: spec.Spec
) -> Word:
    """Returns the word for the equations that a row decides."""
    effect = spec.effect_of_primitive(row, device, rules)
    if guarantee is not OFF and effect == "raises":
        return "raises"
    if guarantee is not OFF and effect == "ordered":
        return "deterministic"
    if spec.varies(row, device, rules):
        return "may vary"
    return "unknown" if effect == "unknown" and not row.mode_off else "same bits anyway"

"""Texts of answers: short phrases for cards, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import answers

import spec

#: The calls of a direction, as the subject of a phrase.
SUBJECTS: Mapping[str, str] = {"forward": "the call", "backward": "its gradient"}


def device_name(name: str) -> str:
    """Returns a device as people write it: ``a CPU``, ``a CUDA device``."""
    device = spec.load().devices[name]
    return f"{device.english} device" if device.races else device.english


def where(devices: Iterable[str]) -> str:
    """Returns devices as a part of a sentence: ``on a CPU``, or ``everywhere``."""
    devices = list(devices)
    if set(devices) == set(answers.devices()):
        return "on every device"
    return "on " + " and ".join(map(device_name, devices))


def digest(cells: Sequence[answers.Cell]) -> Iterator[str]:
    """Yields a line for each word: the word, and the calls that it is about.

    Args:
        cells: The cells of one op, profile and guarantee.
    """
    has_several = {(cell.direction, cell.device) for cell in cells if cell.condition}
    phrases: dict[str, dict[tuple[str, str], list[str]]] = {}
    for cell in cells:
        condition = f", when {cell.condition}" if cell.condition else ""
        if not cell.condition and (cell.direction, cell.device) in has_several:
            condition = ", otherwise"
        found = phrases.setdefault(cell.word, {})
        found.setdefault((cell.direction, condition), []).append(cell.device)
    for word in answers.WORDS:
        if word in phrases:
            yield f"**{word}**: {'; '.join(_calls(phrases[word]))}"


def _calls(found: Mapping[tuple[str, str], Sequence[str]]) -> Iterator[str]:
    """Yields phrases such as ``its gradient on a CPU, when ...``, those of one place together."""
    places: dict[tuple[str, str], list[str]] = {}
    for (direction, condition), devices in found.items():
        where_ = where(dict.fromkeys(devices))
        places.setdefault((where_, condition), []).append(SUBJECTS[direction])
    for (where_, condition), subjects in places.items():
        yield f"{' and '.join(dict.fromkeys(subjects))} {where_}{condition}"


def list_table(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]], stubs: int = 1
) -> str:
    """Returns a table as Markdown; empty if it has no rows.

    Args:
        caption: What the table has.
        headings: The headings of the columns.
        rows: The cells of each row, as Markdown on one line.
        stubs: The number of columns whose cells are headings of their rows.
    """
    lines = [f":::{{list-table}} {caption}", ":header-rows: 1", f":stub-columns: {stubs}", ""]
    body = list(rows)
    for row in [headings, *body]:
        lines += [f"{'* -' if n == 0 else '  -'} {cell}".rstrip() for n, cell in enumerate(row)]
    return "\n".join([*lines, ":::", ""]) if body else ""


def code(text: str, language: str) -> str:
    """Returns a block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def answer_rows(cells: Sequence[answers.Cell]) -> Iterator[list[str]]:
    """Yields the rows of the table of all answers; profiles with one answer share a row."""
    found: dict[tuple[str, ...], list[str]] = {}
    for cell in cells:
        row = f"{{row}}`{cell.row}`" if cell.row else "no row"
        key = (
            SUBJECTS[cell.direction].capitalize(),
            device_name(cell.device),
            cell.condition and f"when {cell.condition}",
            _mode(cell),
            f"**{cell.word}**. {cell.sentence}",
            row,
        )
        found.setdefault(key, []).append(cell.profile or "")
    for (call, device, condition, mode, answer, row), profiles in found.items():
        named = ", ".join(f"{{profile}}`{name}`" for name in profiles if name)
        under = f"{mode}: {named}" if named else mode
        yield [call, device, condition or "always", under, answer, row]


def _mode(cell: answers.Cell) -> str:
    """Returns the mode of a cell."""
    if cell.guarantee is answers.OFF:
        return "mode off"
    return "mode on" if cell.guarantee == "run_to_run" else '`guarantee="portable"`'

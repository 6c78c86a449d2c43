"""Texts of answers: short phrases for cards, and tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import answers
import spec
from spec import english

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
    found: dict[answers.Word, dict[tuple[str, str], list[str]]] = {}
    for (direction, device), of_place in _by_place(cells).items():
        for word, condition in _conditions(of_place).items():
            places = found.setdefault(word, {})
            places.setdefault((direction, condition), []).append(device)
    for word in answers.WORDS:
        if word in found:
            kinds = {cell.kind for cell in cells}
            subjects = SUBJECTS if "op" in kinds else {}
            yield f"**{word}**: {'; '.join(_calls(found[word], subjects))}"


def _by_place(
    cells: Sequence[answers.Cell],
) -> dict[tuple[str, str], list[answers.Cell]]:
    places: dict[tuple[str, str], list[answers.Cell]] = {}
    for cell in cells:
        places.setdefault((cell.direction, cell.device), []).append(cell)
    return places


def _conditions(cells: Sequence[answers.Cell]) -> dict[answers.Word, str]:
    """Returns the condition of each word in the calls of one direction on one device."""
    by_word: dict[answers.Word, list[answers.Cell]] = {}
    for cell in cells:
        by_word.setdefault(cell.word, []).append(cell)
    if len(by_word) == 1:
        return dict.fromkeys(by_word, "")
    every = [facts for cell in cells for facts in cell.calls]
    conditions = {}
    # Together the words are about all calls, so the last word has the remaining ones.
    last = max(by_word, key=list(answers.WORDS).index)
    for word, own in by_word.items():
        short = _box([facts for cell in own for facts in cell.calls], every)
        listed = "in all other cases" if word == last else _listed(own, cells)
        conditions[word] = f", when {short}" if short else f", {listed}"
    return conditions


def _box(calls: Sequence[spec.Facts], every: Sequence[spec.Facts]) -> str:
    """Returns a condition that these calls alone meet; empty if there is no simple one."""
    names = list(every[0]) if every else []
    values = {name: {facts[name] for facts in calls} for name in names}
    inside = [f for f in every if all(f[name] in values[name] for name in names)]
    tests = {n: v for n, v in values.items() if v != {facts[n] for facts in every}}
    facts_of = spec.load().facts
    if len(inside) != len(calls) or any(facts_of[n].type not in ("bool", "choice") for n in tests):
        return ""
    # The English has the facts in the order of the vocabulary.
    whens = {
        name: (
            next(iter(found))
            if facts_of[name].type == "bool"
            else tuple(value for value in facts_of[name].values if value in found)
        )
        for name, found in tests.items()
    }
    return english.conditions(whens, facts_of)


def _listed(own: Sequence[answers.Cell], cells: Sequence[answers.Cell]) -> str:
    """Returns the conditions of the cells of one word, one after the other."""
    others = [cell for cell in cells if cell.word != own[0].word and cell.condition]
    # "In all other cases" covers a narrower condition, if no condition of another word overlaps it.
    rest = any(not cell.condition for cell in own)
    kept = [c for c in own if c.condition and not (rest and not _touched(c, others))]
    texts = [f"when {cell.condition}" for cell in kept] + ["in all other cases"] * rest
    return " or ".join(dict.fromkeys(texts))


def _touched(cell: answers.Cell, others: Sequence[answers.Cell]) -> bool:
    """Returns whether a call of a cell meets the condition of another cell's row too."""
    whens = [spec.load().row(other.row).when for other in others if other.row]
    return any(
        set(when) <= set(facts) and spec.holds(when, facts)
        for when in whens
        for facts in cell.calls
    )


def _calls(
    found: Mapping[tuple[str, str], Sequence[str]], subjects: Mapping[str, str]
) -> Iterator[str]:
    """Yields phrases such as ``its gradient on a CPU, when ...``, one for each set of devices."""
    places: dict[tuple[str, str], list[str]] = {}
    for (direction, condition), devices in found.items():
        place = where(dict.fromkeys(devices))
        places.setdefault((place, condition), []).append(subjects.get(direction, ""))
    for (place, condition), calls in places.items():
        yield f"{' and '.join(dict.fromkeys(calls))} {place}{condition}".strip()


def list_table(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]], stubs: int = 1
) -> str:
    """Returns a table as Markdown; empty if it has no rows.

    Args:
        caption: The subject of the table.
        headings: The headings of the columns.
        rows: The cells of each row, as Markdown on one line.
        stubs: The number of columns whose cells are headings of their rows.
    """
    lines = [f":::{{list-table}} {caption}", ":header-rows: 1", f":stub-columns: {stubs}", ""]
    body = list(rows)
    for row in [headings, *body]:
        lines += [f"{'* -' if n == 0 else '  -'} {cell}".rstrip() for n, cell in enumerate(row)]
    return "\n".join([*lines, ":::", ""]) if body else ""


def bullets(lines: Iterable[str]) -> str:
    """Returns a list, each line once."""
    return "\n".join(f"- {line}" for line in dict.fromkeys(lines))


def index(names: Iterable[str]) -> str:
    """Returns entries of the index, by which the search finds the page first."""
    return f"```{{index}} {', '.join(dict.fromkeys(names))}\n```"


def code(text: str, language: str) -> str:
    """Returns a block of code."""
    return f"```{language}\n{text.rstrip()}\n```\n"


#: The headings of the table of all answers.
ANSWER_HEADINGS = ("Call", "When", "Mode and profile", "Answer")


def answer_rows(cells: Sequence[answers.Cell]) -> Iterator[list[str]]:
    """Yields the rows of the table of all answers; profiles with one answer share a row."""
    found: dict[tuple[str, ...], list[str]] = {}
    for cell in cells:
        row = f" ({{row}}`{cell.row}`)" if cell.row else ""
        call = f"{SUBJECTS[cell.direction].capitalize()} on {device_name(cell.device)}"
        condition = f"when {cell.condition}" if cell.condition else "always"
        answer = f"**{cell.word}**. {cell.sentence}{row}"
        found.setdefault((call, condition, _mode(cell), answer), []).append(cell.profile or "")
    narrower = {(call, mode) for call, when, mode, _ in found if when.startswith("when")}
    for (call, condition, mode, answer), profiles in found.items():
        rest = "in all other cases" if (call, mode) in narrower else "always"
        when = condition if condition.startswith("when") else rest
        yield [call, when, _under(mode, profiles), answer]


def _under(mode: str, profiles: Sequence[str]) -> str:
    """Returns the mode, and the profiles for which it counts."""
    if set(profiles) == set(spec.load().profiles):
        return f"{mode}, every profile"
    named = ", ".join(f"{{profile}}`{name}`" for name in profiles if name)
    return f"{mode}: {named}" if named else mode


def _mode(cell: answers.Cell) -> str:
    """Returns the mode of a cell."""
    if cell.guarantee is answers.OFF:
        return "mode off"
    return "mode on" if cell.guarantee == "run_to_run" else '`guarantee="portable"`'

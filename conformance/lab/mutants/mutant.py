"""A mutant, and the reader of the files that hold mutants."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

#: The folder of the mutants.
FOLDER = Path(__file__).parent
#: The words that ``run`` may begin with; ``trial.steps`` gives the processes of each.
COMMANDS = ("pytest", "devices", "native", "conformance", "docs")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A fault.

    Attributes:
        name: A name for the fault, in kebab case.
        why: The damage to a user, in one line.
        file: The file to change, from the root of the checkout.
        find: The text to replace. It occurs once in the file.
        replace: The new text.
        run: The command that must fail.
    """

    name: str
    why: str
    file: str
    find: str
    replace: str
    run: str

    def broken_text(self, root: Path) -> str:
        """Returns the text of the file with the fault, and leaves the file as it is.

        Raises:
            ValueError: The file is missing, ``find`` does not occur once, or the new text cannot
                be parsed. A text that cannot be parsed would fail every test, and prove nothing.
        """
        path = root / self.file
        if not path.is_file():
            raise ValueError(f"mutant {self.name}: there is no file {self.file}")
        text = path.read_text(encoding="utf-8")
        count = text.count(self.find)
        if count != 1:
            raise ValueError(
                f"mutant {self.name}: {self.file} has {self.find!r} {count} times; it must be "
                "there once: bring `find` up to date"
            )
        broken = text.replace(self.find, self.replace)
        try:
            _PARSERS.get(path.suffix, str)(broken)
        except (SyntaxError, ValueError) as error:
            raise ValueError(
                f"mutant {self.name}: {self.file} cannot be read once it is broken: {error}"
            ) from error
        return broken


def _compile(text: str) -> None:
    compile(text, "<mutant>", "exec", dont_inherit=True)


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    ".py": _compile,
    ".toml": tomllib.loads,
    ".json": json.loads,
}


def read(folder: Path = FOLDER) -> tuple[Mutant, ...]:
    """Returns the mutants of all files of a folder.

    Raises:
        ValueError: A file is malformed, two mutants have the same name, or there are no mutants.
    """
    mutants = [mutant for path in sorted(folder.glob("*.toml")) for mutant in _parse_file(path)]
    if not mutants:
        raise ValueError(f"{folder}: there are no mutants")
    names: set[str] = set()
    for mutant in mutants:
        if mutant.name in names:
            raise ValueError(f"{folder}: two mutants have the name {mutant.name}")
        names.add(mutant.name)
    return tuple(mutants)


def _parse_file(path: Path) -> Iterable[Mutant]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from error
    if set(table) - {"mutant"}:
        raise ValueError(f"{path}: unknown {sorted(set(table) - {'mutant'})}; it has [[mutant]]")
    return [_parse_entry(path, entry) for entry in table.get("mutant", [])]


def _parse_entry(path: Path, entry: Mapping[str, Any]) -> Mutant:
    title = f"{path}: mutant {entry.get('name')!r}"
    keys = [field.name for field in dataclasses.fields(Mutant)]
    if sorted(entry) != sorted(keys):
        raise ValueError(f"{title} has the keys {sorted(entry)}; it needs {keys}")
    texts = {key: value for key, value in entry.items() if isinstance(value, str)}
    empty = [key for key in keys if key != "replace" and not texts.get(key, "").strip()]
    if empty or "replace" not in texts:
        raise ValueError(f"{title} needs text in {empty or ['replace']}")
    if not _NAME.fullmatch(entry["name"]):
        raise ValueError(f"{title}: its name is to be in kebab case: lower-case-words")
    if entry["find"] == entry["replace"]:
        raise ValueError(f"{title} changes nothing: `find` and `replace` are the same")
    if shlex.split(entry["run"])[0] not in COMMANDS:
        raise ValueError(f"{title}: `run` has to begin with one of {', '.join(COMMANDS)}")
    return Mutant(**texts)

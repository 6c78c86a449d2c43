"""Breakages of this repository, each of which the tests must find: ``nox -s mutants``.

The files beside this one hold them:

[[mutant]]
name = "mode-ignored"                       # what is broken
why = "The mode changes nothing."           # what a user would lose
file = "impl/_mode/decide.py"
find = "if not mode.enabled"                # stands there exactly once
replace = "if True"
run = "pytest impl/tests/mode/test_decide.py"    # the narrow command that has to fail

Tools that mutate Python (mutmut, cosmic-ray, mutatest) make many small changes by general rules and
know neither TOML nor what a change means, so that they cannot be asked for one that has a name.
"""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

#: Where the mutants are.
FOLDER = Path(__file__).parent
#: The commands that ``run`` may begin with; ``running`` says what each is.
COMMANDS = ("pytest", "conformance", "docs")
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A breakage.

    Attributes:
        name: What is broken, in kebab case.
        why: What a user would lose, in one line.
        file: The file that is changed, from the root of the checkout.
        find: What stands in it, exactly once.
        replace: What is put in its place.
        run: The command that has to fail.
    """

    name: str
    why: str
    file: str
    find: str
    replace: str
    run: str

    def broken(self, root: Path) -> str:
        """The text of the file with the breakage; the file stays as it is.

        Raises:
            ValueError: The file is not there, what is to be found is not there exactly once, or
                what comes of it cannot be read, so that it would break everything.
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
        changed = text.replace(self.find, self.replace)
        try:
            _PARSERS.get(path.suffix, str)(changed)
        except (SyntaxError, ValueError) as error:
            raise ValueError(
                f"mutant {self.name}: {self.file} cannot be read once it is broken: {error}"
            ) from error
        return changed


def _compiles(text: str) -> None:
    compile(text, "<mutant>", "exec", dont_inherit=True)


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    ".py": _compiles,
    ".toml": tomllib.loads,
    ".json": json.loads,
}


def read(folder: Path = FOLDER) -> tuple[Mutant, ...]:
    """The mutants of every file of a folder.

    Raises:
        ValueError: A file is malformed, two mutants have one name, or there is none.
    """
    found = [mutant for path in sorted(folder.glob("*.toml")) for mutant in _mutants(path)]
    if not found:
        raise ValueError(f"{folder}: there are no mutants")
    seen: set[str] = set()
    for mutant in found:
        if mutant.name in seen:
            raise ValueError(f"{folder}: two mutants have the name {mutant.name}")
        seen.add(mutant.name)
    return tuple(found)


def _mutants(path: Path) -> Iterable[Mutant]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: {error}") from error
    if set(table) - {"mutant"}:
        raise ValueError(f"{path}: unknown {sorted(set(table) - {'mutant'})}; it has [[mutant]]")
    return [_mutant(path, entry) for entry in table.get("mutant", [])]


def _mutant(path: Path, entry: Mapping[str, Any]) -> Mutant:
    what = f"{path}: mutant {entry.get('name')!r}"
    keys = [field.name for field in dataclasses.fields(Mutant)]
    if sorted(entry) != sorted(keys):
        raise ValueError(f"{what} has the keys {sorted(entry)}; it needs {keys}")
    texts = {key: value for key, value in entry.items() if isinstance(value, str)}
    wrong = [key for key in keys if key != "replace" and not texts.get(key, "").strip()]
    if wrong or "replace" not in texts:
        raise ValueError(f"{what} needs text in {wrong or ['replace']}")
    if not _NAME.fullmatch(entry["name"]):
        raise ValueError(f"{what}: its name is to be in kebab case: lower-case-words")
    if entry["find"] == entry["replace"]:
        raise ValueError(f"{what} changes nothing: `find` and `replace` are the same")
    if shlex.split(entry["run"])[0] not in COMMANDS:
        raise ValueError(f"{what}: `run` has to begin with one of {', '.join(COMMANDS)}")
    return Mutant(**texts)

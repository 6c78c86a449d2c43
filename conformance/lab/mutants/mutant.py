"""A mutant, and the reader of the files that hold mutants."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Mapping
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


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    ".py": functools.partial(compile, filename="<mutant>", mode="exec", dont_inherit=True),
    ".toml": tomllib.loads,
    ".json": json.loads,
}


def read(folder: Path = FOLDER) -> tuple[Mutant, ...]:
    """Returns the mutants of all files of a folder."""
    mutants: dict[str, Mutant] = {}
    for path in sorted(folder.glob("*.toml")):
        try:
            for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
                mutant = Mutant(**entry)
                _check(mutant, mutants)
                mutants[mutant.name] = mutant
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path}: {error}") from error
    if not mutants:
        raise ValueError(f"{folder}: there are no mutants")
    return tuple(mutants.values())


def _check(mutant: Mutant, others: Collection[str]) -> None:
    """Raises a ValueError if a mutant is not one that a trial can judge."""
    name = f"mutant {mutant.name!r}"
    if not _NAME.fullmatch(mutant.name) or mutant.name in others:
        raise ValueError(f"{name} needs a name of its own in kebab case: lower-case-words")
    if not all(each.strip() for each in (mutant.why, mutant.find)):
        raise ValueError(f"{name} needs text in `why` and in `find`")
    if mutant.find == mutant.replace:
        raise ValueError(f"{name} changes nothing: `find` and `replace` are the same")
    if shlex.split(mutant.run)[:1] not in [[command] for command in COMMANDS]:
        raise ValueError(f"{name}: `run` has to begin with one of {', '.join(COMMANDS)}")

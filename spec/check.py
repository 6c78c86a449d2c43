"""The lint of the spec: ``python -m spec check``.

Files are checked against ``schema.json`` first. What passes is then checked for what a schema
cannot say: the ledger of ids, names across files, wording, and whether the rows of an op decide
every call once and the same.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources.abc import Traversable
from typing import Any, TypeAlias

from spec import conditions, ledger, loader, locks
from spec.cases import named_values
from spec.coherence import findings
from spec.model import Fact, SpecError, Test

VOCABULARIES = ("profiles", "orders", "facts", "documents", "ids", "locks")

#: A row as TOML has it, with its file.
FileRow: TypeAlias = tuple[str, dict[str, Any]]

#: The longest text of each kind, and the most sentences in it.
_LIMITS = {
    "statement": (180, 1),
    "note": (240, 2),
    "reason": (140, 1),
    "in_xla": (240, 2),
    "caveat": (240, 2),
}
#: As above, for the statement of a profile or an order.
_STATEMENT_OF_VOCABULARY = (420, 1)


@dataclasses.dataclass(frozen=True, order=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        file: The file it is in.
        id: The row, or the name within a vocabulary; empty where there is none.
        text: What is wrong and what to do.
    """

    file: str
    id: str
    text: str

    def __str__(self) -> str:
        """The problem on one line."""
        return ": ".join(part for part in dataclasses.astuple(self) if part)


def problems(root: Traversable = loader.ROOT) -> list[Problem]:
    """Everything that is wrong with the spec in the folder ``root``, sorted.

    Raises:
        SpecError: jsonschema is not installed.
    """
    try:
        tables = {name: loader.read_table(root, f"{name}.toml") for name in VOCABULARIES}
        files = loader.row_files(root)
    except (OSError, SpecError) as error:
        return [Problem("", "", f"{error}; nothing else was checked")]
    found = [
        Problem(f"{name}.toml", _dotted(path[:1]), f"{_dotted(path[1:])} {text}".strip())
        for name, table in tables.items()
        for path, text in _schema(name, table)
    ]
    if found:
        # What the rows name cannot be looked up in a malformed vocabulary.
        return sorted(found)
    sound: list[FileRow] = []
    for file, content in files.items():
        bad = list(_schema("row_file", content))
        found += [_row_problem(file, content, path, text) for path, text in bad]
        wrong = {path[1] for path, _ in bad if len(path) > 1}
        if all(len(path) > 1 for path, _ in bad):
            sound += [(file, row) for i, row in enumerate(content["row"]) if i not in wrong]
    rows = [
        (file, row)
        for file, content in files.items()
        for row in _list(content.get("row"))
        if isinstance(row, dict)
    ]
    found += itertools.chain(_names(sound, tables), _wording(sound, tables), _one_file(sound))
    used = [(file, str(row.get("id")), str(row.get("op"))) for file, row in rows]
    found += itertools.starmap(Problem, ledger.problems(used, tables["ids"]))
    if not found:
        # Only rows that are each right can be compared with one another.
        file_of = {row["id"]: file for file, row in rows}
        spec = loader.read(root)
        found += [Problem(file_of[key], key, text) for key, text in findings(spec)]
        found += [
            Problem("locks.toml", name, text)
            for name, text in locks.findings(spec, tables["locks"])
        ]
    return sorted(found)


def _schema(kind: str, content: Any) -> Iterator[tuple[list[str | int], str]]:
    """Where ``content`` breaks the definition ``kind`` of ``schema.json``, and how."""
    try:
        import jsonschema  # noqa: PLC0415  # a development dependency that this lint alone needs
    except ImportError as error:
        raise SpecError("`check` needs jsonschema: `python -m pip install jsonschema`") from error
    schema = json.loads((loader.ROOT / "schema.json").read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator({**schema, "$ref": f"#/$defs/{kind}"})
    for broken in validator.iter_errors(content):
        yield list(broken.absolute_path), f"{_readable(broken)}; see schema.json"


def _readable(error: Any) -> str:
    """A schema error without the whole row in it."""
    if not isinstance(error.instance, dict) or error.validator not in ("anyOf", "not"):
        return str(error.message)
    phrase = "meets none of" if error.validator == "anyOf" else "must not have"
    return f"{phrase} {json.dumps(error.validator_value)}"


def _row_problem(
    file: str, content: Mapping[str, Any], path: list[str | int], text: str
) -> Problem:
    if len(path) < 2:
        return Problem(file, "", f"{_dotted(path)} {text}".strip())
    row = _list(content["row"])[int(path[1])]
    key = row.get("id") if isinstance(row, dict) else None
    return Problem(file, str(key or f"row {path[1]}"), f"{_dotted(path[2:])} {text}".strip())


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dotted(path: Iterable[str | int]) -> str:
    return ".".join(map(str, path))


def _names(rows: list[FileRow], tables: Mapping[str, Any]) -> Iterator[Problem]:
    """Names that one file uses and another has to declare."""
    facts = tables["facts"]
    if sum(profile["default"] for profile in tables["profiles"].values()) != 1:
        yield Problem("profiles.toml", "", "exactly one profile is the default; mark one")
    for name, order in tables["orders"].items():
        for when in order.get("order_free_when", []):
            for text in _when(when, facts):
                yield Problem("orders.toml", name, f"order_free_when: {text}")
        text = order["statement"]
        if set(re.findall(r"{(\w*)}", text)) != set(order.get("parameters", {})):
            yield Problem("orders.toml", name, "the braces of statement are not its parameters")
    for file, row in rows:
        for text in _row_names(row, tables):
            yield Problem(file, row["id"], text)


def _row_names(row: Mapping[str, Any], tables: Mapping[str, Any]) -> Iterator[str]:
    facts, profiles = tables["facts"], tables["profiles"]
    yield from _when(row.get("when", {}), facts)
    for text in _when(row.get("erratum", {}).get("when", {}), facts):
        yield f"erratum: {text}"
    if row.get("switch") not in (None, *facts):
        yield f"the fact {row['switch']!r} of switch is not in facts.toml; add it there"
    if row.get("order") not in (None, *tables["orders"]):
        yield f"the order {row['order']!r} is not in orders.toml; add it there"
    for source in row["source"]:
        if source["document"] not in tables["documents"]:
            yield f"the document {source['document']!r} is not in documents.toml; add it there"
    for name, behaviour in row.get("behaviour", {}).items():
        if name not in profiles:
            yield f"the profile {name!r} is not in profiles.toml; use one of {sorted(profiles)}"
            continue
        release = profiles[name]["release"]
        # What no list has is a switch: the notes tell of it.
        document = {"fill": "fill"}.get(behaviour, "list")
        document = "notes" if row.get("kind") == "backend" else document
        cited = any(
            source["document"] == document and release in source["releases"]
            for source in row["source"]
        )
        if release and not cited:
            yield (
                f"no source says that {name} lists it; cite the document {document!r} "
                f"of release {release}"
            )


def _when(when: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with a ``when``: unknown facts, values of a wrong type, no English for it."""
    for name, test in when.items():
        if name not in facts:
            yield f"the fact {name!r} is not in facts.toml; add it there"
            continue
        fact = loader.fact(name, facts[name])
        frozen: Test = loader.frozen(test)
        for value in named_values(frozen):
            try:
                conditions.check_facts({name: value}, {name: fact})
            except SpecError as error:
                yield str(error)
        for key in sorted(_phrases(fact, frozen) - set(fact.english)):
            yield f"the fact {name!r} has no English for {key!r}; add it in facts.toml"


def _phrases(fact: Fact, test: Test) -> set[str]:
    if isinstance(test, Mapping):
        return set(test)
    if fact.type == "bool" and isinstance(test, bool):
        return {"true" if test else "false"}
    return {"is"}


def _wording(rows: list[FileRow], tables: Mapping[str, Any]) -> Iterator[Problem]:
    texts = [
        (file, row["id"], name, text)
        for file, row in rows
        for name, text in {**row.get("erratum", {}), **row}.items()
        if name in _LIMITS
    ]
    texts += [
        (f"{kind}.toml", name, "statement", table["statement"])
        for kind in ("profiles", "orders")
        for name, table in tables[kind].items()
    ]
    texts += [("facts.toml", name, "reason", t["about"]) for name, t in tables["facts"].items()]
    texts += [("ids.toml", key, "reason", text) for key, text in tables["ids"]["retired"].items()]
    for file, key, name, text in texts:
        of_vocabulary = name == "statement" and file in ("profiles.toml", "orders.toml")
        longest, most = _STATEMENT_OF_VOCABULARY if of_vocabulary else _LIMITS[name]
        if len(text) > longest:
            yield Problem(file, key, f"{name} has {len(text)} characters; say it in {longest}")
        if not text.endswith("."):
            yield Problem(file, key, f"{name} does not end with a full stop; add it")
        if len(re.findall(r"[.!?](?=\s+[A-Z`])", text)) >= most:
            yield Problem(file, key, f"{name} has more than {most} sentence(s); say it in fewer")
        if re.search(r"\bshould\b", text, re.IGNORECASE):
            yield Problem(file, key, f"{name} says `should`; say what is so")


def _one_file(rows: list[FileRow]) -> Iterator[Problem]:
    home: dict[str, str] = {}
    for file, row in rows:
        if home.setdefault(row["op"], file) != file:
            place = home[row["op"]]
            yield Problem(
                file, row["id"], f"the rows of {row['op']!r} are in {place}; move it there"
            )

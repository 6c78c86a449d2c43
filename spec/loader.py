"""Reads the TOML files of this package into the records of ``spec.model``.

It raises ``SpecError``, which names the file and the row, for the first table that is incomplete.
The lint, ``spec.check``, reads the same tables and reports every problem. A row states only the
fields that no rule gives: ``completed`` completes the table, and ``spec.english`` renders its
condition. For example, ``rows/index_add.toml`` has this row::

    id = "R0002"
    op = "index_add"
    device = "cpu"
    guarantee = "portable"
    order = "nearest"
    behaviour = { complete = "deterministic" }

Its record has these fields as well::

    family     "index_add"                       the name of the file
    torch      "torch.index_add"                 the same name in PyTorch
    condition  "when called on a CPU array"      the device, in English
    behaviour  None for each PyTorch release     the profiles that the table does not name
    sources    the sentence "Every op is deterministic" of the profile `complete`
"""

from __future__ import annotations

import contextlib
import functools
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Any

from spec import english
from spec.model import (
    Data,
    Device,
    Document,
    Erratum,
    Fact,
    Hint,
    Order,
    Portability,
    Primitive,
    Profile,
    Row,
    Source,
    Spec,
    SpecError,
)

#: The folder of the spec that ships with this distribution.
ROOT = files("spec")

#: The folder of the rows about the primitives of JAX, in the folder of all rows.
PRIMITIVES = "jax"

#: The files of the vocabularies and of the version, without the suffix.
TABLES = (
    "profiles",
    "facts",
    "orders",
    "devices",
    "documents",
    "releases",
    "data",
    "portable",
    "hints",
)


@functools.cache
def load() -> Spec:
    """Returns the spec that ships with this distribution; it is read once."""
    return read(ROOT)


@functools.cache
def platforms() -> tuple[str, ...]:
    """Returns the platforms of JAX that are devices of the spec, without reading the rows.

    A program that only imports the library waits for no row.
    """
    devices = _devices(read_table(ROOT, "devices.toml"))
    return tuple(name for device in devices.values() for name in device.platforms)


@functools.cache
def default_profile() -> str:
    """Returns the profile that holds if nobody chose one, without reading the rows."""
    profiles = _profiles(read_table(ROOT, "profiles.toml"))
    return next(profile.name for profile in profiles.values() if profile.default)


def read(root: Traversable) -> Spec:
    """Reads a spec from the folder ``root``, laid out as this package is.

    Raises:
        SpecError: A file is not TOML, or lacks what a record needs. ``python -m spec check``
            reports every problem, row by row.
    """
    tables = {name: read_table(root, f"{name}.toml") for name in TABLES}
    return assemble(tables, row_files(root))


def assemble(tables: Mapping[str, Any], files: Mapping[str, Mapping[str, Any]]) -> Spec:
    """Makes a spec of TOML files that were read.

    Args:
        tables: The vocabularies and the version, by the names of their files without the suffix.
        files: The files of rows, by name.

    Raises:
        SpecError: A table lacks what a record needs.
    """
    profiles, devices = _profiles(tables["profiles"]), _devices(tables["devices"])
    with _reading("facts.toml"):
        facts = {name: Fact(name=name, **frozen(t)) for name, t in tables["facts"].items()}
    with _reading("orders.toml"):
        orders = {name: Order(name=name, **frozen(t)) for name, t in tables["orders"].items()}
    with _reading("documents.toml"):
        documents = {name: Document(name=name, **t) for name, t in tables["documents"].items()}
    with _reading("data.toml"):
        data = Data(*(tables["data"][key] for key in ("version", "changed", "licence")))
    with _reading("portable.toml"):
        classes = tables["portable"]["class"]
        portable = {name: _portability(name, table) for name, table in classes.items()}
        unlisted, other_dtypes = (
            _portability("", {"answer": "refused", **tables["portable"][name]})
            for name in ("unlisted", "other_dtypes")
        )
        refused = tables["portable"].get("platform", {})
        refused_platforms = {
            name: _portability("", {"answer": "refused", **table})
            for name, table in refused.items()
        }
    with _reading("hints.toml"):
        hints = tuple(Hint(**frozen(table)) for table in tables["hints"].get("hint", []))
    rows: list[Row] = []
    for file, table in _rows(files):
        with _reading(f"{file}: {table.get('id', 'a row without id')}"):
            full = completed(table, tables["profiles"], tables["devices"])
            rows.append(_row(full, file.removesuffix(".toml"), profiles, facts, devices))
    return Spec(
        rows=tuple(row for row in rows if not isinstance(row, Primitive)),
        primitives=tuple(row for row in rows if isinstance(row, Primitive)),
        profiles=MappingProxyType(profiles),
        orders=MappingProxyType(orders),
        facts=MappingProxyType(facts),
        devices=MappingProxyType(devices),
        documents=MappingProxyType(documents),
        data=data,
        releases=tuple(tables["releases"]["torch"]),
        portable=MappingProxyType(portable),
        unlisted=unlisted,
        other_dtypes=other_dtypes,
        refused_platforms=MappingProxyType(refused_platforms),
        hints=hints,
    )


def _profiles(table: Mapping[str, Any]) -> dict[str, Profile]:
    with _reading("profiles.toml"):
        return {name: Profile(name=name, **fields) for name, fields in table.items()}


def _devices(table: Mapping[str, Any]) -> dict[str, Device]:
    with _reading("devices.toml"):
        return {name: Device(name=name, **frozen(fields)) for name, fields in table.items()}


@contextlib.contextmanager
def _reading(name: str) -> Iterator[None]:
    """Makes an error about a malformed table a SpecError that names the table."""
    try:
        yield
    except (AttributeError, KeyError, TypeError) as error:
        raise SpecError(f"{name}: {error!r}; see `python -m spec check`") from error


def row_tables(root: Traversable) -> list[tuple[str, dict[str, Any]]]:
    """Returns every row as TOML has it, with the name of its file, in the order of the names."""
    return list(_rows(row_files(root)))


def _rows(files: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, content in files.items():
        for row in content.get("row", []):
            yield name, row


def row_files(root: Traversable) -> dict[str, dict[str, Any]]:
    """Returns the files of rows as TOML has them, by name, in alphabetical order.

    Those about the primitives of JAX are in a folder of their own: ``jax/scatter.toml``.
    """
    folders = {"": root / "rows", f"{PRIMITIVES}/": root / "rows" / PRIMITIVES}
    return {
        f"{prefix}{name}": read_table(folder, name)
        for prefix, folder in folders.items()
        if folder.is_dir()
        for name in sorted(entry.name for entry in folder.iterdir())
        if name.endswith(".toml")
    }


def read_table(root: Traversable, name: str) -> dict[str, Any]:
    """Returns the content of one TOML file.

    Raises:
        SpecError: The file is not TOML.
    """
    try:
        return tomllib.loads((root / name).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{name} is not TOML: {error}") from error


def _portability(name: str, table: Mapping[str, Any]) -> Portability:
    fields = dict(frozen(table))
    if "dtypes" in fields:
        fields["dtypes"] = frozenset(fields["dtypes"])
    if "limits" in fields:
        fields["reason"] = fields["reason"].format(**fields["limits"])
    return Portability(name=name, **fields)


def completed(
    row: Mapping[str, Any], profiles: Mapping[str, Any], devices: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns a row with the defaults of the keys that it leaves out.

    ``torch``
        ``torch.`` and the op: ``torch.index_add``. Empty for a primitive of JAX.
    ``source``
        A row that only our own profile lists cites the first sentence of that profile's statement.
        Sources that the row gives come after it.
    ``state`` and ``reason``
        A row of a device that JAX has no platform for is out of scope, for the reason that
        ``devices.toml`` gives.

    A key of a wrong type stays as it is, so that the lint can report it.

    Args:
        row: As TOML has it.
        profiles: The content of ``profiles.toml``.
        devices: The content of ``devices.toml``.
    """
    full = dict(row)
    if row.get("kind") == "primitive":
        full.setdefault("torch", "")
    elif isinstance(row.get("op"), str):
        full.setdefault("torch", f"torch.{row['op']}")
    sources = row.get("source", [])
    if isinstance(sources, list):
        sources = [*_own_statements(row.get("behaviour"), profiles), *sources]
        full |= {"source": sources} if sources else {}
    device = row.get("device")
    if isinstance(device, str) and "reason" in devices.get(device, {}) and "state" not in row:
        full["state"] = "out_of_scope"
        full.setdefault("reason", devices[device]["reason"])
    return full


def _own_statements(behaviour: Any, profiles: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns sources that cite our own profiles, if these alone list the row."""
    if not isinstance(behaviour, dict) or not behaviour.keys() <= profiles.keys():
        return []
    if any(profiles[name]["release"] for name in behaviour):
        return []
    return [
        {"document": "profiles", "releases": [name], "phrase": _first_sentence(name, profiles)}
        for name in behaviour
    ]


def _first_sentence(profile: str, profiles: Mapping[str, Any]) -> str:
    statement: str = profiles[profile]["statement"]
    return statement.partition(". ")[0].removesuffix(".")


def _row(
    table: dict[str, Any],
    family: str,
    profiles: Mapping[str, Profile],
    facts: Mapping[str, Fact],
    devices: Mapping[str, Device],
) -> Row:
    fields = dict(frozen(table))
    when = fields.pop("when", frozen({}))
    sources = _sources(fields.pop("source"))
    errata = tuple(map(_erratum, fields.pop("erratum", ())))
    listed = fields.pop("behaviour", {})  # Rows of some kinds have none.
    record: type[Row] = Row
    if fields.get("kind") == "primitive":
        record = Primitive
        listed = dict.fromkeys(profiles, listed) if listed else {}
    unknown = sorted(set(listed) - set(profiles))
    if unknown:
        raise SpecError(f"{table['id']}: behaviour names the unknown profiles {unknown}")
    direction = fields.pop("direction", "forward")
    device = None if fields["device"] == "any" else devices[fields["device"]]
    return record(
        family=family,
        when=when,
        direction=direction,
        condition=english.condition(when, device, direction, facts),
        behaviour=MappingProxyType({name: listed.get(name) for name in profiles}),
        sources=sources,
        callers=MappingProxyType(_callers(fields.pop("caller", {}), listed)),
        errata=errata,
        **fields,
    )


def _callers(caller: str | Mapping[str, str], listed: Mapping[str, str]) -> Mapping[str, str]:
    """Returns the caller of each profile that raises; a single name holds for all of them."""
    if isinstance(caller, Mapping):
        return caller
    return {name: caller for name, behaviour in listed.items() if behaviour == "raise"}


def _sources(tables: Iterable[Mapping[str, Any]]) -> tuple[Source, ...]:
    return tuple(Source(**table) for table in tables)


def _erratum(table: Mapping[str, Any]) -> Erratum:
    fields = {"when": frozen({}), **table}
    sources, behaviour = _sources(fields.pop("source")), fields.pop("behaviour")
    return Erratum(sources=sources, behaviour=None if behaviour == "none" else behaviour, **fields)


def frozen(value: Any) -> Any:
    """Returns a value, as TOML has it, made immutable."""
    if isinstance(value, list):
        return tuple(map(frozen, value))
    if isinstance(value, dict):
        return MappingProxyType({name: frozen(item) for name, item in value.items()})
    return value


def thawed(value: Any) -> Any:
    """Returns the value that ``frozen`` made immutable: mappings as dicts, tuples as lists."""
    if isinstance(value, Mapping):
        return {name: thawed(item) for name, item in value.items()}
    if isinstance(value, tuple):
        return [thawed(item) for item in value]
    return value

"""Writes the skeleton of a new op into a checkout: ``python -m spec new OP``.

An op needs rows, a function and an entry of the table, and lines in two files that exist already.
The texts are in ``spec/templates/``; ``FILL IN`` marks each blank that a person has to fill. All
texts are made before the first file is written, so that a refusal leaves the checkout as it was.
``python -m spec new foo --device cuda --order exact`` writes::

    spec/rows/foo.toml                  a row for CUDA, where bits vary, and a row for a CPU
    spec/ids.toml                       + R0543 = "foo" and R0544 = "foo", the next free ids
    impl/ops/_foo.py                    a function to fill in
    impl/__init__.py                    + from impl.ops._foo import foo as foo
    conformance/cases/foo.py            an entry of the table of operations, to fill in

and prints the steps that are left, each with the command that checks it.
"""

from __future__ import annotations

import dataclasses
import keyword
import re
import string
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spec import loader
from spec.check import ledger
from spec.model import Direction, Spec, SpecError

#: The order of a row whose author has not chosen one; ``python -m spec check`` reports it.
_BLANK = "FILL_IN"
#: The greatest number of characters of a line of code.
_LINE = 100


#: The packages that have the modules of ops, by the prefix of an op's name.
PACKAGES = {"": "impl.ops", "nn.functional": "impl.nn.functional"}


@dataclasses.dataclass(frozen=True)
class NewOp:
    """The op to write.

    Attributes:
        op: Dotted name, as in ``impl``.
        device: ``any`` for one row; the name of a device for a row of each device, of which this
            one gives other bits from run to run with the mode off.
        direction: The direction whose result depends on an order.
        order: Name of the order; None if its author has not chosen one yet.
        torch: The name in PyTorch's documents; None if it is ``torch.`` and the op.
        family: Name of the file of rows; None for a file of the op's own name.
    """

    op: str
    device: str = "any"
    direction: Direction = "forward"
    order: str | None = None
    torch: str | None = None
    family: str | None = None

    @property
    def name(self) -> str:
        """The last part of the op's name."""
        return self.op.rpartition(".")[2]

    @property
    def package(self) -> str:
        """The package that has the module of the op.

        Raises:
            SpecError: No skeleton can be written for an op of this name.
        """
        prefix = self.op.rpartition(".")[0]
        if prefix not in PACKAGES:
            raise SpecError(
                f"{self.op!r} is in the namespace {prefix!r}; skeletons are written for ops of "
                "`impl` and of `impl.nn.functional`, as `foo` or `nn.functional.foo`"
            )
        if not re.fullmatch(r"[a-z][a-z0-9_]*", self.name) or keyword.iskeyword(self.name):
            raise SpecError(f"{self.name!r} is not the name of a function; use lower case letters")
        return PACKAGES[prefix]

    @property
    def rows(self) -> str:
        """The path of the file of rows."""
        return f"spec/rows/{self.family or self.name}.toml"

    @property
    def cases(self) -> str:
        """The path of the samples."""
        return f"conformance/cases/{self.name}.py"

    @property
    def module(self) -> str:
        """The path of the function."""
        return f"{self.package.replace('.', '/')}/_{self.name}.py"

    @property
    def exports(self) -> str:
        """The path of the ``__init__`` that exports the op."""
        return f"impl.{self.op}".rpartition(".")[0].replace(".", "/") + "/__init__.py"


@dataclasses.dataclass(frozen=True)
class Skeleton:
    """The files of a new op, by path, and the steps that are left to its author."""

    texts: Mapping[str, str]
    steps: str

    def write(self, repository: Path) -> None:
        """Writes the files."""
        for name, text in self.texts.items():
            path = repository / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")


def skeleton(repository: Path, new: NewOp) -> Skeleton:
    """Returns the files of a new op, and the steps that are left.

    Args:
        repository: The root of a checkout.
        new: The op.

    Raises:
        SpecError: The folder is not a checkout, the op exists, or an argument names something
            that does not exist.
    """
    for name in ("pyproject.toml", "impl/__init__.py"):
        if not (repository / name).is_file():
            raise SpecError(
                f"`new` writes into a checkout of the repository, and {repository} has no {name}; "
                "clone the repository and run the command there"
            )
    spec = loader.read(repository / "spec")
    _require_known(spec, new)
    _require_new(spec, repository, new)
    table = loader.read_table(repository / "spec", "ids.toml")
    ids = _ids(spec, table, new)
    names = {"op": new.op, "name": new.name, "torch_name": new.torch or f"torch.{new.op}"}
    texts = {
        new.rows: _with_rows(repository / new.rows, ids, new, spec),
        "spec/ids.toml": ledger.text(table, dict.fromkeys(ids.values(), new.op)),
        new.module: _filled(f"{new.direction}/op.py.txt", names),
        new.exports: _with_export(repository / new.exports, new),
        new.cases: _filled(f"{new.direction}/cases.py.txt", names),
    }
    paths = {"rows": new.rows, "module": new.module, "cases": new.cases}
    steps = {**paths, "name": new.name, "ids": " or ".join(ids.values())}
    return Skeleton(texts, _filled("steps.txt", steps))


def _require_known(spec: Spec, new: NewOp) -> None:
    """Raises if an argument names something that does not exist."""
    devices = ["any", *_with_rows_of_their_own(spec)]
    if new.device not in devices:
        raise SpecError(f"--device got {new.device!r}; allowed are {devices}")
    if new.order not in (None, *spec.orders):
        raise SpecError(f"--order got {new.order!r}; allowed are {list(spec.orders)}")
    if new.torch is not None and not re.fullmatch(r"torch(\.\w+)+", new.torch):
        raise SpecError(f"--torch got {new.torch!r}; it is a name such as torch.Tensor.put_")
    if new.family is not None and not re.fullmatch(r"[a-z][a-z0-9_]*", new.family):
        raise SpecError(f"--family got {new.family!r}; it is a name such as max_pool")


def _with_rows_of_their_own(spec: Spec) -> list[str]:
    return [d.name for d in spec.devices.values() if d.platforms and not d.like]


def _require_new(spec: Spec, repository: Path, new: NewOp) -> None:
    """Raises if the op exists, or if its file of rows has the rows of other ops."""
    rows = [row for row in spec.rows if row.op == new.op]
    if rows:
        ids = ", ".join(row.id for row in rows)
        raise SpecError(
            f"the op {new.op!r} exists: its rows are {ids} in spec/rows/{rows[0].family}.toml"
        )
    for name in (new.module, new.cases):
        if (repository / name).exists():
            raise SpecError(f"{name} exists; `new` writes only ops that have no file yet")
    if new.family is None and (repository / new.rows).exists():
        raise SpecError(
            f"{new.rows} has the rows of other ops; pass --family {new.name} to add to it, or "
            "the name of another file"
        )


def _ids(spec: Spec, table: Mapping[str, Any], new: NewOp) -> dict[str, str]:
    """Returns an id for the row of each device: the next ones of the ledger."""
    devices = [new.device]
    if new.device != "any":
        devices += [name for name in _with_rows_of_their_own(spec) if name != new.device]
    used = [(row.family, row.id, row.op) for row in spec.rows]
    ids = {}
    for device in devices:
        ids[device] = ledger.next_free(used, table)
        used.append((new.rows, ids[device], new.op))
    return ids


def _with_rows(path: Path, ids: Mapping[str, str], new: NewOp, spec: Spec) -> str:
    """Returns the file of rows with the new rows at its end."""
    tables = [path.read_text(encoding="utf-8")] if path.exists() else []
    for device, id in ids.items():
        races = device == new.device != "any" and spec.devices[device].races
        lines = {
            "torch": f'torch = "{new.torch}"\n' if new.torch else "",
            "direction": 'direction = "backward"\n' if new.direction == "backward" else "",
            "mode_off": 'mode_off = "not_guaranteed"\n' if races else "",
        }
        names = {"id": id, "op": new.op, "device": device, "order": new.order or _BLANK}
        tables.append(_filled("row.toml.txt", {**names, **lines}))
    return "\n".join(tables)


def _with_export(path: Path, new: NewOp) -> str:
    """Returns an ``__init__`` with the import of the op, in alphabetical order.

    Raises:
        SpecError: The package has the name already, or has no op of the namespace.
    """
    package, name = new.package, new.name
    text = path.read_text(encoding="utf-8")
    if re.search(rf"\bas {name}\b", text):
        raise SpecError(f"{new.exports} has the name {name!r} already")
    statement = f"from {package}._{name} import {name} as {name}\n"
    if len(statement) > _LINE + 1:
        statement = f"from {package}._{name} import (\n    {name} as {name},\n)\n"
    imports = re.compile(
        rf"^from {re.escape(package)}\.(\w+) import (?:\([^)]*\)|.*)\n", re.MULTILINE
    )
    found = list(imports.finditer(text))
    if not found:
        raise SpecError(f"{new.exports} has no import from {package}")
    later = [match.start() for match in found if match[1] > f"_{name}"]
    at = later[0] if later else found[-1].end()
    return text[:at] + statement + text[at:]


def _filled(template: str, names: Mapping[str, str]) -> str:
    text = (loader.ROOT / "templates" / template).read_text(encoding="utf-8")
    return string.Template(text).substitute(names)

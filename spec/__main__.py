"""The command line of the spec: ``python -m spec``.

Each command is a thin function over a module of this package. Errors that a user can cause are
one line on standard error, and the exit status is then 1::

    $ python -m spec show index_adds
    python -m spec: no row is about the op 'index_adds'; close to it: index_add, ...

===========  ==========================================================  ======================
command      output                                                      ``--write`` changes
===========  ==========================================================  ======================
``check``    a line for each fault of the rows; status 1 if one is left
``ids``      the ids that ``ids.toml`` lacks, and the next free id       ``ids.toml``
``lock``     a digest for each transcribed profile                       ``locks.toml``
``version``  the changes since the published version                     ``data.toml``
``new``      the files that it wrote, and the steps that are left
``show``     the answers about one op, in English
``export``   all rows as JSON or CSV, or the schema of the JSON
===========  ==========================================================  ======================
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from spec import check, export, loader, new, show
from spec.check import ledger, locks, versions
from spec.model import Direction, SpecError
from spec.new import NewOp


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status."""
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
    except SpecError as error:
        return _fail(str(error))
    except BrokenPipeError:
        # The rest of the buffer would fail again when the interpreter exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _fail("the reader of the output went away before its end")
    except OSError as error:
        return _fail(f"{error.filename or 'output'}: {error.strerror}")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m spec", description="The spec of samebits.")
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(str(loader.ROOT)),
        help="a folder laid out as spec/ is (default: the spec of this distribution)",
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    lint = commands.add_parser("check", help="list everything that is wrong with the rows")
    lint.set_defaults(run=_check)
    ids = commands.add_parser("ids", help="list the ids that ids.toml lacks")
    ids.add_argument("--write", action="store_true", help="add them to ids.toml")
    ids.set_defaults(run=_ids)
    lock = commands.add_parser("lock", help="show the digests of the transcribed profiles")
    lock.add_argument("--write", action="store_true", help="write them to locks.toml")
    lock.set_defaults(run=_lock)
    version = commands.add_parser("version", help="list the changes since the version of the data")
    version.add_argument(
        "--write", action="store_true", help="give them a new version and describe them"
    )
    version.add_argument(
        "--part",
        choices=get_args(versions.Part),
        help="the part of the version to raise; `same` if the version is not published yet "
        "(default: major if something is lost, otherwise minor)",
    )
    version.set_defaults(run=_version)
    op = commands.add_parser("new", help="write the skeleton of a new op into this checkout")
    op.add_argument("op", metavar="OP", help="its name: foo, or nn.functional.foo")
    op.add_argument(
        "--device",
        default="any",
        help="write a row for each device; with the mode off, this one gives other bits from run "
        "to run (default: one row for any device)",
    )
    op.add_argument(
        "--direction",
        choices=get_args(Direction),
        default="forward",
        help="the direction whose result depends on an order (default: forward)",
    )
    op.add_argument("--order", help="the order of the result, from orders.toml")
    op.add_argument("--torch", metavar="NAME", help="its name in PyTorch (default: torch.OP)")
    op.add_argument("--family", help="the file of its rows (default: a file of its own name)")
    op.set_defaults(run=_new)
    answer = commands.add_parser("show", help="show what the mode does to an op")
    answer.add_argument(
        "op", metavar="OP", help="its name, here, in PyTorch or in JAX: nn.functional.pad"
    )
    answer.add_argument("--device", help="one device (default: all)")
    answer.add_argument("--profile", help="the profile (default: the profile of the mode)")
    answer.add_argument("--direction", choices=get_args(Direction), help="default: both")
    answer.set_defaults(run=_show)
    rows = commands.add_parser("export", help="write the rows for other tools")
    rows.add_argument(
        "--format",
        choices=["json", "csv", "schema"],
        default="json",
        help="one document, a flat table, or the JSON Schema of the document (default: json)",
    )
    rows.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")
    rows.set_defaults(run=_export)
    return parser


def _check(options: argparse.Namespace) -> int:
    problems = check.problems(options.root)
    for problem in problems:
        print(problem)
    if problems:
        print(f"{len(problems)} problem(s)", file=sys.stderr)
        return 1
    print(f"{len(loader.read(options.root).rows)} rows, no problem")
    return 0


def _ids(options: argparse.Namespace) -> int:
    table = loader.read_table(options.root, "ids.toml")
    used = [
        (file, str(row.get("id")), str(row.get("op")))
        for file, row in loader.row_tables(options.root)
    ]
    missing = ledger.unissued(used, table)
    for id, op in missing.items():
        print(f"{id} {op}")
    if options.write and missing:
        ledger.write(options.root / "ids.toml", table, missing)
    print(f"the next free id is {ledger.next_free(used, table)}")
    return 0


def _lock(options: argparse.Namespace) -> int:
    spec = loader.read(options.root)
    for name, digest in locks.digests(spec).items():
        print(f"{name} {digest}")
    if options.write:
        locks.write(options.root / "locks.toml", spec)
    return 0


def _version(options: argparse.Namespace) -> int:
    spec = loader.read(options.root)
    table = loader.read_table(options.root, versions.TABLE)
    for line in versions.changes(spec, table["digests"]).lines():
        print(line)
    version = spec.data.version
    if options.write:
        version = versions.write(options.root, spec, options.part)
    print(f"the version is {version}")
    return 0


def _new(options: argparse.Namespace) -> int:
    repository = options.root.resolve().parent
    op = NewOp(**{field.name: getattr(options, field.name) for field in dataclasses.fields(NewOp)})
    skeleton = new.skeleton(repository, op)
    skeleton.write(repository)
    for name in skeleton.texts:
        print(f"wrote {name}")
    print()
    print(skeleton.steps, end="")
    return 0


def _show(options: argparse.Namespace) -> int:
    spec = loader.read(options.root)
    chosen = {name: getattr(options, name) for name in ("device", "profile", "direction")}
    sys.stdout.write(show.text(options.op, spec, **chosen))
    return 0


def _export(options: argparse.Namespace) -> int:
    spec = loader.read(options.root)
    text = {
        "json": lambda: export.as_json(spec),
        "csv": lambda: export.as_csv(spec),
        "schema": export.schema_as_json,
    }[options.format]()
    if options.output is None:
        sys.stdout.write(text)
    else:
        # Lines end with \n on every system, so that the file is the same everywhere.
        options.output.write_text(text, encoding="utf-8", newline="\n")
    return 0


def _fail(text: str) -> int:
    print(f"python -m spec: {text}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

"""The page of the rows as data: its files on the built site, and its examples."""

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest

import spec
from docs.tests.conftest import HTML
from spec import export
from spec.conditions import distinct_calls

DOCS = Path(__file__).parents[1]
PAGE = (DOCS / "data.md").read_text(encoding="utf-8")
SPEC = spec.load()
#: Decides each call of the standard input, and prints the ids.
DRIVER = """
import { readFileSync } from "node:fs";
import { deciding } from "./rows.mjs";
const data = JSON.parse(readFileSync("rows.json", "utf8"));
const calls = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(calls.map((call) => deciding(data, call)?.id ?? null)));
"""


def block(language: str) -> str:
    """Returns the block of code of a language on the page."""
    (text,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that the page names."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "rows.json").write_text(export.as_json(SPEC), encoding="utf-8")
    shutil.copy(DOCS / "examples" / "rows.mjs", folder)
    return folder


def run(command: list[str], folder: Path, given: str = "") -> str:
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(
        command, cwd=folder, input=given, capture_output=True, check=True, text=True, timeout=60
    ).stdout


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rows.json", export.as_json(SPEC)),
        ("rows.csv", export.as_csv(SPEC)),
        ("export.schema.json", export.schema_as_json()),
    ],
    ids=lambda value: value if len(value) < 20 else "",
)
def test_the_site_has_the_file_at_its_root_and_as_a_download(name: str, text: str) -> None:
    downloads = list(HTML.glob(f"_downloads/*/{name}"))
    assert downloads
    assert {file.read_text(encoding="utf-8") for file in (HTML / name, *downloads)} == {text}


def test_the_page_names_each_key_of_the_document() -> None:
    table = PAGE.partition("## The document")[2].partition("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(export.document(SPEC))


def test_the_program_prints_what_the_page_shows(folder: Path) -> None:
    command = ["node", "--input-type=module", "--eval", block("javascript")]
    assert run(command, folder) == block("text")


def test_the_command_lists_the_operations_that_raise(folder: Path) -> None:
    if not shutil.which("jq"):
        pytest.skip("jq is not installed")
    listed = {row.torch for row in SPEC.select(profile="torch-2.15", behaviour="raise")}
    assert set(run(["sh", "-c", block("sh")], folder).splitlines()) == listed


def test_the_example_decides_each_call_as_the_library_does(folder: Path) -> None:
    calls: list[dict[str, Any]] = []
    expected = []
    devices = [device.name for device in SPEC.devices.values() if device.platforms]
    for op in sorted({row.op for row in SPEC.rows if row.kind == "op"}):
        rows = SPEC.select(op=op, kind="op", active=True)
        for facts, direction, device, profile in itertools.product(
            distinct_calls(rows, SPEC.facts), get_args(spec.Direction), devices, SPEC.profiles
        ):
            names = ("op", "direction", "device", "profile", "facts")
            calls.append(dict(zip(names, (op, direction, device, profile, facts), strict=True)))
            answer = spec.resolve(op, direction, device, facts, profile)
            listed = answer.row if answer.listed else None
            expected.append(listed and listed.id)
    command = ["node", "--input-type=module", "--eval", DRIVER]
    assert json.loads(run(command, folder, json.dumps(calls))) == expected

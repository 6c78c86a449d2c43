"""The version of the rows as data."""

import re
import tomllib

import pytest

from spec import loader
from spec.__main__ import main
from spec.check import versions
from spec.tests._edits import add, edit, reports


def table(root):
    return tomllib.loads((root / "data.toml").read_text(encoding="utf-8"))


def write(root, part=None):
    return versions.write(root, loader.read(root), part)


def test_a_change_of_a_row_needs_a_version(root):
    edit(root / "rows/index_add.toml", "it has not raised since", "it last raised before")
    (problem,) = reports(root)
    assert problem.startswith("data.toml: the rows differ from version ")
    assert problem.endswith(": Changed: R0001. Run `python -m spec version --write`")
    write(root, "patch")
    assert reports(root) == []


def test_a_change_of_a_vocabulary_needs_a_version(root):
    edit(root / "orders.toml", "Last write wins", "Last one wins")
    (problem,) = reports(root)
    assert "Changed: orders. Run" in problem


def test_many_rows_are_counted():
    ids = tuple(f"R{number:04}" for number in range(1, 31))
    few = versions.Changes(added=ids[:20], changed=(), removed=())
    many = versions.Changes(added=(), changed=(*ids, "facts"), removed=ids[:1])
    assert few.lines() == [f"Added: {', '.join(ids[:20])}."]
    assert many.lines() == ["Changed: 30 rows, facts.", "Removed: R0001."]


def test_a_version_needs_an_entry(root):
    (root / "CHANGELOG.md").write_text("# Changelog\n", encoding="utf-8")
    (problem,) = reports(root)
    assert problem.startswith("CHANGELOG.md: the newest entry is not one of version ")


def test_an_entry_needs_a_text(root):
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8")
    heading = re.search(r"^## .*\n", text, re.MULTILINE)
    changelog.write_text(text[: heading.end()], encoding="utf-8")
    (problem,) = reports(root)
    assert problem.startswith("CHANGELOG.md")


def test_a_new_row_is_described_in_a_minor_version(root):
    before = table(root)["version"]
    add(root, "new", "new", "torch.new", "any")
    version = write(root)
    assert version == versions.raised(before, "minor") == table(root)["version"]
    entries = (root / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")
    assert entries[1] == f"[{version}] - {table(root)['changed'][:10]}\n\n- Added: R9999.\n"
    assert entries[2].startswith(f"[{before}]")
    assert reports(root) == []


def test_a_version_that_nobody_has_read_may_stay(root):
    before = table(root)["version"]
    entries = (root / "CHANGELOG.md").read_text(encoding="utf-8").count("\n## ")
    add(root, "new", "new", "torch.new", "any")
    assert write(root, "same") == before
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    assert text.count("\n## ") == entries
    assert "- Added: R9999.\n- " in text
    assert reports(root) == []


def test_a_lost_row_makes_a_major_version(root):
    before = table(root)["version"]
    edit(root / "data.toml", "[digests]", '[digests]\nR9999 = "0123456789abcdef"')
    assert versions.changes(loader.read(root), table(root)["digests"]).removed == ("R9999",)
    assert write(root) == versions.raised(before, "major")


def test_without_a_change_nothing_is_written(root):
    before = {file.name: file.read_bytes() for file in root.iterdir() if file.is_file()}
    write(root)
    assert {file.name: file.read_bytes() for file in root.iterdir() if file.is_file()} == before


@pytest.mark.parametrize(
    ("part", "expected"),
    [("major", "2.0.0"), ("minor", "1.3.0"), ("patch", "1.2.4"), ("same", "1.2.3")],
)
def test_a_part_is_raised(part, expected):
    assert versions.raised("1.2.3", part) == expected


def test_the_command_lists_the_changes_and_writes_them(root, capsys):
    before = table(root)["version"]
    add(root, "new", "new", "torch.new", "any")
    assert main(["--root", str(root), "version"]) == 0
    assert capsys.readouterr().out == f"Added: R9999.\nthe version is {before}\n"
    assert main(["--root", str(root), "version", "--write", "--part", "patch"]) == 0
    raised = versions.raised(before, "patch")
    assert capsys.readouterr().out == f"Added: R9999.\nthe version is {raised}\n"

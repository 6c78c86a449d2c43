"""A page shows the tables that are committed, and leaves out all other tables."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import measured_tables


def test_a_table_appears_with_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_tables, "FOLDERS", (tmp_path,))
    assert measured_tables.files(["sums-cpu"]) == []
    (tmp_path / "sums-cpu.md").write_text("# Sums\n", encoding="utf-8")
    assert measured_tables.files(["other", "sums-cpu"]) == [tmp_path / "sums-cpu.md"]


def test_a_plot_appears_with_its_file(tmp_path: Path) -> None:
    table, curve = tmp_path / "sums-cpu.md", tmp_path / "sums-cpu-curve.svg"
    assert measured_tables.plots(table) == []
    curve.touch()
    assert measured_tables.plots(table) == [curve]


def test_the_page_shows_launches_and_bytes(page_html: Callable[[str], str]) -> None:
    text = page_html("the-same-bits-everywhere")
    (path,) = measured_tables.files(["portable_programs"])
    rows = re.findall(r"^\| (\w+) \| (\d+) \|", path.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(rows) == 4
    for name, launches in rows:
        assert re.search(rf"<td><p>{name}</p></td>\s*<td.*?><p>{launches}</p></td>", text)

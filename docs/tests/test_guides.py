"""The guides answer the words that people search for, and show what the data have."""

import dataclasses
import statistics
from collections import Counter
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import cost_tables
import differences
import landing
import spec
from conformance.benchmarks import measurements

DOCS = Path(__file__).parents[1]
RESULT = DOCS.parent / "conformance/benchmarks/results/cpu.json"
#: The words that people search for, by the page that answers.
SEARCHED = {
    "your-program": ("Flax", "linen", "nnx", "Equinox", "Optax", "sharding"),
    "cost": ("slow", "overhead", "performance"),
    "not-covered": ("dropout", "attention", "batch norm", "segment_sum", "einsum"),
    "writing-an-op": ("an op of your own", "Pallas", "segment_sum"),
    "quick-start": ("imported as `impl`",),
}


@pytest.mark.parametrize("page", SEARCHED)
def test_a_page_has_the_words_that_people_search_for(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8").lower().replace("\n", " ")
    assert [word for word in SEARCHED[page] if word.lower() not in text] == []


def test_the_table_of_differences_has_each_erratum(page_html: Callable[[str], str]) -> None:
    text = unescape(page_html("differences"))
    errata = [erratum for row in spec.load().rows for erratum in row.errata]
    table = text.partition("From release to release")[0].rpartition("<tbody>")[2]
    assert table.count("<tr") == len(errata)
    assert f"There are {len(errata)} differences." in text
    assert 'src="_static/sortable.js' in text.replace("../", "")


def test_a_release_has_each_change_of_a_behaviour(page_html: Callable[[str], str]) -> None:
    text = page_html("differences")
    rows, profiles = spec.load().rows, spec.load().profiles
    *_, old, new = (profile for profile in profiles.values() if profile.release)
    changed = [row for row in rows if row.behaviour[old.name] != row.behaviour[new.name]]
    assert changed
    _, _, part = text.partition(f"From {old.title} to {new.title}: {len(changed)} rows")
    for row in changed:
        assert f">{row.id}<" in part.partition("</table>")[0]
    assert "raise" not in {row.behaviour["complete"] for row in rows}  # As the page states.


def test_documents_are_told_by_release() -> None:
    entries = spec.load()
    released = [name for name, profile in entries.profiles.items() if profile.release]
    old, *others = (entries.profiles[name].release for name in released)
    behaviour: dict[str, spec.Behaviour | None] = dict.fromkeys(entries.profiles, "raise")
    raising = dataclasses.replace(entries.rows[0], behaviour=behaviour)
    assert differences.documented(raising, entries) == "raises"
    changed = dataclasses.replace(raising, behaviour={**behaviour, released[0]: None})
    text = differences.documented(changed, entries)
    assert text == f"{old}: not listed; {', '.join(others)}: raises"
    bound = spec.Erratum("", "2.6", None, {}, (), since_is_bound=True, until="2.9")
    assert differences.since(bound) == "since 2.6 or before, up to 2.9"


def test_the_summary_of_costs_has_each_family() -> None:
    text = cost_tables.of_benchmarks(RESULT)
    for family in measurements.Report.read(RESULT).families.values():
        compared = [m for m in family.measurements if {family.ours, family.base} <= m.sides.keys()]
        if family.ours == family.base:
            assert f"| {family.title} |" not in text
            continue
        parts: dict[str, list[float]] = {}
        for each in compared:
            part = each.case.get("part", each.case.get("work", ""))
            ratio = each.sides[family.ours].median / each.sides[family.base].median
            parts.setdefault(part, []).append(ratio)
        for part, ratios in parts.items():
            sides = f"{family.ours} compared with {family.base}"
            line = f"| {family.title} | {part}{', ' if part else ''}{sides}"
            assert f"{line} | {len(ratios)} | {statistics.median(ratios):.2g} | " in text
        assert f"| {family.title} |" in text


def test_the_first_page_counts_the_evidence(
    page_html: Callable[[str], str], kept_evidence: Any, deciding_devices: Any
) -> None:
    rows: Counter[str] = Counter()
    levels: Counter[tuple[str, str]] = Counter()
    for row in spec.load().select(active=True):
        for device in deciding_devices(row):
            rows[device] += 1
            if (row.id, device) not in kept_evidence.failed:
                of_row = {level for level, _ in kept_evidence.levels[row.id, device]}
                levels.update((device, level) for level in of_row)
    shown = landing.evidence(DOCS.parent / "conformance" / "reports")
    for device in rows:
        ran, compiled = levels[device, "hardware"], levels[device, "compiled"]
        assert f"| `{device}` | {rows[device]} | {ran} | {compiled} |" in shown
        assert f"<p>{rows[device]}</p>" in page_html("index")


def test_the_repository_is_linked_as_soon_as_it_has_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pyproject.toml"
    monkeypatch.setattr(landing, "PYPROJECT", file)
    file.write_text('[project]\nname = "x"\n', encoding="utf-8")
    assert landing.urls() == {}
    file.write_text('[project.urls]\nRepository = "https://x.org"\n', encoding="utf-8")
    assert landing.urls() == {"Repository": "https://x.org"}

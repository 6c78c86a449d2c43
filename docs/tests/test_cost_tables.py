"""A page shows the tables that it names, with the figures of the files that are kept."""

import json
import re
from collections.abc import Callable

import cost_files
import cost_tables
from conformance.lab.compiled import without_kernels
from conformance.lab.elementary import findings


def test_each_family_of_a_report_has_a_table_and_pictures() -> None:
    tables = cost_tables.all_tables()
    title, *_ = tables["scatter-cpu"].text()
    assert title == "# index_add, float32"
    assert tables["scatter-cpu"].pictures == ("bench-scatter-cpu", "bench-scatter-cpu-curve")


def test_programs_on_one_device_and_on_eight_have_the_times_of_the_report() -> None:
    table = cost_tables.at_a_glance(cost_files.OF_CPU)
    report = json.loads(cost_files.OF_CPU.read_text(encoding="utf-8"))
    measured = report["families"]["portable"]["measurements"]
    (eight,) = (
        each["sides"]
        for each in measured
        if each["case"] == {"program": "transformer", "devices": "8", "part": "run"}
    )
    ratio = eight["portable"]["median"] / eight["plain"]["median"]
    assert re.search(rf"^\| transformer \| 8 \| run \|.*\({ratio:.1f}\) \|$", table, re.MULTILINE)
    assert table.count("| transformer | ") == table.count("| ResNet block | ") == 4
    # README shows the table too.
    assert table in (cost_files.ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_of_calls_has_a_line_for_each_case() -> None:
    lines = list(cost_tables.every_case())
    cases = json.loads(cost_files.COUNTED.read_text(encoding="utf-8"))["cases"]
    sized = [name for name in cases if not name.startswith(cost_files.SAMPLE)]
    named = [line.split(" | ")[0][2:] for line in lines if "other branch" not in line]
    assert named[-len(sized) :] == sized
    case = cases["index_add-1k-10k-64"]
    on, plain = case["on"], case["plain"]
    (line,) = (line for line in lines if line.startswith("| index_add-1k-10k-64 |"))
    own = f"{on['launches']} | {on['bytes'] / 1e6:.1f} MB | {on['bytes'] / case['floor']:.1f} | 0 |"
    beside = f"{plain['bytes'] / 1e6:.1f} MB ({on['bytes'] / plain['bytes']:.1f}) |"
    assert f"{own} {plain['launches']} | {beside}" in line


def test_the_page_shows_launches_and_bytes(page_html: Callable[[str], str]) -> None:
    text = page_html("the-same-bits-everywhere")
    steps = json.loads(cost_files.STEPS.read_text(encoding="utf-8"))["cases"]
    assert len(steps) == 4
    for name, sides in steps.items():
        launches = sides["plain"]["launches"]
        assert re.search(rf"<td><p>{name}</p></td>\s*<td.*?><p>{launches}</p></td>", text)
    assert "bench-portable-cpu-light.svg" in text


def test_the_page_shows_the_trial_of_every_argument(page_html: Callable[[str], str]) -> None:
    rows = re.findall("<tr.*?</tr>", page_html("the-same-bits-everywhere"), re.DOTALL)
    for name, each in findings.read().items():
        tried = f"{each['dtypes']['float32']['tried']:,}"
        assert any(f">{name}</span>" in row and tried in row for row in rows)


def test_the_table_of_kernels_has_the_cost_without_them() -> None:
    lines = list(cost_tables.without_kernels())
    cases = json.loads(cost_files.WITHOUT_KERNELS.read_text(encoding="utf-8"))["cases"]
    assert list(cases) == list(without_kernels.REPLACEMENTS)
    assert [line.split(" | ")[0][2:] for line in lines][-len(cases) :] == list(cases)
    own, other = (cases["mode-512-1024"][side]["launches"] for side in ("with", "without"))
    (line,) = (line for line in lines if line.startswith("| mode-512-1024 "))
    assert line.endswith(f"| a sort of each row | {own} | 2.1 MB | {other} | 18.9 MB (8.9) |")
    assert any(line.endswith("| unknown | unknown |") for line in lines)

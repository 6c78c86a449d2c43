"""Templates, roles, links and pictures, in a site of one page and with other data."""

import io
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

import costs
import pictures
import row_evidence
import row_lists
import spec
import templates
from docs.tests.conftest import HTML

ROOT = Path(__file__).parents[2]
#: Faults of a page, and the warning of each.
FAULTS = {
    "See {row}`nothing`.": "'row' reference target not found: nothing",
    "See {order}`nothing`.": "'order' reference target not found: nothing",
    "```{spec-kind} nothing\n```": "no kind 'nothing' to list",
    "```{spec-primitives} same\n:device: nothing\n```": "has the effect 'same' on 'nothing'",
    "```{spec-primitives} same\n```": "has no attribute 'device'",
    "```{picture} nothing\n```": "no picture 'nothing'",
    "```{measured-tables}\nnothing\n```": "no table 'nothing'",
    "```{report-records} nothing\n```": "no record is of the check 'nothing'",
}
PAGE = """\
# Page

`impl/ops/_reads.py`, [`impl/ops/_memory.py`](https://x.org/), `impl/ops/` and `impl/ops/absent.py`

{entry}`order source`Here it is: {order}`source`.

"""


def build(folder: Path, text: str, conf: str) -> tuple[str, str]:
    """Builds a site of one page, and returns its HTML and the warnings."""
    (source := folder / "source").mkdir()
    (source / "index.md").write_text(text, encoding="utf-8")
    (html, doctrees), warnings = (folder / "html", folder / "doctrees"), io.StringIO()
    (source / "conf.py").write_text(f"{conf}\nnitpicky = True\n", encoding="utf-8")
    with patch_docutils(), docutils_namespace():
        Sphinx(source, source, html, doctrees, "html", status=None, warning=warnings).build()
    built = (folder / "html" / "index.html").read_text(encoding="utf-8")
    return built, warnings.getvalue()


def test_a_page_links_files_and_entries_and_its_faults_are_warnings(tmp_path: Path) -> None:
    conf = 'extensions = ["myst_parser", "finishing", "templates"]\n'
    text, warnings = build(tmp_path, PAGE + "\n\n".join(FAULTS), conf)
    assert [fault for fault, message in FAULTS.items() if message not in warnings] == []
    assert len(set(re.findall(r"index\.md:\d+", warnings))) == len(FAULTS)
    assert re.findall(r'href="_downloads/\w+/([^"]+)"', text) == ["_reads.py"]
    assert 'href="https://x.org/"' in text
    assert 'id="order-source"' in text
    assert 'href="#order-source"' in text


def test_another_site_links_to_entries_as_the_page_about_data_shows(tmp_path: Path) -> None:
    page = (ROOT / "docs/data.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(extensions.*?)^```", page, re.MULTILINE | re.DOTALL)[0]
    conf = code.replace(", None)", f', r"{HTML / "objects.inv"}")')
    conf = conf.replace("[", '["myst_parser", ', 1)
    names = {"row": "R0001", "profile": spec.default_profile(), "order": "source"}
    roles = " ".join(templates.role(name, kind) for kind, name in names.items())
    text, warnings = build(tmp_path, f"# Site\n\n{roles}\n", conf)
    assert not warnings
    links = re.findall(r'href="https://samebits\.example/([^"]+)"', text)
    assert len(links) == len(names)
    assert [link for link in links if not (HTML / link.partition("#")[0]).is_file()] == []


def test_texts_of_the_spec_have_no_marks_besides_code() -> None:
    assert templates.prose("a*b* <c> `d_*e` [f]_g_") == r"a\*b\* \<c\> `d_*e` \[f\]\_g\_"


def test_the_repository_is_linked_as_soon_as_it_has_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pyproject.toml"
    monkeypatch.setattr(row_lists, "PYPROJECT", file)
    for content, shown in (
        ('[project]\nname = "x"\n', "None yet.\n"),
        ('[project.urls]\nRepository = "https://x.org"\n', "[Repository](https://x.org)\n"),
    ):
        file.write_text(content, encoding="utf-8")
        text = templates.render("directives/repository.md", lines=["None yet."])
        assert text == shown


def test_a_family_of_benchmarks_has_a_table_pictures_and_a_line_of_the_summary() -> None:
    tables = templates.render("directives/measured-tables.md", lines=["scatter-cpu"])
    assert tables.startswith("```{rubric} index_add, float32\n")
    assert re.findall(r"\{picture\} (\S+)", tables) == [
        "bench-scatter-cpu",
        "bench-scatter-cpu-curve",
    ]
    reports = [json.loads(path.read_text("utf-8")) for path in sorted(costs.RESULTS.glob("*.json"))]
    lines = templates.render("directives/cost-summary.md").splitlines()
    cases: Counter[str] = Counter()
    for family in (family for report in reports for family in report["families"].values()):
        sides = family["ours"], family["base"]
        compared = [m for m in family["measurements"] if {*sides} <= m["sides"].keys()]
        cases[family["title"]] += len(compared) if sides[0] != sides[1] else 0
    for title, count in cases.items():
        own = [line for line in lines if line.startswith(f"| {title} |")]
        assert sum(int(line.split("|")[3]) for line in own) == count
    report = json.loads(costs.OF_CPU.read_text(encoding="utf-8"))
    ratios = [
        m["sides"]["ordered"]["median"] / m["sides"]["plain `.at[].add`"]["median"]
        for m in report["families"]["scatter"]["measurements"]
    ]
    line = next(line for line in lines if line.startswith("| index_add, float32 |"))
    assert line.endswith(f" | {min(ratios):.2g} | {max(ratios):.2g} |")


def test_programs_on_one_device_and_on_eight_have_the_times_of_the_report() -> None:
    table = templates.render("directives/cost-at-a-glance.md")
    report = json.loads(costs.OF_CPU.read_text(encoding="utf-8"))
    (eight,) = (
        each["sides"]
        for each in report["families"]["portable"]["measurements"]
        if each["case"] == {"program": "transformer", "devices": "8", "part": "run"}
    )
    ratio = eight["portable"]["median"] / eight["plain"]["median"]
    assert re.search(rf"^\| transformer \| 8 \| run \|.*\({ratio:.1f}\) \|$", table, re.MULTILINE)
    assert table.count("| transformer | ") == table.count("| ResNet block | ") == 4
    # README shows the table too.
    assert table in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("sums", r"\d\d+ different results if they are added .* 1 if the sum is exact"),
        ("costs-cpu", r"index_add [\d.]+"),
        ("evidence", r"cpu: hardware \d+, .* cuda: hardware \d+"),
        ("bench-scatter-cpu", "index_add, float32: the ratios"),
        ("bench-scatter-cpu-curve", "index_add, float32: the times"),
    ],
)
def test_a_picture_has_a_file_for_each_theme_and_tells_what_it_shows(
    name: str, shown: str, tmp_path: Path
) -> None:
    assert re.search(shown, pictures.write(name, tmp_path))
    light, dark = ((tmp_path / f"{name}-{theme}.svg").read_text() for theme in ("light", "dark"))
    assert light != dark
    assert re.sub("#[0-9a-f]{6}", "", light) == re.sub("#[0-9a-f]{6}", "", dark)
    pictures.write(name, tmp_path / "again")
    assert (tmp_path / "again" / f"{name}-light.svg").read_text() == light


def test_the_bars_count_every_active_row_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = row_evidence.LEVELS
    counts = {"cpu": dict.fromkeys(levels, 2), "cuda": dict.fromkeys(levels, 1)}
    monkeypatch.setattr(row_evidence, "counts", lambda _: counts)
    figure, _ = pictures.pictures()["evidence"]()
    bars = (bar for bars in figure.axes[0].containers for bar in bars)
    assert sum(bar.get_width() for bar in bars) == 3 * len(levels)

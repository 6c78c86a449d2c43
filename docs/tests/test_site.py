"""The built pages against the rows, the answers and the data of which they are made."""

import collections
import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path

import pytest
from docutils import nodes

import answers
import finishing
import page_facts
import row_lists
import spec
from docs.tests.conftest import HTML, plain, section, tables, unmarked
from spec.conditions import distinct_calls

SPEC = spec.load()
DOCS = Path(__file__).parents[1]
#: The words that people search for, by the page that answers.
SEARCHED = {
    "your-program": ("Flax", "linen", "nnx", "Equinox", "Optax", "sharding"),
    "cost": ("slow", "overhead", "performance"),
    "not-covered": ("dropout", "attention", "batch norm", "segment_sum", "einsum"),
    "writing-an-op": ("an op of your own", "Pallas", "segment_sum"),
    "quick-start": ("imported as `impl`",),
}
Page = Callable[[str], str]


def test_each_page_has_a_description_an_icon_and_marks_of_tables() -> None:
    for file in HTML.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert re.search('<meta name="description" content="[^"]{20,}', text), file
        assert 'rel="shortcut icon"' in text, file
        # Sphinx makes the indices of names.
        own = [tag for tag in re.findall("<table[^>]*>", text) if "index" not in tag]
        assert text.count("<caption") == len(own), file
        assert len(re.findall("<th[ >]", text)) == text.count("scope="), file


@pytest.mark.parametrize("page", SEARCHED)
def test_a_page_has_the_words_that_people_search_for(page: str) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8").lower().replace("\n", " ")
    assert [word for word in SEARCHED[page] if word.lower() not in text] == []


def test_each_page_has_a_script_with_its_text() -> None:
    index = (HTML / "searchindex.js").read_text(encoding="utf-8")
    pages = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))["docnames"]
    assert "index" in pages
    for page in pages:
        text = (HTML / "_excerpts" / f"{page}.js").read_text(encoding="utf-8")
        name, sections = json.loads(text.removeprefix("addExcerpts(").removesuffix(");\n"))
        assert name == page
        assert all(ids for ids, _ in sections)


def test_sections_have_their_own_text() -> None:
    inner = nodes.section("", nodes.title("", "Inner"), nodes.paragraph("", "two"), ids=["b"])
    words = nodes.paragraph("", "", nodes.Text("one "), nodes.literal("", "word"))
    outer = nodes.section("", nodes.title("", "Outer"), words, inner, ids=["a"])
    outer.insert(1, nodes.raw("", "<b>hidden</b>", format="html"))
    document = nodes.document(None, None)  # type: ignore[arg-type]
    document += outer
    assert finishing.sections(document) == [(["a"], "one word"), (["b"], "two")]


def test_llms_text_lists_every_page_and_each_link_leads_to_a_file() -> None:
    text = (HTML / "llms.txt").read_text(encoding="utf-8")
    links = set(re.findall(r"^- \[.*?\]\(([^)]+)\)", text, re.MULTILINE))
    assert [link for link in links if not (HTML / link).is_file()] == []
    pages = {f"ops/{op}.html" for op in answers.ops()} | {"index.html", "data.html", "rows.json"}
    assert pages <= links


def test_the_map_links_its_files(page_html: Page) -> None:
    page = (DOCS / "architecture.md").read_text(encoding="utf-8")
    named = {path.rpartition("/")[2] for path in re.findall(r"`(impl/[\w./-]+\.\w+)`", page)}
    linked = set(re.findall(r'href="_downloads/\w+/([^"]+)"', page_html("architecture")))
    assert len(named) > 50
    assert named - linked == set()


@pytest.mark.parametrize(("page", "rows"), [("rows", SPEC.rows), ("primitives", SPEC.primitives)])
def test_every_row_has_one_anchor(page: str, rows: tuple[spec.Row, ...], page_html: Page) -> None:
    anchors = re.findall(r' id="(R\d{4})"', page_html(page))
    assert sorted(anchors) == sorted(row.id for row in rows)


def test_the_page_has_the_statement_of_each_order(page_html: Page) -> None:
    text = plain(page_html("orders"))
    assert [o.name for o in SPEC.orders.values() if unmarked(o.statement) not in text] == []


def test_the_page_shows_the_source_of_an_erratum(page_html: Page) -> None:
    assert "inclusive_deterministic_scan" in page_html("rows")
    assert "libtorch_cuda.so" in page_html("rows")


def links(text: str) -> list[tuple[str, str]]:
    """Returns the links to rows in HTML, each with the h2 heading above it."""
    parts = [part.partition("<a ") for part in text.split("<h2>")]
    rows = ((plain(head), re.findall(r'rows\.html#(R\d{4})"', rest)) for head, _, rest in parts)
    return [(heading, row) for heading, found in rows for row in found]


def listed_rows(profile: str) -> Iterator[tuple[str, str]]:
    """Yields the heading and the id of every row that a profile's page has to list."""
    for row in SPEC.rows:
        behaviour = row.behaviour[profile]
        if behaviour is not None and not row.active:
            yield row_lists.OUT_OF_SCOPE, row.id
        elif behaviour is not None:
            yield row_lists.OPTIONS.get(row.kind, row_lists.LISTED[behaviour]), row.id
    # The rows by which calls that are not listed are decided.
    for row in SPEC.select(kind="op", active=True):
        effects = set()
        for facts in distinct_calls(SPEC.select(op=row.op), SPEC.facts):
            for device in filter(row.covers, spec.DEVICES):
                answer = spec.resolve(row.op, row.direction, device, facts, profile)
                if answer.row is not None and answer.row.id == row.id and not answer.listed:
                    effects.add(answer.effect)
        for effect in sorted(effects - ({"same"} if len(effects) > 1 else set())):
            yield row_lists.UNLISTED[effect], row.id


@pytest.mark.parametrize("profile", SPEC.profiles)
def test_page_of_a_profile_lists_each_row_once_under_its_behaviour(
    profile: str, page_html: Page
) -> None:
    shown = links(page_html(f"profiles/{profile}"))
    assert collections.Counter(shown) == collections.Counter(listed_rows(profile))


def test_page_out_of_scope_lists_every_such_row_once(page_html: Page) -> None:
    ids = [row for _, row in links(page_html("out-of-scope"))]
    assert sorted(ids) == sorted(row.id for row in SPEC.rows if not row.active)


def test_a_section_shows_the_primitives_of_its_effect_and_what_to_do(page_html: Page) -> None:
    text = section(page_html("primitives"), "Unknown")
    rows = row_lists.primitives("unknown", "cuda")
    assert re.findall(r' id="(R\d{4})"', text) == [row.id for row in rows]
    assert [row.id for row in rows if unmarked(str(row.remedy)) not in plain(text)] == []


def test_each_class_of_portable_primitives_is_listed_with_its_primitives(page_html: Page) -> None:
    text = page_html("the-same-bits-everywhere")
    terms = re.findall(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", text, re.DOTALL)
    shown = {plain(term): set(re.findall(r'"pre">(.*?)</span>', body)) for term, body in terms}
    for found in SPEC.portable.values():
        assert set(found.primitives) <= shown[found.name.replace("_", " ").capitalize()]


def test_the_table_of_differences_has_each_erratum(page_html: Page) -> None:
    text = unescape(page_html("differences"))
    errata = [erratum for row in SPEC.rows for erratum in row.errata]
    table = text.partition("From release to release")[0].rpartition("<tbody>")[2]
    assert table.count("<tr") == len(errata)
    assert f"There are {len(errata)} differences." in text


def test_a_release_has_each_change_of_a_behaviour(page_html: Page) -> None:
    text = page_html("differences")
    *_, (old, new) = ((old, new) for old, new, _ in row_lists.changes())
    changed = [row for row in SPEC.rows if row.behaviour[old.name] != row.behaviour[new.name]]
    assert changed
    _, _, part = text.partition(f"From {old.title} to {new.title}: {len(changed)} rows")
    assert [row.id for row in changed if f">{row.id}<" not in part.partition("</table>")[0]] == []
    assert "raise" not in {row.behaviour["complete"] for row in SPEC.rows}  # As the page states.


def test_documents_are_told_by_release() -> None:
    profiles = list(SPEC.profiles.values())
    released = [profile for profile in profiles if profile.release]
    old, *others = (profile.release for profile in released)
    behaviour: dict[str, spec.Behaviour | None] = dict.fromkeys(SPEC.profiles, "raise")
    raising = dataclasses.replace(SPEC.rows[0], behaviour=behaviour)
    assert row_lists.documented(raising, profiles) == "raises"
    changed = dataclasses.replace(raising, behaviour={**behaviour, released[0].name: None})
    text = row_lists.documented(changed, profiles)
    assert text == f"{old}: not listed; {', '.join(map(str, others))}: raises"


def test_each_cell_of_the_matrix_has_the_words_of_the_answers(page_html: Page) -> None:
    page = page_html("matrix")
    columns = page_facts.matrix_columns()
    head, *lines = tables(page.partition('id="matrix"')[2].partition("</table>")[0])
    headings = len(page_facts.MATRIX_HEADINGS)
    assert head[headings:] == [column.heading for column in columns]
    shown = {}
    for op, direction, devices, *cells in lines:
        for device in devices.lower().split(", "):
            for column, text in zip(columns, cells, strict=True):
                key = op, direction, device, column.profile, column.guarantee
                assert key not in shown
                shown[key] = text
    words: dict[object, set[answers.Word]] = {}
    directions = {"forward": "call", "backward": "gradient"}
    for cell in answers.every():
        for column in columns:
            if cell.guarantee == column.guarantee and cell.profile in (None, column.profile):
                direction = directions[cell.direction]
                key = cell.op, direction, cell.device, column.profile, column.guarantee
                words.setdefault(key, set()).add(cell.word)
    assert shown == {key: " ".join(answers.ordered(own)) for key, own in words.items()}
    legend = unescape(page.partition("matrix-legend")[2])
    assert [word for word in answers.WORDS if f">{word}</strong>" not in legend] == []
    assert len(page.encode()) < 200_000

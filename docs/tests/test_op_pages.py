"""The page of each op and of each primitive: on the built site, and made of other data."""

import dataclasses
import html
import importlib
import re
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import pytest

import answers
import spec
from conformance.reporting.report import Report
from op_pages import _costs, _examples, _jax_names, _op, _primitive, _sections, _text

SPEC = spec.load()
HTML = Path(__file__).parents[1] / "_build" / "html"
CARDS = ("By default", f"Under {SPEC.own_profile}", "What it costs", "How we know")
#: An op whose gradient PyTorch refuses, with errata, an order, costs and evidence.
GRID = "nn.functional.grid_sample"


def plain(text: str) -> str:
    """Returns the text of HTML, with single spaces."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", text)).split())


def section(page: str, heading: str) -> str:
    """Returns the HTML of a section, from its heading to the next of its level."""
    found = re.search(rf"<h2>{re.escape(heading)}.*?(?=<h2>|</article>)", page, re.DOTALL)
    assert found, heading
    return found[0]


def table(text: str) -> list[list[str]]:
    """Returns the text of the rows of the first table, without the row of headings."""
    rows = re.findall(r"<tr.*?</tr>", text.partition("</table>")[0], re.DOTALL)
    cells = [re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL) for row in rows]
    return [[plain(cell) for cell in row] for row in cells][1:]


@pytest.mark.parametrize("op", answers.ops())
def test_page_has_four_cards_and_every_answer(op: str, page_html: Callable[[str], str]) -> None:
    page = page_html(f"ops/{op}")
    titles = [
        plain(each) for each in re.findall(r"sd-card-title[^>]*>(.*?)</div>", page, re.DOTALL)
    ]
    assert titles == list(CARDS)
    shown = {tuple(row) for row in table(section(page, "Every answer"))}
    expected = set()
    for row in _text.answer_rows(answers.of_op(op)):
        markdown = (re.sub(r"\{\w+\}", "", cell).replace("`", "") for cell in row)
        expected.add(tuple(" ".join(cell.replace("**", "").split()) for cell in markdown))
    assert shown == expected


def test_table_of_answers_names_every_cell_once() -> None:
    cells = answers.of_op(GRID)
    rows = list(_text.answer_rows(cells))
    named = [name for row in rows for name in re.findall(r"\{profile\}`([^`]+)`", row[2])]
    everywhere = len(SPEC.profiles) * sum("every profile" in row[2] for row in rows)
    assert len(named) + everywhere == sum(cell.profile is not None for cell in cells)
    shown = {id for row in rows for id in re.findall(r"\{row\}`([^`]+)`", row[3])}
    assert shown == {cell.row for cell in cells}


@pytest.mark.parametrize("op", answers.ops())
def test_page_says_why_shows_the_code_of_orders_and_the_error(
    op: str, page_html: Callable[[str], str]
) -> None:
    page = page_html(f"ops/{op}")
    cells = answers.of_op(op)
    varies = any(cell.word == "may vary" for cell in cells if cell.guarantee is answers.OFF)
    assert ("It does not" not in plain(section(page, "Why it varies"))) == varies
    orders = plain(section(page, "The order"))
    for row in SPEC.select(op=op, kind="op", active=True):
        if row.order is not None:
            order = SPEC.orders[row.order]
            assert order.statement.replace("`", "") in orders
            assert f"def {row.order}(" in orders
    error = plain(section(page, "The error"))
    assert ("RuntimeError: " in error) == any(cell.word == "raises" for cell in cells)


def test_error_is_what_the_library_raises(page_html: Callable[[str], str]) -> None:
    shown = plain(section(page_html(f"ops/{GRID}"), "The error"))
    found = _examples.error(GRID, SPEC.default_profile)
    assert found is not None
    assert found.output in shown
    callers = [row.callers.get(SPEC.default_profile) for row in SPEC.select(op=GRID)]
    assert any(caller and f"RuntimeError: {caller} does not have" in shown for caller in callers)


def test_example_prints_what_the_page_shows(page_html: Callable[[str], str]) -> None:
    shown = section(page_html("ops/index_add"), "An example")
    example = _examples.example("index_add")
    assert example is not None
    assert "import impl" in example.code
    assert plain(example.output) in plain(shown)


def test_almost_every_op_has_an_example(page_html: Callable[[str], str]) -> None:
    pages = {op: section(page_html(f"ops/{op}"), "An example") for op in answers.ops()}
    without = [op for op, text in pages.items() if "SHA-256" not in text]
    assert len(without) < len(pages) / 20


@pytest.mark.parametrize("op", answers.ops())
def test_page_has_the_names_that_people_search_for(
    op: str, page_html: Callable[[str], str]
) -> None:
    names = plain(section(page_html(f"ops/{op}"), "Names"))
    for row in SPEC.select(op=op, kind="op"):
        callers = {*row.callers.values(), *(e.caller for e in row.errata if e.caller), row.torch}
        assert [caller for caller in callers if caller not in names] == []
    assert [name for name in _jax_names.of_op(op) if name not in names] == []


def test_names_of_jax_exist() -> None:
    for entry in _jax_names.table():
        name = entry.name.partition(" ")[0]
        if not name.startswith("jax."):
            continue  # A method, or a function of another library.
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_functions_of_jax_have_the_values_of_the_ops_that_name_them() -> None:
    entries = [entry for entry in _jax_names.table() if entry.here]
    libraries = {name: pytest.importorskip(name) for name in ("flax", "optax")}
    pytest.importorskip("flax.linen")
    calls = [call for entry in entries for call in (entry.call, *entry.here)]
    inputs = {name: of for call in calls for name, of in _jax_names.inputs_of(call).items()}

    def run(inputs: dict[str, jax.Array]) -> dict[str, list[jax.Array]]:
        values = (_jax_names.value(call, inputs, libraries) for call in calls)
        return dict(zip(calls, map(jax.tree.leaves, values), strict=True))

    # One program of all calls compiles faster than one program for each call.
    options: dict[str, str | bool] = {
        "xla_backend_optimization_level": "0",
        "xla_llvm_disable_expensive_passes": True,
    }
    values = jax.jit(run).lower(inputs).compile(options)(inputs)
    for entry in entries:
        for here in entry.here:
            # Some ops return indices besides.
            for right, found in zip(values[entry.call], values[here], strict=False):
                message = f"{entry.name}: {here}"
                np.testing.assert_allclose(
                    np.ravel(found), np.ravel(right), 1e-5, 1e-5, err_msg=message
                )


def test_functions_stand_on_the_page_of_the_primitive_that_they_contain(
    page_html: Callable[[str], str],
) -> None:
    for name, primitive in (
        ("jax.ops.segment_sum", "lax.scatter_add"),
        ("jax.numpy.einsum", "lax.dot_general"),
        ("jax.lax.conv_general_dilated", "lax.conv_general_dilated"),
    ):
        shown = plain(section(page_html(f"primitives/{primitive}"), "Functions that contain it"))
        assert name in shown
    assert "only in the gradient: " in plain(page_html("primitives/lax.scatter_add"))


@pytest.mark.parametrize("primitive", answers.primitives())
def test_page_of_a_primitive_has_its_answers_and_reasons(
    primitive: str, page_html: Callable[[str], str]
) -> None:
    page = page_html(f"primitives/{primitive}")
    text = plain(page)
    for row in (row for row in SPEC.primitives if row.op == primitive):
        assert row.id in text
        assert [
            each for each in (row.evidence, row.remedy) if each and plain_text(each) not in text
        ] == []
        assert [name for name in row.primitives if name not in text] == []
    for cell in answers.of_primitive(primitive):
        assert f"{cell.word}. {plain_text(cell.sentence)}" in text


def plain_text(text: str) -> str:
    """Returns Markdown without its marks of code."""
    return " ".join(text.replace("`", "").split())


@pytest.mark.parametrize("op", ["index_add", GRID, "empty"])
def test_evidence_links_each_report_and_its_date(
    op: str, page_html: Callable[[str], str], kept_evidence
) -> None:
    text = section(page_html(f"ops/{op}"), "Evidence")
    rows = {row.id for row in SPEC.select(op=op, active=True)}
    for name, report in kept_evidence.reports.items():
        if any(r["row"] in rows and r["outcome"] == "passed" for r in report["records"]):
            assert re.search(rf'href="\.\./_downloads/\w+/{re.escape(name)}"', text)
            assert report["made"][:10] in text


def subject(op: str, rules: spec.Spec = SPEC, reports: dict[str, Report] | None = None):
    """Returns the subject of a page that is made of other data."""
    cells = answers.of_op(op, rules)
    return _sections.Subject(op, rules, cells, reports or {}, "reports", runs=False)


def test_without_a_row_the_page_has_other_answers() -> None:
    row = next(row for row in SPEC.select(op="index_add") if row.device == "cuda")
    fewer = dataclasses.replace(SPEC, rows=tuple(r for r in SPEC.rows if r is not row))
    before, after = _op.page(subject("index_add")), _op.page(subject("index_add", fewer))
    assert row.id in before
    assert row.id not in after
    assert "may vary" in before
    assert "**unknown**: the call on a CUDA device" in after


def test_without_an_op_the_site_has_no_page_and_no_line_of_it() -> None:
    fewer = dataclasses.replace(SPEC, rows=tuple(r for r in SPEC.rows if r.op != "index_add"))
    assert "[index_add]" in _op.index(SPEC)
    assert "index_add" not in answers.ops(fewer)
    assert "[index_add]" not in _op.index(fewer)
    primitives = tuple(r for r in SPEC.primitives if r.op != "lax.scatter_add")
    fewer = dataclasses.replace(SPEC, primitives=primitives)
    assert "[lax.scatter_add]" not in _primitive.index(fewer)


def test_without_a_report_the_page_has_no_evidence() -> None:
    text = _sections.evidence(subject("index_add"))
    assert "no report" in text
    assert ".json" not in text


def test_costs_are_those_of_the_kept_files(monkeypatch: pytest.MonkeyPatch) -> None:
    with_files = " ".join(_costs.card("index_add"))
    assert re.search(r"[\d.]+ to [\d.]+ times the time of plain", with_files)
    assert re.search(r"\d+ launches", with_files)
    monkeypatch.setattr(_costs, "_measured", tuple)
    monkeypatch.setattr(_costs, "_compiled", tuple)
    without = " ".join(_costs.card("index_add"))
    assert not re.search(r"\d", without)


def test_ratio_of_a_table_is_that_of_the_medians() -> None:
    each = _costs.measurements("index_add")[0]
    sides = each.measurement.sides
    right = sides[each.family.ours].median / sides[each.family.base].median
    assert f"- {right:.1f}\n" in "".join(_costs.section("index_add"))


def test_a_primitive_that_the_mode_leaves_alone_costs_nothing() -> None:
    cells = answers.of_primitive("lax.sort")
    (line,) = _costs.card_of_primitive(cells)
    assert line == "**on every device**: nothing, since the mode leaves it as it is"
    assert "The mode leaves it as it is." in "".join(_costs.section_of_primitive(cells))
    _, line = _costs.card_of_primitive(answers.of_primitive("lax.scatter_add"))
    assert "[Launches and bytes of ops]" in line


def test_each_order_of_an_op_that_varies_says_why() -> None:
    rows = [row for row in SPEC.select(kind="op", active=True) if row.mode_off and row.order]
    assert [row.id for row in rows if not SPEC.orders[str(row.order)].varies] == []


def test_llms_text_lists_every_page_and_each_link_leads_to_a_file() -> None:
    text = (HTML / "llms.txt").read_text(encoding="utf-8")
    links = set(re.findall(r"^- \[.*?\]\(([^)]+)\)", text, re.MULTILINE))
    assert [link for link in links if not (HTML / link).is_file()] == []
    pages = {f"ops/{op}.html" for op in answers.ops()} | {"index.html", "data.html", "rows.json"}
    assert pages <= links

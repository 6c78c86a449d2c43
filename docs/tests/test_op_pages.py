"""The page of each op and of each primitive: on the built site, and made of other data."""

import dataclasses
import importlib
import re
from collections.abc import Callable

import jax
import numpy as np
import pytest

import answers
import costs
import examples
import jax_functions
import page_facts
import row_evidence
import spec
import templates
from docs.tests.conftest import plain, section, tables, unmarked

SPEC = spec.load()
CARDS = ("By default", f"Under {SPEC.own_profile}", "What it costs", "How we know")
#: An op whose gradient PyTorch refuses, with errata, an order, costs and evidence.
GRID = "nn.functional.grid_sample"


@pytest.mark.parametrize("op", answers.ops())
def test_page_has_each_section_with_its_facts(op: str, page_html: Callable[[str], str]) -> None:
    page = page_html(f"ops/{op}")
    cells, rows = answers.of_op(op), SPEC.select(op=op, kind="op", active=True)
    titles = re.findall(r"sd-card-title[^>]*>(.*?)</div>", page, re.DOTALL)
    assert [plain(title) for title in titles] == list(CARDS)
    _, *shown = tables(section(page, "Every answer"))
    assert shown == [[unmarked(cell) for cell in row] for row in page_facts.answer_rows(cells)]
    varies = any(cell.word == "may vary" for cell in cells if cell.guarantee is answers.OFF)
    assert ("It does not" not in plain(section(page, "Why it varies"))) == varies
    orders = plain(section(page, "The order"))
    for order in {row.order for row in rows if row.order}:
        assert unmarked(SPEC.orders[order].statement) in orders
        assert f"def {order}(" in orders
    error = plain(section(page, "The error"))
    assert ("RuntimeError: " in error) == any(cell.word == "raises" for cell in cells)
    names = plain(section(page, "Names"))
    for row in SPEC.select(op=op, kind="op"):
        callers = {*row.callers.values(), *(e.caller for e in row.errata if e.caller), row.torch}
        assert [caller for caller in callers if caller not in names] == []
    assert [name for name in jax_functions.of_op(op) if name not in names] == []


def test_table_of_answers_names_every_cell_once() -> None:
    cells = answers.of_op(GRID)
    rows = list(page_facts.answer_rows(cells))
    named = [name for row in rows for name in re.findall(r"\{profile\}`([^`]+)`", row[2])]
    everywhere = len(SPEC.profiles) * sum("every profile" in row[2] for row in rows)
    assert len(named) + everywhere == sum(cell.profile is not None for cell in cells)
    shown = {id for row in rows for id in re.findall(r"\{row\}`([^`]+)`", row[3])}
    assert shown == {cell.row for cell in cells}


def test_error_is_what_the_library_raises(page_html: Callable[[str], str]) -> None:
    shown = plain(section(page_html(f"ops/{GRID}"), "The error"))
    found = examples.error(GRID, SPEC.default_profile)
    assert found is not None
    assert found.output in shown
    callers = [row.callers.get(SPEC.default_profile) for row in SPEC.select(op=GRID)]
    assert any(caller and f"RuntimeError: {caller} does not have" in shown for caller in callers)


def test_example_prints_what_the_page_shows(page_html: Callable[[str], str]) -> None:
    shown = section(page_html("ops/index_add"), "An example")
    example = examples.example("index_add")
    assert example is not None
    assert "import impl" in example.code
    assert plain(example.output) in plain(shown)


def test_almost_every_op_has_an_example(page_html: Callable[[str], str]) -> None:
    pages = {op: section(page_html(f"ops/{op}"), "An example") for op in answers.ops()}
    without = [op for op, text in pages.items() if "SHA-256" not in text]
    assert len(without) < len(pages) / 20


def test_names_of_jax_exist() -> None:
    for entry in jax_functions.table():
        name = entry.name.partition(" ")[0]
        if not name.startswith("jax."):
            continue  # A method, or a function of another library.
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_functions_of_jax_have_the_values_of_the_ops_that_name_them() -> None:
    entries = [entry for entry in jax_functions.table() if entry.here]
    libraries = {name: pytest.importorskip(name) for name in ("flax", "optax")}
    pytest.importorskip("flax.linen")
    calls = [call for entry in entries for call in (entry.call, *entry.here)]
    inputs = {name: of for call in calls for name, of in jax_functions.inputs_of(call).items()}

    def run(inputs: dict[str, jax.Array]) -> dict[str, list[jax.Array]]:
        values = (jax_functions.value(call, inputs, libraries) for call in calls)
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
    text = plain(page_html(f"primitives/{primitive}"))
    for row in (row for row in SPEC.primitives if row.op == primitive):
        texts = [row.id, *row.primitives, *filter(None, (row.evidence, row.remedy))]
        assert [each for each in texts if unmarked(each) not in text] == []
    for cell in answers.of_primitive(primitive):
        assert f"{cell.word}. {unmarked(cell.sentence)}" in text


@pytest.mark.parametrize("op", ["index_add", GRID, "empty"])
def test_evidence_links_each_report_and_its_date(op: str, page_html: Callable[[str], str]) -> None:
    text = section(page_html(f"ops/{op}"), "Evidence")
    rows = {row.id for row in SPEC.select(op=op, active=True)}
    for name, report in row_evidence.our_reports().items():
        if any(r.row in rows and r.outcome == "passed" for r in report.records):
            assert re.search(rf'href="\.\./_downloads/\w+/{re.escape(name)}"', text)
            assert report.made[:10] in text


def page(op: str, rules: spec.Spec = SPEC) -> str:
    """Returns the page of an op that is made of other data, without reports."""
    return templates.render("pages/op.md", **page_facts.of_op(op, rules, {}))


def test_without_a_row_the_page_has_other_answers() -> None:
    row = next(row for row in SPEC.select(op="index_add") if row.device == "cuda")
    fewer = dataclasses.replace(SPEC, rows=tuple(r for r in SPEC.rows if r is not row))
    before, after = page("index_add"), page("index_add", fewer)
    assert row.id in before
    assert row.id not in after
    assert "may vary" in before
    assert "**unknown**: the call on a CUDA device" in after
    rows = tuple(r for r in SPEC.rows if r.op != "index_add")
    assert "index_add" not in answers.ops(dataclasses.replace(SPEC, rows=rows))


def test_without_a_report_and_a_benchmark_the_page_has_no_evidence_and_no_costs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    timed = costs.of_op("index_add")[0]
    ours, base = (timed.measurement.sides[s] for s in (timed.family.ours, timed.family.base))
    assert f"- {ours.median / base.median:.1f}\n" in page("index_add")
    card = " ".join(costs.card("index_add"))
    assert re.search(r"[\d.]+ to [\d.]+ times the time of plain", card)
    assert re.search(r"\d+ launches", card)
    monkeypatch.setattr(costs, "timed", tuple)
    monkeypatch.setattr(costs, "compiled", tuple)
    text = page("index_add")
    assert "no report" in text
    assert ".json" not in text
    assert "No time of it is kept." in text
    assert not re.search(r"\d", " ".join(costs.card("index_add")))


def test_a_primitive_that_the_mode_leaves_alone_costs_nothing(
    page_html: Callable[[str], str],
) -> None:
    text = plain(page_html("primitives/lax.sort"))
    assert "on every device: nothing, since the mode leaves it as it is" in text
    assert "The mode leaves it as it is." in text
    assert "Launches and bytes of ops" in page_html("primitives/lax.scatter_add")


def test_each_order_of_an_op_that_varies_says_why() -> None:
    rows = [row for row in SPEC.select(kind="op", active=True) if row.mode_off and row.order]
    assert [row.id for row in rows if not SPEC.orders[str(row.order)].varies] == []

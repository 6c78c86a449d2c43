"""The report of an audit: its verdicts, its table, and its data."""

import dataclasses
import json

import pytest

from impl.programs._auditing.report import Finding, Report, grouped


def finding(verdict="varies", source="train.py:3", remedy="Turn the mode on.", **rest):
    given = {"library": None, "inside": (), "shapes": "f32[4] i32[9,1]", "row": "R0400", **rest}
    return Finding("lax.scatter_add", verdict=verdict, source=source, remedy=remedy, **given)


def report(*findings, equations=9):
    return Report("cuda", "the mode off", tuple(findings), equations)


@pytest.mark.parametrize(
    ("verdict", "ok"),
    [("varies", False), ("unknown", False), ("raises", False), ("deterministic", True)],
)
def test_a_program_is_fine_if_nothing_varies_is_unknown_or_raises(verdict, ok):
    assert report(finding(verdict)).ok is ok
    assert report(finding("deterministic"), finding(verdict)).ok is ok
    assert report().ok


def test_equal_findings_are_counted_in_the_order_of_the_program_and_selected_by_their_verdict():
    first, second, unknown = finding(source="b.py:9"), finding(source="a.py:3"), finding("unknown")
    counted = grouped([first, second, first, unknown, first])
    assert [(f.source, f.count) for f in counted[:2]] == [("b.py:9", 3), ("a.py:3", 1)]
    assert report(*counted).select("unknown") == (unknown,)
    assert report(*counted).select("raises") == ()


def test_the_table_has_what_a_person_acts_on():
    scan = finding("unknown", "train.py:12", "Run it twice.", row=None, inside=("scan", "cond"))
    text = str(
        report(
            *grouped([finding(library="flax/linen/linear.py:1194 (Embed.__call__)")] * 2),
            scan,
            finding("raises", "train.py:20", "Split it."),
            finding("deterministic", "train.py:30", None),
            finding("deterministic", "train.py:40", "Pass it.", races=False),
        )
    )
    assert text == (
        "On cuda, with the mode off:\n"
        "\n"
        "Varies from run to run (2 equations)\n"
        "  train.py:3  2 x lax.scatter_add  R0400   f32[4] i32[9,1]\n"
        "      by flax/linen/linear.py:1194 (Embed.__call__)\n"
        "      To do: Turn the mode on.\n"
        "\n"
        "Unknown (1 equation)\n"
        "  train.py:12  lax.scatter_add  no row  f32[4] i32[9,1]\n"
        "      in scan > cond\n"
        "      To do: Run it twice.\n"
        "\n"
        "Raises (1 equation)\n"
        "  train.py:20  lax.scatter_add  R0400   f32[4] i32[9,1]\n"
        "      To do: Split it.\n"
        "\n"
        "Deterministic, because the mode is on (1 equation)\n"
        "  train.py:30  lax.scatter_add  R0400   f32[4] i32[9,1]\n"
        "\n"
        "Ordered although nothing races (1 equation)\n"
        "  train.py:40  lax.scatter_add  R0400   f32[4] i32[9,1]\n"
        "      To do: Pass it.\n"
        "\n"
        "Of 9 equations 2 vary, 1 is unknown and 1 raises."
    )


def test_one_advice_is_given_once_and_wrapped_at_the_width():
    text = report(finding(), finding(source="a.py:1", remedy="Other."), finding(source="b.py:1"))
    assert text.text().count("To do: Turn the mode on.") == 1
    for width in (60, 100):
        lines = report(finding(remedy="word " * 40)).text(width).splitlines()
        assert max(len(line) for line in lines if "word" in line) in range(width - 5, width + 1)


MANY = tuple(
    finding("unknown", f"{file}.py:{line}", "Compile it.", row="R0458", shapes=f"f32[{line}]")
    for file, line in (("train", 9), ("train", 10), ("model", 4), ("train", 10), ("model", 2))
)


def test_many_findings_with_one_advice_are_named_by_their_lines():
    first = dataclasses.replace(MANY[0], count=6, inside=("scan",))
    other = finding("unknown", remedy="Compile it.", row=None)
    varied = report(*MANY[1:], first, other, finding(), equations=99)
    assert varied.text() == (
        "On cuda, with the mode off:\n"
        "\n"
        "Varies from run to run (1 equation)\n"
        "  train.py:3  lax.scatter_add  R0400   f32[4] i32[9,1]\n"
        "      To do: Turn the mode on.\n"
        "\n"
        "Unknown (11 equations)\n"
        "  10 x lax.scatter_add  R0458\n"
        "      train.py:9 (6), 10 (2), model.py:2, 4\n"
        "  1 x lax.scatter_add  no row\n"
        "      train.py:3\n"
        "      To do: Compile it.\n"
        "\n"
        "Of 99 equations 1 varies, 11 are unknown and 0 raise."
    )
    every = varied.text(every=True)
    assert all(f"{f.source:<10}" in every and f.shapes in every for f in MANY)
    assert "in scan" in every
    assert len(report(*MANY).as_dict()["findings"]) == len(MANY)
    few = report(*MANY)
    assert few.text() == few.text(every=True)


def test_the_summary_has_a_line_for_each_primitive_and_the_advice():
    product = dataclasses.replace(MANY[0], primitive="lax.dot_general", count=45)
    fine = finding("deterministic", remedy=None)
    assert report(*MANY, product, finding(), finding("raises"), fine).summary() == (
        "On cuda, with the mode off:\n"
        "  varies            1  lax.scatter_add\n"
        "      To do: Turn the mode on.\n"
        "  unknown           5  lax.scatter_add\n"
        "  unknown          45  lax.dot_general\n"
        "      To do: Compile it.\n"
        "  raises            1  lax.scatter_add\n"
        "      To do: Turn the mode on.\n"
        "  deterministic     1  lax.scatter_add\n"
        "Of 9 equations 1 varies, 50 are unknown and 1 raises."
    )


def test_a_report_without_findings_says_so():
    assert str(report()).endswith("Of 9 equations none varies, none is unknown and none raises.")
    assert "Of 1 equation none" in str(report(equations=1))
    assert str(report(finding())).endswith("Of 9 equations 1 varies, 0 are unknown and 0 raise.")
    compiled = str(Report("cpu", "the mode off", (), 3, "compiled"))
    assert compiled.splitlines()[0] == "On cpu, with the mode off, as compiled:"
    assert "Of 3 instructions none" in compiled
    noted = Report("cuda", "the mode off", (), 3, notes=("One.", "Two."))
    assert str(noted).endswith("none raises.\nOne.\nTwo.")


def test_the_report_is_data():
    data = report(finding(inside=("scan",))).as_dict()
    assert json.loads(json.dumps(data)) == data
    assert sorted(data) == [
        *("device", "engine", "equations", "findings", "level", "mode", "notes", "ok", "schema"),
    ]
    assert data["ok"] is False
    fields = {"primitive": "lax.scatter_add", "library": None, "inside": ["scan"], "count": 1}
    assert data["findings"] == [{**dataclasses.asdict(finding()), **fields}]

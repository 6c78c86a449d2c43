"""The report as text."""

from typing import get_args

from impl.diagnosis._report import Item, Report, Verdict

FIXED, PROCESS, MACHINE, UNKNOWN = get_args(Verdict)


def test_neighbours_in_the_text_share_an_explanation():
    alike = [Item("S", name, "1", FIXED, "Alike.") for name in ("a", "bb")]
    other = Item("T", "c", None, MACHINE, "It differs.", "Set it.")
    fact = Item("T", "d", "x", MACHINE, "A fact.")
    report = Report("cpu", (*alike, other, fact))
    assert report.varying == (other,)
    varying = [
        "Varies per machine (2)",
        "  c   not set",
        "      It differs. To do: Set it.",
        "  d   x",
        "      A fact.",
        "",
    ]
    fixed = ["Fixed: S (2)", "  a   1", "  bb  1", "      Alike.", ""]
    last = "Of 4 items 0 per process and 2 per machine vary; 1 has a remedy."
    assert report.text(every=True).splitlines() == [*varying, *fixed, last]
    assert str(report).replace("  c ", "  c  ").replace("  d ", "  d  ").splitlines() == [
        *varying,
        f"{last} 2 more are fixed: --all lists them.",
    ]
    assert "None of 2 items varies. 2 more" in str(Report("cpu", tuple(alike)))


def test_the_text_begins_with_what_matters_most():
    sections = ("Versions", "Environment variables", "Seeds", "Mode", "Generators", "Programs")
    verdicts = (FIXED, MACHINE, UNKNOWN, PROCESS)
    items = [Item(s, f"{s} {v}", "1", v, f"Because of {s}.") for s in sections for v in verdicts]
    lines = [line.strip() for line in str(Report("gpu", tuple(items))).splitlines()]
    shown = [line.removesuffix("1").strip() for line in lines if line.endswith("  1")]
    order = ("Programs", "Generators", "Mode", "Seeds", "Versions", "Environment variables")
    assert shown == [
        *(f"{section} {verdict}" for verdict in (PROCESS, UNKNOWN, MACHINE) for section in order),
        f"Generators {FIXED}",
        f"Programs {FIXED}",
    ]

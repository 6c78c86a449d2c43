"""The report as text."""

from impl.diagnosis._report import Item, Report
from impl.tests.diagnosis._verdicts import FIXED, MACHINE


def test_neighbours_in_the_text_share_an_explanation():
    alike = [Item("S", name, "1", FIXED, "Alike.") for name in ("a", "bb")]
    other = Item("T", "c", None, MACHINE, "It differs.", "Set it.")
    fact = Item("T", "d", "x", MACHINE, "A fact.")
    report = Report("cpu", (*alike, other, fact))
    assert report.varying == (other,)
    assert str(report).splitlines() == [
        "S",
        "  a   fixed               1",
        "  bb  fixed               1",
        "      Alike.",
        "",
        "T",
        "  c   varies per machine  not set",
        "      It differs. To do: Set it.",
        "  d   varies per machine  x",
        "      A fact.",
        "",
        "Of 4 items 0 per process and 2 per machine vary; 1 have a remedy.",
    ]
    assert "Nothing here varies." in str(Report("cpu", tuple(alike)))

"""The tables of the built page of guarantees against the reports in the repository."""

import html
import json
import re
from collections import Counter
from pathlib import Path

import pytest

import row_evidence
import spec

HTML = Path(__file__).parents[1] / "_build" / "html"
LEVELS = ["hardware", "compiled", "scheduled", "static"]


def test_page_counts_each_active_row_once_for_each_device(
    page_html, kept_evidence, deciding_devices
):
    counts = Counter()
    for row in spec.load().select(active=True):
        for device in deciding_devices(row):
            key = row.id, device
            levels = [level for level, _ in kept_evidence.levels[key]]
            strongest = min(levels, key=LEVELS.index, default=None)
            if key in kept_evidence.failed:
                counts["failed", device] += 1
            elif strongest is None and key in kept_evidence.passed:
                counts[row_evidence.NO_BITS, device] += 1
            else:
                counts[strongest or "none", device] += 1
    cells = re.findall(r"<td[^>]*>(.*?)</td>", page_html("guarantees"), re.DOTALL)
    texts = [re.sub(r"<[^>]*>", "", cell).strip() for cell in cells]
    for name in [*LEVELS, row_evidence.NO_BITS, "none", "failed"]:
        start = texts.index(name)
        assert texts[start + 1 : start + 3] == [str(counts[name, d]) for d in ("cpu", "cuda")]


def test_page_states_whether_a_report_is_of_a_gpu(page_html, kept_evidence):
    on_gpu = [
        record
        for record in kept_evidence.records
        if record["evidence"] == "hardware"
        and record["device"] == "cuda"
        and record["outcome"] != "skipped"
    ]
    assert (row_evidence.NO_GPU in page_html("guarantees")) == (not on_gpu)


def test_page_links_each_report(page_html, kept_evidence):
    page = page_html("guarantees")
    for name, report in kept_evidence.reports.items():
        link = re.search(rf'href="(_downloads/\w+/{re.escape(name)})".*?</tr>', page, re.DOTALL)
        assert link, f"{name} is not linked to"
        assert json.loads((HTML / link[1]).read_text(encoding="utf-8")) == report
        environment = [report["environment"][key] for key in ("jax", "device", "samebits")]
        for text in (report["made"][:10], *environment):
            assert f"<p>{text}</p>" in link[0]
    assert len(re.findall(r"_downloads/\w+/[\w.-]+\.json", page)) == len(kept_evidence.reports)


@pytest.mark.parametrize(
    ("page", "check"),
    [("cost", "program compiled"), ("the-same-bits-everywhere", "correctly rounded")],
)
def test_a_page_has_each_record_of_a_check(page_html, kept_evidence, page, check):
    rows = re.findall("<tr.*?</tr>", page_html(page), re.DOTALL)
    cells = {tuple(re.findall(r"<p>(.*?)</p>", row)) for row in rows}
    records = [record for record in kept_evidence.records if record["check"] == check]
    assert len(records) > 90
    for record in records:
        outcome = "" if record["outcome"] == "passed" else "skipped: "
        of = record["lowering"] or record["sample"]
        assert (record["op"], of, outcome + html.escape(record["detail"])) in cells

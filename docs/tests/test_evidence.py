"""The evidence of rows: from made-up reports, then on the built site."""

import dataclasses
import re
import types
from typing import get_args

import pytest
from sphinx.errors import ExtensionError

import op_pages
import row_evidence
import spec
import templates
from conformance.cases.table import samples
from conformance.reporting import report
from conformance.tests.reporting import _records
from docs.tests.conftest import HTML, plain, tables

SPEC = spec.load()
#: Rows that are deterministic under some profile: of CUDA, of a CPU, of any device.
CUDA, CPU, ANY = (
    next(
        row
        for row in SPEC.select(active=True, kind="op")
        if row.device == device and "deterministic" in row.behaviour.values()
    )
    for device in ("cuda", "cpu", "any")
)
RAISES = next(
    row for row in SPEC.select(active=True) if set(row.behaviour.values()) == {None, "raise"}
)
PASSED = dataclasses.replace(_records.PASSED, row=CUDA.id, op=CUDA.op)


def changed(**fields):
    return dataclasses.replace(PASSED, **fields)


STATIC = changed(check="no race", lowering=None, evidence="static")
ON_H200 = changed(lowering="native", evidence="hardware")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Returns an empty folder, which takes the part of the folder of reports."""
    monkeypatch.setattr(row_evidence, "REPORTS", tmp_path)
    return tmp_path


def write_report(folder, name, *records, **environment):
    full = {"namespace": "impl", "platform": "cpu", "device": "cpu", "jax": "0", "samebits": "1"}
    report.write(folder / name, full | environment, records)


def line(row):
    return row_evidence.line(row, row_evidence.by_row(row_evidence.our_reports()))


def page(name="conformance-evidence"):
    """Returns the Markdown that a directive makes of the reports."""
    return templates.render(f"directives/{name}.md", argument="")


def test_levels_are_listed_from_strong_to_weak_with_the_names_of_gpus(folder):
    compiled = [changed(lowering=gpu, evidence="compiled") for gpu in ("h200", "a100")]
    write_report(folder, "cpu.json", STATIC, PASSED)
    assert line(CUDA) == "scheduled, static; not yet verified on hardware"
    write_report(folder, "gpu-compile.json", *compiled)
    levels = "compiled (A100, H200), scheduled, static"
    assert line(CUDA) == f"{levels}; not yet verified on hardware"
    assert re.search(r"\| `cuda` \| \d+ \| 0 \| 1 \| A100, H200 \|", page("evidence-state"))
    # A run of the op is not evidence of its bits.
    runs = changed(check="off", evidence=None)
    write_report(folder, "h200.json", runs, platform="gpu", device="NVIDIA H200")
    assert line(CUDA) == f"{levels}; not yet verified on hardware"
    write_report(folder, "h200.json", ON_H200, platform="gpu", device="NVIDIA H200")
    assert line(CUDA) == f"hardware (NVIDIA H200), {levels}"
    assert row_evidence.NO_GPU not in page() + page("evidence-state")


def test_a_failure_is_shown_and_removes_the_evidence(folder):
    write_report(folder, "cpu.json", STATIC, PASSED)
    failed = changed(lowering="native", evidence="hardware", outcome="failed")
    write_report(folder, "h200.json", failed, platform="gpu", device="NVIDIA H200")
    assert line(CUDA) == "failed: bits in h200.json"
    assert re.search(r"\| failed \| 0 \| 1 \|", page())
    assert re.search(r"\| `scheduled` \| 0 \| 0 \|", page())
    assert re.search(r"\| `cuda` \| \d+ \| 0 \| 0 \|", page("evidence-state"))
    assert row_evidence.NO_GPU not in page()  # It ran, although it failed.


def test_a_row_of_any_device_shows_each_device(folder):
    on_cuda = changed(row=ANY.id, op=ANY.op)
    on_cpu = changed(row=ANY.id, op=ANY.op, device="cpu", evidence="hardware", lowering="native")
    write_report(folder, "cpu.json", on_cuda, on_cpu)
    assert line(ANY) == "cpu: hardware (cpu). cuda: scheduled; not yet verified on hardware"
    assert row_evidence.NO_GPU in page()
    assert row_evidence.NO_GPU in page("evidence-state")


def test_a_row_without_evidence(folder):
    assert line(CUDA) == "not yet verified on hardware"
    assert line(CPU) == "none"
    assert line(RAISES) == "not yet verified on hardware"
    assert "There is none." in page()
    raised = changed(row=RAISES.id, op=RAISES.op, check="raise", evidence=None)
    write_report(folder, "cpu.json", raised, changed(row=CPU.id, device="cpu", outcome="skipped"))
    assert line(RAISES) == f"{row_evidence.NO_BITS}; not yet verified on hardware"
    write_report(folder, "h200.json", raised, platform="gpu", device="NVIDIA H200")
    assert line(RAISES) == f"{row_evidence.NO_BITS}"
    assert line(CPU) == "none"


def test_a_check_of_any_device_counts_for_the_device_of_its_process(folder):
    (promised, *_) = SPEC.select(kind="random")
    record = changed(row=promised.id, op=promised.op, device="any", evidence=None)
    write_report(folder, "cpu.json", record)
    assert line(promised) == f"cpu: {row_evidence.NO_BITS}. cuda: not yet verified on hardware"


@pytest.mark.usefixtures("folder")
def test_a_row_shows_the_devices_on_which_it_decides_a_call_of_a_sample():
    rows = SPEC.select(active=True, kind="op")
    decided = {
        (row.id, device)
        for op in {row.op for row in rows}
        for sample in samples(op)
        for direction in get_args(spec.Direction)
        for device in ("cpu", "cuda")
        for profile in SPEC.profiles
        if (row := spec.deciding_row(SPEC.rows, op, direction, device, sample.facts, profile))
    }
    covered = {row.id: ["cpu", "cuda"] if row.device == "any" else [row.device] for row in rows}
    right = {id: [d for d in own if (id, d) in decided] or own for id, own in covered.items()}
    assert {row.id: row_evidence.deciding_devices(row) for row in rows} == right
    row = next(row for row in rows if row.device == "any" and right[row.id] == ["cpu"])
    assert line(row) == "none"


def test_a_report_of_another_namespace_is_no_evidence(folder):
    write_report(folder, "torch.json", ON_H200, namespace="torch", platform="gpu")
    assert line(CUDA) == "not yet verified on hardware"
    assert row_evidence.NO_GPU in page()


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (changed(row="R9999"), "it names R9999, an id that spec/ids.toml does not have"),
        (changed(device="npu"), "the device 'npu' is not one of"),
        (changed(evidence="hearsay"), "the evidence 'hearsay' is not one of"),
        ("{", "is not JSON"),
        ('{"format": 2}', "is not a report of format"),
        ('{"format": 1, "made": "", "environment": {}, "records": []}', "has no `namespace`"),
    ],
)
def test_a_report_with_a_fault_breaks_the_build(folder, record, message):
    if isinstance(record, str):
        (folder / "odd.json").write_text(record)
    else:
        write_report(folder, "odd.json", PASSED, record, namespace="torch")
    error = re.escape(str(folder / "odd.json")) + f".*{message}.*make it again .* or remove it"
    with pytest.raises(ExtensionError, match=error):
        op_pages.write_pages(types.SimpleNamespace(srcdir=folder), None)


def test_a_retired_row_breaks_the_build(folder, monkeypatch):
    ledger = {"issued": {CUDA.id: CUDA.op}, "retired": {CUDA.id: "It was two rows."}}
    monkeypatch.setattr(row_evidence.loader, "read_table", lambda *_: ledger)
    write_report(folder, "old.json", PASSED)
    with pytest.raises(ValueError, match=f"old.json: it names {CUDA.id}, which is retired: It was"):
        row_evidence.every_report(folder)


def test_built_page_shows_the_evidence_of_each_row(page_html):
    evidence = row_evidence.by_row(row_evidence.our_reports())
    entries = re.split(r'id="(R\d{4})"', page_html("rows"))
    for id, entry in zip(entries[1::2], entries[2::2], strict=True):
        row = SPEC.row(id)
        found = re.search(r"<dt[^>]*>Evidence.*?<dd[^>]*>(.*?)</dd>", entry, re.DOTALL)
        assert bool(found) == row.active, id
        assert not found or plain(found[1]) == row_evidence.line(row, evidence)


def test_built_pages_have_the_counts_the_reports_and_their_records(page_html):
    reports = row_evidence.our_reports()
    shown = tables(page_html("guarantees")) + tables(page_html("index"))
    for device, entries in row_evidence.by_device(row_evidence.by_row(reports)).items():
        assert [row[:2] for row in shown if row[0] == device] == [[device, str(len(entries))]]
    links = dict(re.findall(r'href="(_downloads/\w+/([^"]+\.json))"', page_html("guarantees")))
    assert sorted(links.values()) == sorted(reports)
    for link, name in links.items():
        assert (HTML / link).read_bytes() == (row_evidence.REPORTS / name).read_bytes()
    for name, check in (
        ("cost", "program compiled"),
        ("the-same-bits-everywhere", "correctly rounded"),
    ):
        details = {cells[-1] for cells in tables(page_html(name))}
        records = row_evidence.records(check)
        assert len(records) > 90
        assert [r for r in records if not any(r.detail in detail for detail in details)] == []

"""Tests of the evidence of rows: made-up reports, then the built page of rows."""

import dataclasses
import html
import re
import types

import pytest
from sphinx.errors import ExtensionError

import row_evidence
import spec
import spec_lists
from conformance.reporting import report
from conformance.tests.reporting import _records

SPEC = spec.load()
LEVELS = ["hardware", "compiled", "scheduled", "static"]
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


def write_report(folder, name, *records, **environment):
    full = {"namespace": "impl", "platform": "cpu", "device": "cpu", "jax": "0", "samebits": "1"}
    report.write(folder / name, full | environment, records)


def line(folder, row):
    return row_evidence.line(row, row_evidence.by_row(row_evidence.our_reports(folder)))


def test_levels_are_listed_from_strong_to_weak_with_the_names_of_gpus(tmp_path):
    compiled = [changed(lowering=gpu, evidence="compiled") for gpu in ("h200", "a100")]
    write_report(tmp_path, "cpu.json", STATIC, PASSED)
    assert line(tmp_path, CUDA) == "scheduled, static; not yet verified on hardware"
    write_report(tmp_path, "gpu-compile.json", *compiled)
    levels = "compiled (A100, H200), scheduled, static"
    assert line(tmp_path, CUDA) == f"{levels}; not yet verified on hardware"
    # A run of the op is not evidence of its bits.
    runs = changed(check="off", evidence=None)
    write_report(tmp_path, "h200.json", runs, platform="gpu", device="NVIDIA H200")
    assert line(tmp_path, CUDA) == f"{levels}; not yet verified on hardware"
    write_report(tmp_path, "h200.json", ON_H200, platform="gpu", device="NVIDIA H200")
    assert line(tmp_path, CUDA) == f"hardware (NVIDIA H200), {levels}"
    assert row_evidence.NO_GPU not in row_evidence.page(tmp_path, tmp_path)


def test_a_failure_is_shown_and_removes_the_evidence(tmp_path):
    write_report(tmp_path, "cpu.json", STATIC, PASSED)
    failed = changed(lowering="native", evidence="hardware", outcome="failed")
    write_report(tmp_path, "h200.json", failed, platform="gpu", device="NVIDIA H200")
    assert line(tmp_path, CUDA) == "failed: bits in h200.json"
    page = row_evidence.page(tmp_path, tmp_path)
    assert re.search(r"\| failed \| 0 \| 1 \|", page)
    assert re.search(r"\| `scheduled` \| 0 \| 0 \|", page)
    assert row_evidence.NO_GPU not in page  # It ran, although it failed.


def test_a_row_of_any_device_shows_each_device(tmp_path):
    on_cuda = changed(row=ANY.id, op=ANY.op)
    on_cpu = changed(row=ANY.id, op=ANY.op, device="cpu", evidence="hardware", lowering="native")
    write_report(tmp_path, "cpu.json", on_cuda, on_cpu)
    assert line(tmp_path, ANY) == (
        "cpu: hardware (cpu). cuda: scheduled; not yet verified on hardware"
    )
    assert row_evidence.NO_GPU in row_evidence.page(tmp_path, tmp_path)


def test_a_row_without_evidence(tmp_path):
    assert line(tmp_path, CUDA) == "not yet verified on hardware"
    assert line(tmp_path, CPU) == "none"
    assert line(tmp_path, RAISES) == "not yet verified on hardware"
    assert "There is none." in row_evidence.page(tmp_path, tmp_path)
    raised = changed(row=RAISES.id, op=RAISES.op, check="raise", evidence=None)
    write_report(tmp_path, "cpu.json", raised, changed(row=CPU.id, device="cpu", outcome="skipped"))
    assert line(tmp_path, RAISES) == f"{row_evidence.NO_BITS}; not yet verified on hardware"
    write_report(tmp_path, "h200.json", raised, platform="gpu", device="NVIDIA H200")
    assert line(tmp_path, RAISES) == f"{row_evidence.NO_BITS}"
    assert line(tmp_path, CPU) == "none"


def test_a_check_of_any_device_counts_for_the_device_of_its_process(tmp_path):
    (promised, *_) = SPEC.select(kind="random")
    record = changed(row=promised.id, op=promised.op, device="any", evidence=None)
    write_report(tmp_path, "cpu.json", record)
    assert line(tmp_path, promised) == (
        f"cpu: {row_evidence.NO_BITS}. cuda: not yet verified on hardware"
    )


def test_a_row_shows_no_device_on_which_other_rows_decide(tmp_path, deciding_devices):
    row = next(
        row
        for row in SPEC.select(active=True)
        if row.device == "any" and len(deciding_devices(row)) == 1
    )
    assert line(tmp_path, row) == "none"
    assert "cuda" not in line(tmp_path, row)


def test_a_report_of_another_namespace_is_no_evidence(tmp_path):
    write_report(tmp_path, "torch.json", ON_H200, namespace="torch", platform="gpu")
    assert line(tmp_path, CUDA) == "not yet verified on hardware"
    assert row_evidence.NO_GPU in row_evidence.page(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (changed(row="R9999"), "it names R9999, an id that spec/ids.toml does not have"),
        (changed(device="npu"), "the device 'npu' is not one of"),
        (changed(evidence="hearsay"), "the evidence 'hearsay' is not one of"),
    ],
)
def test_an_unknown_row_or_device_or_level_breaks_the_build(tmp_path, record, message):
    write_report(tmp_path, "odd.json", PASSED, record, namespace="torch")
    error = re.escape(str(tmp_path / "odd.json")) + f".*{message}.*make it again .* or remove it"
    with pytest.raises(ExtensionError, match=error):
        spec_lists.note_spec(None, types.SimpleNamespace(conformance_reports=str(tmp_path)))


def test_a_retired_row_breaks_the_build(tmp_path, monkeypatch):
    ledger = {"issued": {CUDA.id: CUDA.op}, "retired": {CUDA.id: "It was two rows."}}
    monkeypatch.setattr(row_evidence.loader, "read_table", lambda *_: ledger)
    write_report(tmp_path, "old.json", PASSED)
    with pytest.raises(ValueError, match=f"old.json: it names {CUDA.id}, which is retired: It was"):
        row_evidence.every_report(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not JSON"),
        ('{"format": 2}', "is not a report of format"),
        ('{"format": 1, "made": "", "environment": {}, "records": []}', "has no `namespace`"),
    ],
)
def test_a_file_that_is_no_report_breaks_the_build(tmp_path, text, message):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ExtensionError, match=rf"r\.json.*{message}.*make it again"):
        spec_lists.note_spec(None, types.SimpleNamespace(conformance_reports=str(tmp_path)))


def evidence_on_the_page(text):
    """Returns the evidence of each row on the page of rows; None if a row shows none."""
    entries = re.split(r'<dt id="(R\d{4})"', text)
    evidence = {}
    for id, entry in zip(entries[1::2], entries[2::2], strict=True):
        match = re.search(r"<dt[^>]*>Evidence.*?<dd[^>]*><p>(.*?)</p>", entry, re.DOTALL)
        evidence[id] = html.unescape(re.sub(r"<[^>]*>", "", match[1])) if match else None
    return evidence


def levels_in(text):
    """Returns the pairs of a level and the name of a device in a text of evidence."""
    if text.startswith("failed"):
        return []
    entries = re.findall(r"(hardware|compiled|scheduled|static)(?: \((.*?)\))?(?:[,;.]|$)", text)
    pairs = [
        (level, name)
        for level, names in entries
        for name in (names.split(", ") if names else [None])
    ]
    if text.endswith("not yet verified on hardware"):
        pairs.remove(("hardware", None))
    return pairs


def test_built_page_shows_the_evidence_of_each_row(page_html, kept_evidence, deciding_devices):
    shown = evidence_on_the_page(page_html("rows"))
    assert {id for id, text in shown.items() if text} == {r.id for r in SPEC.rows if r.active}
    for row in SPEC.select(active=True):
        devices = deciding_devices(row)
        texts = dict.fromkeys(devices, shown[row.id])
        if shown[row.id].startswith("cpu: "):
            texts = dict(re.findall(r"(cpu|cuda): (.*?)(?=\. cuda: |$)", shown[row.id]))
        for device in devices:
            key, text = (row.id, device), texts[device]
            failed = key in kept_evidence.failed
            assert text.startswith("failed") == failed, row.id
            expected = [] if failed else sorted(kept_evidence.levels[key], key=strong_first)
            assert levels_in(text) == expected, f"{row.id} on {device}: {text}"
            verified = "hardware" in dict(expected)
            if "deterministic" not in row.behaviour.values():
                verified = key in kept_evidence.passed_on_gpu
            unverified = device == "cuda" and not verified and not failed
            assert text.endswith("not yet verified on hardware") == unverified, row.id


def strong_first(pair):
    return LEVELS.index(pair[0]), pair

"""What the site says of evidence, against the reports; `nox -s docs` builds the site first."""

import dataclasses
import html
import itertools
import json
import re
import types
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from sphinx.errors import ExtensionError

import conformance
import row_evidence
import spec
import spec_lists
from conformance.reporting import report
from conformance.reporting.report import Record
from conformance.suite.sample import samples

HTML = Path(__file__).parents[1] / "_build" / "html"
SPEC = spec.load()
LEVELS = ["hardware", "compiled", "scheduled", "static"]
#: On CUDA, on a CPU, on both; deterministic under some profile.
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
PASSED = Record(
    row=CUDA.id,
    op=CUDA.op,
    direction="forward",
    device="cuda",
    profile="complete",
    lowering="kernel",
    check="bits",
    sample="many",
    behaviour="deterministic",
    outcome="passed",
    evidence="scheduled",
    seconds=0.5,
)


def changed(**fields):
    return dataclasses.replace(PASSED, **fields)


STATIC = changed(check="no race", lowering=None, evidence="static")
ON_H200 = changed(lowering="native", evidence="hardware")


def on(row):
    """The devices on which a row decides something."""
    devices = ["cpu", "cuda"] if row.device == "any" else [row.device]
    if row.kind != "op":
        return devices
    facts = [sample.facts for sample in samples(row.op)]
    return [
        device
        for device in devices
        if any(
            spec.deciding_row(SPEC.rows, row.op, direction, device, about, profile) == row
            for direction, about, profile in itertools.product(
                ("forward", "backward"), facts, SPEC.profiles
            )
        )
    ]


def written(folder, name, *records, **environment):
    about = {"namespace": "impl", "platform": "cpu", "device": "cpu", "jax": "0", "samebits": "1"}
    report.write(folder / name, about | environment, records)


def line(folder, row):
    return row_evidence.line(row, row_evidence.by_row(row_evidence.ours(folder)))


# The parts, with reports that are made up.


def test_levels_stand_strongest_first_and_name_the_gpus(tmp_path):
    compiled = [changed(lowering=gpu, evidence="compiled") for gpu in ("h200", "a100")]
    written(tmp_path, "cpu.json", STATIC, PASSED)
    assert line(tmp_path, CUDA) == "scheduled, static; not yet verified on hardware"
    written(tmp_path, "gpu-compile.json", *compiled)
    levels = "compiled (A100, H200), scheduled, static"
    assert line(tmp_path, CUDA) == f"{levels}; not yet verified on hardware"
    # That the op runs is no evidence of its bits.
    runs = changed(check="off", evidence=None)
    written(tmp_path, "h200.json", runs, platform="gpu", device="NVIDIA H200")
    assert line(tmp_path, CUDA) == f"{levels}; not yet verified on hardware"
    written(tmp_path, "h200.json", ON_H200, platform="gpu", device="NVIDIA H200")
    assert line(tmp_path, CUDA) == f"hardware (NVIDIA H200), {levels}"
    assert row_evidence.NO_GPU not in row_evidence.page(tmp_path, tmp_path)


def test_what_failed_is_said_and_is_no_evidence(tmp_path):
    written(tmp_path, "cpu.json", STATIC, PASSED)
    failed = changed(lowering="native", evidence="hardware", outcome="failed")
    written(tmp_path, "h200.json", failed, platform="gpu", device="NVIDIA H200")
    assert line(tmp_path, CUDA) == "failed: bits in h200.json"
    page = row_evidence.page(tmp_path, tmp_path)
    assert re.search(r"\| failed \| 0 \| 1 \|", page)
    assert re.search(r"\| `scheduled` \| 0 \| 0 \|", page)
    assert row_evidence.NO_GPU not in page  # it ran, whatever came of it


def test_a_row_of_every_device_shows_each(tmp_path):
    on_cuda = changed(row=ANY.id, op=ANY.op)
    on_cpu = changed(row=ANY.id, op=ANY.op, device="cpu", evidence="hardware", lowering="native")
    written(tmp_path, "cpu.json", on_cuda, on_cpu)
    assert line(tmp_path, ANY) == (
        "cpu: hardware (cpu). cuda: scheduled; not yet verified on hardware"
    )
    assert row_evidence.NO_GPU in row_evidence.page(tmp_path, tmp_path)


def test_a_row_without_evidence_says_so(tmp_path):
    assert line(tmp_path, CUDA) == "not yet verified on hardware"
    assert line(tmp_path, CPU) == "none"
    assert line(tmp_path, RAISES) == "not yet verified on hardware"
    assert "There is none." in row_evidence.page(tmp_path, tmp_path)
    raised = changed(row=RAISES.id, op=RAISES.op, check="raise", evidence=None)
    written(tmp_path, "cpu.json", raised, changed(row=CPU.id, device="cpu", outcome="skipped"))
    assert line(tmp_path, RAISES) == "tried, and not by bits; not yet verified on hardware"
    written(tmp_path, "h200.json", raised, platform="gpu", device="NVIDIA H200")
    assert line(tmp_path, RAISES) == "tried, and not by bits"
    assert line(tmp_path, CPU) == "none"


def test_a_check_for_any_device_counts_for_the_one_it_was_made_on(tmp_path):
    (promised, *_) = SPEC.select(kind="random")
    kept = changed(row=promised.id, op=promised.op, device="any", evidence=None)
    written(tmp_path, "cpu.json", kept)
    assert line(tmp_path, promised) == (
        "cpu: tried, and not by bits. cuda: not yet verified on hardware"
    )


def test_a_row_speaks_of_no_device_where_others_decide(tmp_path):
    spared = next(r for r in SPEC.select(active=True) if r.device == "any" and len(on(r)) == 1)
    assert line(tmp_path, spared) == "none"
    assert "cuda" not in line(tmp_path, spared)


def test_a_report_of_another_namespace_is_no_evidence(tmp_path):
    written(tmp_path, "torch.json", ON_H200, namespace="torch", platform="gpu")
    assert line(tmp_path, CUDA) == "not yet verified on hardware"
    assert row_evidence.NO_GPU in row_evidence.page(tmp_path, tmp_path)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (changed(row="R9999"), "it names R9999, an id that spec/ids.toml does not have"),
        (changed(device="tpu"), "the device 'tpu' is none of"),
        (changed(evidence="hearsay"), "the evidence 'hearsay' is none of"),
    ],
)
def test_a_report_the_spec_does_not_know_breaks_the_build(tmp_path, record, message):
    written(tmp_path, "odd.json", PASSED, record, namespace="torch")
    said = re.escape(str(tmp_path / "odd.json")) + f".*{message}.*make it again .* or remove it"
    with pytest.raises(ExtensionError, match=said):
        spec_lists.note_spec(None, types.SimpleNamespace(conformance_reports=str(tmp_path)))


def test_a_retired_row_breaks_the_build(tmp_path, monkeypatch):
    ledger = {"issued": {CUDA.id: CUDA.op}, "retired": {CUDA.id: "It was two rows."}}
    monkeypatch.setattr(row_evidence.loader, "read_table", lambda *_: ledger)
    written(tmp_path, "old.json", PASSED)
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
def test_what_is_no_report_breaks_the_build(tmp_path, text, message):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(ExtensionError, match=rf"r\.json.*{message}.*make it again"):
        spec_lists.note_spec(None, types.SimpleNamespace(conformance_reports=str(tmp_path)))


# The built site, with the reports that are there, which are read here once more.


def kept():
    """The reports of this implementation, as JSON has them."""
    files = sorted((Path(conformance.__file__).parent / "reports").glob("*.json"))
    every = {file.name: json.loads(file.read_text(encoding="utf-8")) for file in files}
    return {n: r for n, r in every.items() if r["environment"]["namespace"] == "impl"}


def records():
    """Each record with its device and the report that it is of."""
    for made in kept().values():
        ran_on = "cpu" if made["environment"]["platform"] == "cpu" else "cuda"
        for record in made["records"]:
            of = ran_on if record["device"] == "any" else record["device"]
            yield record | {"device": of, "on": made["environment"]["device"], "by": ran_on}


def wanted():
    """The levels of each row and device with the names that go with them, and what failed."""
    levels, failed, tried = defaultdict(set), set(), set()
    for record in records():
        at, name = (record["row"], record["device"]), None
        if record["outcome"] == "failed":
            failed.add(at)
        elif record["outcome"] == "passed":
            tried.add(at)
            if record["evidence"] == "hardware":
                name = record["on"]
            elif record["evidence"] == "compiled":
                name = record["lowering"].upper()
            if record["evidence"]:
                levels[at].add((record["evidence"], name))
    return levels, failed, tried


def text_of(page):
    """The page as it stands in HTML."""
    return (HTML / page / "index.html").read_text(encoding="utf-8")


def shown():
    """What the page of rows says of the evidence of each row."""
    entries = re.split(r'<dt id="(R\d{4})"', text_of("rows"))
    found = {}
    for id, entry in zip(entries[1::2], entries[2::2], strict=True):
        said = re.search(r"<dt[^>]*>Evidence.*?<dd[^>]*><p>(.*?)</p>", entry, re.DOTALL)
        found[id] = html.unescape(re.sub(r"<[^>]*>", "", said[1])) if said else None
    return found


def test_each_row_shows_what_the_reports_say():
    levels, failed, _ = wanted()
    passed = [record for record in records() if record["outcome"] == "passed"]
    tried_on_gpu = {(r["row"], r["device"]) for r in passed if r["by"] == "cuda"}
    said = shown()
    assert {id for id, text in said.items() if text} == {r.id for r in SPEC.rows if r.active}
    for row in SPEC.select(active=True):
        devices = on(row)
        parts = dict.fromkeys(devices, said[row.id])
        if re.match("cpu: ", said[row.id]):
            parts = dict(re.findall(r"(cpu|cuda): (.*?)(?=\. cuda: |$)", said[row.id]))
        for device in devices:
            at, text = (row.id, device), parts[device]
            assert text.startswith("failed") == (at in failed), row.id
            names = (
                [] if at in failed else sorted(levels[at], key=lambda x: (LEVELS.index(x[0]), x))
            )
            there = re.findall(
                r"(hardware|compiled|scheduled|static)(?: \((.*?)\))?(?:[,;.]|$)", text
            )
            there = [pair for pair in there if not text.startswith("failed")]
            there = [(a, b) for a, every in there for b in (every.split(", ") if every else [None])]
            if text.endswith("not yet verified on hardware"):
                there.remove(("hardware", None))
            assert there == names, f"{row.id} on {device}: {text}"
            done = "hardware" in dict(names)
            if "deterministic" not in row.behaviour.values():
                done = at in tried_on_gpu
            waits = device == "cuda" and not done and at not in failed
            assert text.endswith("not yet verified on hardware") == waits, row.id


def test_guarantees_count_each_active_row_once_for_each_device():
    levels, failed, tried = wanted()
    counts = Counter()
    for row in SPEC.select(active=True):
        for device in on(row):
            at = row.id, device
            best = min(levels[at], key=lambda x: LEVELS.index(x[0]), default=(None,))[0]
            best = best or ("tried, and not by bits" if at in tried else "none")
            counts["failed" if at in failed else best, device] += 1
    cells = re.findall(r"<td[^>]*>(.*?)</td>", text_of("guarantees"), re.DOTALL)
    cells = [re.sub(r"<[^>]*>", "", cell).strip() for cell in cells]
    for name in [*LEVELS, "tried, and not by bits", "none", "failed"]:
        place = cells.index(name)
        assert cells[place + 1 : place + 3] == [str(counts[name, d]) for d in ("cpu", "cuda")]


def test_guarantees_show_each_report_and_say_when_none_ran_on_a_gpu():
    page = text_of("guarantees")
    on_gpu = [r for r in records() if r["evidence"] == "hardware" and r["device"] == "cuda"]
    assert (row_evidence.NO_GPU in page) == (not [r for r in on_gpu if r["outcome"] != "skipped"])
    for name, made in kept().items():
        about = [made["environment"][key] for key in ("jax", "device", "samebits")]
        link = re.search(
            rf'href="\.\./(_downloads/\w+/{re.escape(name)})".*?</tr>', page, re.DOTALL
        )
        assert link, f"{name} is not linked to"
        assert json.loads((HTML / link[1]).read_text(encoding="utf-8")) == made
        for text in (made["made"][:10], *about):
            assert f"<p>{text}</p>" in link[0]
    assert len(re.findall(r"_downloads/\w+/[\w.-]+\.json", page)) == len(kept())

"""Other implementations: plain JAX, which has to fail, and PyTorch, which has to be explained."""

import itertools
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from conformance import __main__ as command
from conformance import differences, documents, expectations, implementation, report
from conformance.cells import cells
from conformance.hardware.round_context import RoundContext
from conformance.suite import test_rows as suite

PLAIN = "conformance.tests._plain"
#: In the plain namespace: known, thought to fail and passing, meaning nothing, for another jax.
KNOWN = """
[[expect]]
ids = ["test_raise[R0059-*"]
outcome = "fail"
reason = "There is no mode."

[[expect]]
ids = ["test_off[*-cumsum-forward-cpu-*-floating]"]
outcome = "fail"
reason = "It passes."

[[expect]]
ids = ["R9999"]
outcome = "fail"
reason = "No row has this id."

[[expect]]
ids = ["test_warn_only[R0059-*"]
outcome = "fail"
when = { jax = "<0.2" }
reason = "Of an old release."

[[expect]]
ids = ["bincount", "gather"]
outcome = "missing"
reason = "The one is, the other is not."
"""


def run_of_plain_jax(folder):
    """A run of a few rows, with what it printed and its records."""
    file, made = folder / "known.toml", folder / "report.json"
    file.write_text(KNOWN)
    words = (
        "R0001 and floating or R0059 or off and cumsum and floating or bincount-forward"
        " or means or exists and (gather or bincount)"
    )
    options = ["--expectations", str(file), "--report", str(made), "-k", words, "-n0", "-rA"]
    done = subprocess.run(
        [sys.executable, "-m", "conformance", "run", "--namespace", PLAIN, *options],
        capture_output=True,
        text=True,
        check=False,
    )
    return done, report.read(made)


def outcomes(text):
    """The outcome of each test by its name, from the summary of a run."""
    found = re.findall(r"^([A-Z]+) \S*::(test_\w+\[.*?\])(?: - .*)?$", text, re.MULTILINE)
    return {name: outcome for outcome, name in found}


def test_plain_jax_fails_and_expectations_are_strict(tmp_path):
    done, made = run_of_plain_jax(tmp_path)
    found = outcomes(done.stdout)
    assert done.returncode == 1, done.stdout + done.stderr

    def of(start):
        return {outcome for name, outcome in found.items() if name.startswith(start)}

    # What it lacks: a deterministic path, and alerts.
    assert of("test_no_race[R0001-index_add") == {"FAILED"}
    assert of("test_warn_only[R0059") == {"FAILED"}
    # What is known of it, what is not so, and what means nothing.
    assert of("test_raise[R0059") == {"XFAIL"}
    assert of("test_off[unlisted-cumsum-forward-cpu-torch-2.12-floating]") == {"FAILED"}
    assert "[XPASS(strict)] It passes." in done.stdout
    # Each failure of a cell says how it is run again; what was expected says nothing.
    again = f"again: python -m conformance run --device cpu --profile .* --namespace {PLAIN} "
    counted = sum(1 for name in found if found[name] == "FAILED" and re.search("-c(pu|uda)-", name))
    assert len(re.findall(again, done.stdout)) == counted > 0
    assert of("test_id_means_something[R9999]") == {"FAILED"}
    assert of("test_id_means_something[test_raise[R0059") == {"PASSED"}
    assert not of("test_id_means_something[test_warn_only")
    assert of("test_op_exists[bincount]") == {"PASSED"}
    assert of("test_op_exists[gather]") == {"FAILED"}
    # The report has what was expected as a failure that is explained.
    known = {r.detail for r in made.records if r.check == "raise"}
    assert known == {"expected: There is no mode."}
    assert made.environment["namespace"] == PLAIN


@pytest.fixture(scope="module")
def pytorch():
    torch = pytest.importorskip("torch", reason="values are compared with PyTorch's once")
    found = implementation.load("conformance.adapters.torch")
    found.torch = torch
    return found


def tried(tried_by, cell):
    """Tries a cell as the suite does, and gives what it recorded."""
    left = []

    def record(of, check, **more):
        left.append({**of.about, "check": check, **more})
        return left[-1]

    suite.test_off(tried_by, cell, record)
    if cell.behaviour == "deterministic":
        suite.test_bits(tried_by, cell, 3, record, RoundContext())
    elif cell.behaviour == "raise":
        suite.test_raise(tried_by, cell, record)
        suite.test_warn_only(tried_by, cell, record)
    elif cell.behaviour == "fill":
        suite.test_fill(tried_by, cell, record)
    else:
        suite.test_unlisted(tried_by, cell, record)
    return left


def of_cpu(release, *ops):
    """The cells of some ops on a CPU, as a release sees them."""
    return [
        documents.seen(cell, release)
        for cell in cells()
        if cell.op in ops and cell.device == "cpu" and cell.profile != "complete"
    ]


def test_pytorch_does_as_its_rows_and_errata_say(pytorch, tmp_path):
    chosen = of_cpu(
        pytorch.release, "put", "resize", "new_empty", "index_put", "nn.functional.max_unpool1d",
        "nn.lstm", "getitem", "scatter_add", "cumprod", "topk", "sort", "nn.functional.pad",
    )  # fmt: skip
    assert {cell.behaviour for cell in chosen} == {None, "deterministic", "raise", "fill"}
    left = [entry for cell in chosen for entry in tried(pytorch, cell)]
    records = [report.from_property(entry, "passed", 0.0) for entry in left]
    report.write(tmp_path / "report.json", dict(pytorch.versions()), records)
    text = differences.markdown(tmp_path / "report.json")
    assert "| new_empty | forward | cpu | torch-1.10, torch-2.12, torch-2.15 | unaffected" in text
    assert "| put | forward | narrow_added | Sums are of float32" in text
    assert "Nothing fails." in text


def without_a_mode(tried_by, monkeypatch):
    monkeypatch.setattr(tried_by.torch, "use_deterministic_algorithms", lambda *_, **__: None)


def without_writes(tried_by, monkeypatch):
    monkeypatch.setattr(tried_by.namespace, "put", lambda x, _, s, *__: x + 0 * s.sum())


def never_the_same(tried_by, monkeypatch):
    whole, runs = tried_by.out, itertools.count()

    def out(array):
        found = whole(array)
        return found + np.float32(next(runs) * 1e-6).astype(found.dtype)

    monkeypatch.setattr(tried_by, "out", out)


def another_with_the_mode(tried_by, monkeypatch):
    whole = tried_by.out

    def out(array):
        found = whole(array)
        return found + np.float32(tried_by.enabled() * 1e-6).astype(found.dtype)

    monkeypatch.setattr(tried_by, "out", out)


@pytest.mark.parametrize(
    ("op", "breakage", "failing"),
    [
        ("put", without_a_mode, {"raise"}),
        ("resize", without_a_mode, {"raise", "fill"}),
        ("put", without_writes, {"raise", "deterministic", None}),
        ("getitem", never_the_same, {"deterministic", None}),
        ("cumsum", another_with_the_mode, {None}),
    ],
)
def test_pytorch_broken_on_purpose_fails(pytorch, op, breakage, failing, monkeypatch):
    breakage(pytorch, monkeypatch)
    failed = set()
    for cell in of_cpu(pytorch.release, op):
        try:
            tried(pytorch, cell)
        except (AssertionError, pytest.fail.Exception):
            failed.add(cell.behaviour)
    assert failed == failing


def test_the_kept_report_of_pytorch_has_nothing_unexplained(capsys):
    file = differences.Path(report.__file__).parent / "reports" / "torch-2.13-cpu.json"
    assert command.main(["differences", str(file)]) == 0
    assert "of which 0 failed unexplained" in capsys.readouterr().out
    profiles = {record["profile"] for record in json.loads(file.read_text())["records"]}
    assert {"torch-1.10", "torch-2.12", "torch-2.15"} <= profiles


def test_what_differs_from_the_documents_is_a_table(tmp_path):
    (cell,) = [
        cell
        for cell in of_cpu("2.13", "new_empty")
        if (cell.profile, cell.sample.name) == ("torch-2.12", "integer")
    ]
    about = {**cell.about, "check": "fill"}
    records = [
        report.from_property(about, "passed", 0.0),
        report.from_property({**about, "op": "take", "detail": "expected: a | b"}, "failed", 0.0),
        report.from_property({**about, "op": "take", "detail": "3 != 4"}, "failed", 0.0),
    ]
    report.write(tmp_path / "report.json", {"torch": "2.13.0"}, records)
    text = differences.markdown(tmp_path / "report.json")
    assert "Found with torch 2.13.0, on cpu: 3 checks, of which 1 failed unexplained." in text
    assert "| new_empty | forward | cpu | torch-2.12 | unaffected | fill | Erratum of R0074" in text
    assert "| take | forward | cpu | integer | a \\| b |" in text


def test_the_expectations_that_are_shipped_can_be_read(pytorch):
    assert expectations.read(pytorch.expectations)
    assert expectations.read(implementation.load("impl").expectations) == ()

"""PyTorch does as its rows and errata state, and a PyTorch broken on purpose fails."""

import contextlib
import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from conformance.adapters import base
from conformance.reporting import expectations, pytorch_differences, report
from conformance.suite import releases
from conformance.suite import test_rows as suite
from conformance.suite.cells import cells


@pytest.fixture(scope="module")
def pytorch():
    torch = pytest.importorskip("torch", reason="values are compared with PyTorch's once")
    adapter = base.load("conformance.adapters.torch")
    adapter.torch = torch
    return adapter


def check_cell(adapter, cell):
    """Tests a cell as the suite does, and returns its records."""
    records = []

    def record(of, check, **fields):
        records.append({**of.about, "check": check, **fields})
        return records[-1]

    options = SimpleNamespace(getoption=lambda _: None)
    suite.test_off(adapter, cell, record, options)
    if cell.behaviour == "deterministic":
        suite.test_bits(adapter, cell, 3, record, lambda: contextlib.nullcontext(""))
    elif cell.behaviour == "raise":
        suite.test_raise(adapter, cell, record)
        suite.test_warn_only(adapter, cell, record)
    elif cell.behaviour == "fill":
        suite.test_fill(adapter, cell, record)
    else:
        suite.test_unlisted(adapter, cell, record)
    return records


def of_cpu(release, *ops):
    """Returns the cells of some ops on a CPU, with the behaviour to expect of a release."""
    return [
        releases.for_release(cell, release)
        for cell in cells()
        if cell.op in ops and cell.device == "cpu" and cell.profile != "complete"
    ]


def test_pytorch_does_as_its_rows_and_errata_say(pytorch, tmp_path):
    chosen = of_cpu(
        pytorch.release, "put", "resize", "new_empty", "index_put", "nn.functional.max_unpool1d",
        "nn.lstm", "getitem", "scatter_add", "cumprod", "topk", "sort", "nn.functional.pad",
    )  # fmt: skip
    assert {cell.behaviour for cell in chosen} == {None, "deterministic", "raise", "fill"}
    entries = [entry for cell in chosen for entry in check_cell(pytorch, cell)]
    records = [report.from_property(entry, "passed", 0.0) for entry in entries]
    report.write(tmp_path / "report.json", dict(pytorch.versions()), records)
    text = pytorch_differences.markdown(tmp_path / "report.json")
    assert "| new_empty | forward | cpu | torch-1.10, torch-2.12, torch-2.15 | unaffected" in text
    assert "| put | forward | narrow_added | Sums are of float32" in text
    assert "Nothing fails." in text


def without_a_mode(adapter, monkeypatch):
    monkeypatch.setattr(adapter.torch, "use_deterministic_algorithms", lambda *_, **__: None)


def without_writes(adapter, monkeypatch):
    monkeypatch.setattr(adapter.namespace, "put", lambda x, _, s, *__: x + 0 * s.sum())


def moved(adapter, monkeypatch, steps):
    """Adds a number of small steps to each result."""
    out_before = adapter.out

    def out(array):
        result = out_before(array)
        return result + np.float32(steps() * 1e-6).astype(result.dtype)

    monkeypatch.setattr(adapter, "out", out)


def never_the_same(adapter, monkeypatch):
    moved(adapter, monkeypatch, itertools.count().__next__)


def another_with_the_mode(adapter, monkeypatch):
    moved(adapter, monkeypatch, adapter.enabled)


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
            check_cell(pytorch, cell)
        except (AssertionError, pytest.fail.Exception):
            failed.add(cell.behaviour)
    assert failed == failing


def test_the_expectations_that_are_shipped_can_be_read(pytorch):
    assert expectations.read(pytorch.expectations)

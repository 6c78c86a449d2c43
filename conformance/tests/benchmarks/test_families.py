"""The families of the benchmarks at small sizes: their cases and sides. No test checks a time."""

import importlib
import importlib.util

import numpy as np
import pytest

import impl
from conformance.benchmarks import FAMILIES, eager_calls, harness, tables
from conformance.benchmarks.case import Setting
from conformance.benchmarks.families import (
    convs,
    elementary,
    exact_products,
    exact_sums,
    libraries,
    losses,
    overheads,
    portable,
    recurrent,
    scans,
    scatter,
    selection,
    sparse,
    spatial,
)
from conformance.benchmarks.measurements import Family, Report
from conformance.benchmarks.sides import Program
from impl.tests.every_op.public_ops import public_ops

pytestmark = pytest.mark.once

CALLS = eager_calls.calls
SETTING = Setting(times=1, quick=False, torch=None, memory=1 << 30)

#: The environment of a report.
ENVIRONMENT = {
    "platform": "cpu",
    "device": "a CPU",
    "threads": "2",
    "python": "3.11",
    "jax": "0",
    "jaxlib": "0",
    "torch": "0",
    "load": "0.0",
}


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    monkeypatch.setattr(scans, "SIZES", {"cumsum": ((1, 3000),), "cummax": ((3, 50),)})
    monkeypatch.setattr(scans, "CURVE", (100,))
    monkeypatch.setattr(elementary, "SIZES", (100,))
    monkeypatch.setattr(elementary, "OPS", {name: elementary.OPS[name] for name in ("exp", "div")})
    monkeypatch.setattr(scatter, "SIZES", ((20, 3000, 1), (5, 300, 2)))
    monkeypatch.setattr(scatter, "SKEWED", ((20, 30, 1),))
    monkeypatch.setattr(scatter, "CURVE", (100,))
    monkeypatch.setattr(exact_sums, "SCATTERS", ((5, 300, 2),))
    monkeypatch.setattr(exact_sums, "SUMS", (((40, 3), (0,)),))
    monkeypatch.setattr(portable, "PROGRAMS", {})
    monkeypatch.setattr(portable, "DEVICES", 1)
    monkeypatch.setattr(portable, "SCATTERS", ((300, 2, 5),))
    monkeypatch.setattr(selection, "SIZES", ((3, 40),))
    monkeypatch.setattr(selection, "CURVE", (100,))
    monkeypatch.setattr(overheads, "IMPORTS", {})
    monkeypatch.setattr(eager_calls, "calls", _two_calls)
    sizes = {"nll_loss": (2, 3, 4), "cross_entropy": (5, 3), "ctc_loss": (6, 2, 3)}
    monkeypatch.setattr(losses, "SIZES", sizes)
    monkeypatch.setattr(losses, "LABELS", 2)
    monkeypatch.setattr(libraries, "NAMES", ("equinox_mnist",))
    monkeypatch.setattr(libraries, "SCALE", 1)
    monkeypatch.setattr(recurrent, "OPS", {"lstm": 4})
    tiny = recurrent.Size(2, 1, 2, 3, 1, bidirectional=True)
    monkeypatch.setattr(recurrent, "SIZES", {"tiny": tiny})
    monkeypatch.setattr(sparse, "SIZES", ((2, 8, 6, 4, 3),))
    monkeypatch.setattr(spatial, "SIZES", {"tiny": (1, 2, 8, 8)})
    monkeypatch.setattr(exact_products, "SIZES", (8,))
    monkeypatch.setattr(exact_products, "IMAGES", ((1, 4, 4, 2),))
    monkeypatch.setattr(convs, "SIZES", {"tiny": convs.Size(1, 2, 8, 3, 3, 2, 1)})
    ops = {name: spatial.OPS[name] for name in ("avg_pool2d(3, 2, 1)", "grid_sample")}
    monkeypatch.setattr(spatial, "OPS", ops)


def _two_calls():
    numbers, mask = np.ones((2, 3), np.float32), np.ones((2, 3), bool)
    yield eager_calls.Call("cumsum", lambda x: impl.cumsum(x, 0), None, (numbers,))
    yield eager_calls.Call("getitem", impl.getitem, lambda x, mask: x[mask], (numbers, mask))


#: The cells of the description of each case, by family.
CASES = {
    "losses": [
        f"{op} | {shape} | {direction}"
        for op, shape in (
            ("nll_loss", [2, 3, 4]),
            ("cross_entropy", [5, 3]),
            ("ctc_loss", [6, 2, 3]),
        )
        for direction in ("forward", "forward and backward")
    ],
    "libraries": [f"equinox_mnist | {work}" for work in ("step", "trace and lower")],
    "recurrent": [
        f"lstm | tiny, of 3 | [2, 1, 2] | {direction}"
        for direction in ("forward", "forward and backward")
    ],
    "overheads": [
        f"{op} | {work} | {beside}"
        for op, beside in (("cumsum", "own"), ("getitem", "JAX"))
        for work in ("call", "trace and lower")[: 2 if op == "cumsum" else 1]
    ],
    "portable": ["300 x 2 into 5 | 1 | run", "300 x 2 into 5 | 1 | compile"],
    "elementary": ["exp | 100", "div | 100"],
    "scans": ["cumsum | 1 | 3,000", "cummax | 3 | 50", "cumsum | 1 | 100"],
    "scatter": [
        "20 | 3,000 | 1 | uniform",
        "5 | 300 | 2 | uniform",
        "20 | 30 | 1 | Zipf 1.1",
        "20 | 30 | 1 | one hot",
        "20 | 30 | 1 | sorted",
        "20 | 20 | 1 | unique",
        "10 | 100 | 1 | uniform",
    ],
    "exact_sums": ["scatter 300 of 2 into 5", "sum [40, 3] over [0]"],
    "selection": [
        *(f"{op} | [3, 40]" for op in ("kthvalue", "median", "topk(16)", "sort")),
        "kthvalue | [1, 100]",
    ],
    "sparse": [
        f"[2, 8, 6], 1 in 4, by [2, 6, 3] | {direction}" for direction in ("forward", "backward")
    ],
    "spatial": [
        f"{op} | tiny, [1, 2, 8, 8] | {direction}"
        for op in ("avg_pool2d(3, 2, 1)", "grid_sample")
        for direction in ("forward", "backward")
    ],
    "exact_products": [
        f"{product} | {data}"
        for data in ("Gaussian", "24 binades")
        for product in ("[8, 8] by [8, 8]", "[1, 4, 4, 2], 3 x 3")
    ],
    "convs": [
        f"tiny | [1, 2, 8, 8], [3, 2, 3, 3], stride 2 | {direction}"
        for direction in ("forward", "backward")
    ],
}


@pytest.mark.parametrize("name", FAMILIES)
def test_each_case_of_a_family_is_measured_and_has_a_line_in_its_table(name):
    if name == "libraries" and importlib.util.find_spec("equinox") is None:
        pytest.skip("needs the group programs")
    family = importlib.import_module(f"conformance.benchmarks.families.{name}")
    measured = []
    for case in family.cases(SETTING):
        assert isinstance(case.sides[family.OURS], Program) == (not case.few)
        measured.append(harness.measure_case(case, seconds=0.0))
    result = Family(family.TITLE, family.BASE, family.OURS, (), tuple(measured))
    report = Report("2026-01-01", ENVIRONMENT, "the command", {name: result}, {})
    lines = [
        line
        for line in tables.table(report, report.families[name]).splitlines()
        if line.startswith("| ")
    ]
    assert len(lines) == 2 + len(CASES[name])
    for line, cells in zip(lines[2:], CASES[name], strict=True):
        assert line.startswith(f"| {cells} | ")


def test_each_public_op_has_an_eager_call():
    names = {call.op.partition(" ")[0] for call in CALLS()}
    assert names == set(public_ops())


def test_a_case_that_does_not_fit_into_the_memory_is_left_out(monkeypatch):
    monkeypatch.setattr(scatter, "SIZES", ())
    monkeypatch.setattr(scatter, "SKEWED", ())
    monkeypatch.setattr(scatter, "CURVE", (100, 10_000))
    small = Setting(times=1, quick=False, torch=None, memory=1 << 17)
    assert [case.n for case in scatter.cases(small)] == [100]

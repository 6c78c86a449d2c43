"""The families of the benchmarks at small sizes: their cases and sides. No test checks a time."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import impl
from conformance import programs
from conformance.benchmarks import FAMILIES, bench_command, engine, measurements
from conformance.benchmarks.engine import Program, Setting
from conformance.benchmarks.families import calls, ops, overheads, whole
from conformance.benchmarks.torch_peer import DETERMINISTIC, torch_peer
from conformance.tests.benchmarks.test_measurements import REPORT

pytestmark = pytest.mark.once

SETTING = Setting(quick=False, torch=None, memory=1 << 30)


#: The calls of each family that are tried, and their size.
CALLS = (
    ("convs", "1x3x8x8 2x3x7x7", "first"),
    ("spatial", "1x2x8x8 1x8x8x2:-1..1", "grid_sample"),
    ("scans", "3x50", "cumsum", "cummax"),
    ("elementary", "100:1..2 100:1..2", "div"),
    ("exact_sums", "5x2:0..0 300:5 300x2", "exact scatter"),
    ("selection", "3x40", *calls.TABLE["selection"]),
)


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch):
    monkeypatch.setattr(engine, "LEAST_ROUNDS", 1)
    monkeypatch.setattr(engine, "MOST_ROUNDS", 1)
    sizes = {
        calls: {
            "CURVE": (100,),
            "TABLE": {
                family: {name: {**calls.TABLE[family][name], "sizes": [size]} for name in names}
                for family, size, *names in CALLS
            },
        },
        ops: {
            "CURVE": (100,),
            "SCATTERS": ((20, 3000, 1), (5, 300, 2)),
            "SKEWED": ((20, 30, 1),),
            "SPARSE": ((2, 8, 6, 4, 3),),
            "LOSSES": {"nll_loss": (2, 3, 4), "cross_entropy": (5, 3), "ctc_loss": (6, 2, 3)},
            "LABELS": 2,
            "GATES": {"lstm": 4},
            "NETS": {"tiny": ops.Net(2, 1, 2, 3, 1, bidirectional=True)},
        },
        whole: {
            "TRAINED": {"step": _a_step},
            "NAMES": ("equinox_mnist",),
            "SQUARES": (8,),
            "IMAGES": ((1, 4, 4, 2),),
            "BINADES": {"24 binades": 12},
        },
        overheads: {"IMPORTS": {}, "calls": _two_calls},
        programs: {"build": lambda *_: (jnp.sum, (jnp.ones(3),))},
    }
    for module, values in sizes.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


def _a_step():
    return jnp.dot, (jnp.ones((3, 3)), jnp.ones((3, 3)))


def _two_calls():
    numbers, mask = np.ones((2, 3), np.float32), np.ones((2, 3), bool)
    yield overheads.Call("cumsum", lambda x: impl.cumsum(x, 0), None, (numbers,))
    yield overheads.Call("getitem", impl.getitem, lambda x, mask: x[mask], (numbers, mask))


#: The number of cases of each family, and the description of the last one.
CASES = {
    "losses": (6, "ctc_loss | [6, 2, 3] | backward"),
    "libraries": (2, "equinox_mnist | trace and lower"),
    "recurrent": (2, "lstm | tiny, of 3 | [2, 1, 2] | backward"),
    "overheads": (3, "getitem | call | JAX"),
    "portable": (2, "step | 1 | compile"),
    "elementary": (1, "div | [100], [100]"),
    "scans": (3, "cumsum | [1, 100]"),
    "scatter": (7, "10 | 100 | 1 | uniform"),
    "exact_sums": (1, "exact scatter | [5, 2], [300], [300, 2]"),
    "selection": (5, "kthvalue | [1, 100]"),
    "sparse": (2, "[2, 8, 6], 1 in 4, by [2, 6, 3] | backward"),
    "spatial": (2, "grid_sample | [1, 2, 8, 8], [1, 8, 8, 2] | backward"),
    "exact_products": (2, "[1, 4, 4, 2], 3 x 3 | 24 binades"),
    "convs": (2, "conv2d | first | [1, 3, 8, 8], [2, 3, 7, 7] | backward"),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_each_case_of_a_family_is_measured_and_has_a_line_in_its_table(name):
    if name == "losses":
        pytest.importorskip("optax", reason="`nox -s tests-3.11` has Optax")
    with torch_peer() as torch:
        benchmark = bench_command.benchmark(name)
        cases = list(benchmark.cases(dataclasses.replace(SETTING, torch=torch)))
        for case in cases:
            assert isinstance(case.sides[benchmark.ours], Program) == (not case.few)
            assert benchmark.base in case.sides
            if DETERMINISTIC in case.sides and name in {"sparse", "recurrent", "losses", "convs"}:
                assert_the_same(case.sides["ordered"](), case.sides[DETERMINISTIC]())
        result = dataclasses.replace(benchmark, cases=lambda _: cases).measured(SETTING)
    table = measurements.table(REPORT, result)
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    count, last = CASES[name]
    assert len(set(lines)) == 2 + count
    assert lines[-1].startswith(f"| {last} | ")


def assert_the_same(ours, theirs):
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_case_that_does_not_fit_into_the_memory_is_left_out(monkeypatch):
    for name, value in {"SCATTERS": (), "SKEWED": (), "CURVE": (100, 10_000)}.items():
        monkeypatch.setattr(ops, name, value)
    small = Setting(quick=False, torch=None, memory=1 << 17)
    assert [case.n for case in ops.scatters(small)] == [100]


def test_each_distribution_has_its_skew():
    def drawn(name):
        return ops.DISTRIBUTIONS[name](np.random.default_rng(0), 1000, 1000)

    most = {name: np.bincount(drawn(name)).max() for name in ops.DISTRIBUTIONS}
    assert all(drawn(name).max() < 1000 for name in most)
    assert most["unique"] == 1
    assert most["uniform"] < 10
    # The first of 1000 destinations has a share of 1 / sum(k ** -1.1), which is 0.18.
    assert 140 < most["Zipf 1.1"] < 220
    assert most["one hot"] == 1000
    assert (np.diff(drawn("sorted")) >= 0).all()

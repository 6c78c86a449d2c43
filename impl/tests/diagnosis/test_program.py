"""Items about the program: the mode, seeds, threads, switches, options; and the report as text.

Tests: impl.diagnosis._report.
"""

from typing import get_args

import pytest

import impl
from impl import random as impl_random
from impl._mode import compilation, modes
from impl.diagnosis import _generators, _program
from impl.diagnosis._report import Item, Report, Verdict

FIXED, PROCESS, MACHINE, UNKNOWN = get_args(Verdict)


def named(items, name):
    (item,) = [item for item in items if item.name == name]
    return item


@pytest.mark.parametrize(
    ("mode", "platform", "verdict"),
    [
        ({"mode": False}, "cpu", MACHINE),
        ({"mode": False}, "gpu", PROCESS),
        ({"mode": False}, None, PROCESS),
        ({"mode": True}, "gpu", FIXED),
        ({"mode": True, "warn_only": True}, "gpu", PROCESS),
        ({"mode": True, "warn_only": True, "profile": "complete"}, "gpu", FIXED),
    ],
)
def test_verdicts_of_the_mode(mode, platform, verdict):
    with impl.deterministic(**mode):
        item = named(_program.mode(platform), "deterministic algorithms")
    assert item.verdict == verdict
    assert (item.remedy is None) == (verdict == FIXED)


@pytest.mark.parametrize(
    ("options", "verdict"),
    [
        ({"guarantee": "run_to_run"}, MACHINE),
        ({"guarantee": "portable"}, FIXED),
        ({"guarantee": "portable", "warn_only": True}, MACHINE),
    ],
)
def test_a_portable_program_may_run_on_other_devices_and_threads(options, verdict):
    with impl.deterministic(**options):
        _, item = _program.devices(None)
        assert item.verdict == _program.threads({}).verdict == verdict
        assert named(_program.mode("cpu"), "guarantee").value == options["guarantee"]


def test_the_engine_of_the_device():
    (item,) = _program.engine("cpu")
    assert (item.value, item.verdict) == ("native", FIXED)
    (item,) = _program.engine("tpu")
    assert item.value == "integers"
    assert "integers of 64 bits" in item.reason
    assert list(_program.engine(None)) == []


def test_scatters_of_jax_race_without_the_rules_for_them():
    with impl.deterministic():
        impl.programs.disable()
        item = named(_program.mode("gpu"), "deterministic algorithms")
        impl.programs.enable()
        assert "scatters of JAX keep" in named(_program.mode("gpu"), item.name).reason
    assert item.verdict == PROCESS
    assert "impl.programs.disable()" in item.remedy


def test_unfilled_memory_varies_where_memory_is_not_zeroed():
    name = "fill_uninitialized_memory"
    assert named(_program.mode("gpu"), name).verdict == FIXED
    modes.set_fill_uninitialized_memory(False)
    assert named(_program.mode("gpu"), name).verdict == PROCESS
    assert named(_program.mode("cpu"), name).verdict == FIXED


def test_verdicts_of_seeds(monkeypatch):
    monkeypatch.setattr(impl_random, "_libraries_seed", None)
    with impl.fork_rng():
        impl.seed()
        assert [item.verdict for item in _program.seeds()] == [PROCESS] * 3
        impl.manual_seed(3)
        assert [item.verdict for item in _program.seeds()] == [FIXED, PROCESS, PROCESS]
        monkeypatch.setattr(impl_random, "_libraries_seed", 2**32 + 3)
        assert [item.verdict for item in _program.seeds()] == [FIXED] * 3
        assert [item.value for item in _program.seeds()] == ["3", str(2**32 + 3), "3"]


@pytest.mark.parametrize(
    ("program", "verdict"),
    [
        (lambda: None, FIXED),
        (impl.default_generator.key, PROCESS),
        (impl.default_generator.draw_seed, PROCESS),
        (lambda: (impl.default_generator.draw_seed(), impl.manual_seed(3)), PROCESS),
        (lambda: (impl.manual_seed(3), impl.default_generator.draw_seed()), FIXED),
        (lambda: impl.Generator().key(), FIXED),
    ],
)
def test_a_default_generator_without_a_seed_counts_once_a_program_draws_from_it(program, verdict):
    impl.seed()
    with _generators.watched() as watch:
        program()
    item = next(_program.seeds(watch))
    assert (item.name, item.verdict) == ("impl.default_generator", verdict)
    if verdict == PROCESS:
        assert "test_program.py:" in item.reason


def test_threads_and_benchmarks():
    with impl.backends.cudnn.flags(benchmark=True):
        assert named(_program.compiler(None), "backends.cudnn.benchmark").verdict == PROCESS
        assert named(_program.compiler("cpu"), "backends.cudnn.benchmark").verdict == FIXED
    unset = _program.threads({})
    assert unset.verdict == MACHINE
    assert _program.threads({"NPROC": "3"}).verdict == FIXED
    assert _program.threads({"NPROC": "3", "PJRT_NPROC": "2"}).value == "2"


def test_options_that_jaxlib_does_not_know_are_reported(monkeypatch):
    with impl.deterministic():
        asked = compilation.settings()
        known = [item for item in _program.compiler("gpu") if item.name == asked[0].option]
        monkeypatch.setattr(compilation, "unknown_options", lambda: asked[:1])
        lost = named(_program.compiler("gpu"), asked[0].option)
    assert [item.verdict for item in known] == [FIXED]
    assert (lost.verdict, lost.value) == (PROCESS, None)
    assert asked[0].row in lost.reason


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

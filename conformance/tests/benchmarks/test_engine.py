"""Sides are timed in turns, with a copy; a side that refuses is left out."""

import jax.numpy as jnp
import pytest

from conformance.benchmarks import engine
from conformance.benchmarks.engine import MODE_OFF, Case, Setting
from conformance.benchmarks.torch_peer import RefusedError


def times_of(sides, milliseconds, monkeypatch, **options):
    """Measures sides by a stand-in clock: run i takes ``milliseconds[i]``."""
    clock = iter([tick for each in milliseconds for tick in (0, each / 1e3)])
    monkeypatch.setattr(engine.time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(engine, "LEAST_ROUNDS", 3)
    return engine.measure(Case({}, sides, **options), "a", seconds=0.0)


def test_each_side_runs_once_a_round_and_quartiles_are_reported(monkeypatch):
    runs = []
    sides = {"a": lambda: runs.append("a"), "b": lambda: runs.append("b")}
    found = times_of(sides, [1, 1, 1000, 5000, 2000, 6000, 9000, 7000], monkeypatch)
    assert "".join(runs) == "ab" * 5  # One run to compile, one that tells how many rounds fit.
    a = found.sides["a"]
    assert (a.median, a.low, a.high, a.least, a.rounds) == (2000, 1500, 5500, 1000, 3)
    assert found.sides["b"].median == 6000


def test_a_side_that_times_itself_tells_its_own_milliseconds(monkeypatch):
    found = times_of({"a": lambda: 7.0}, [1] * 4, monkeypatch)
    assert found.sides["a"].median == 7.0


def test_a_long_side_runs_once_where_few_rounds_suffice(monkeypatch):
    assert times_of({"a": lambda: None}, [1, 1], monkeypatch, few=True).sides["a"].rounds == 1


def test_a_side_that_refuses_leaves_the_others(monkeypatch):
    def refuse():
        raise RefusedError("not deterministic")

    found = times_of({"a": lambda: None, "b": refuse}, [1] * 4, monkeypatch)
    assert found.refused == {"b": "not deterministic"}
    assert list(found.sides) == ["a"]


def test_another_error_of_a_side_is_no_refusal():
    def fail():
        raise RuntimeError("out of memory")

    with pytest.raises(RuntimeError, match="out of memory"):
        engine.measure(Case({}, {"a": fail}), "a", seconds=0.0)


def test_the_copy_moves_the_bytes_of_arguments_and_result():
    program = engine.compiled(lambda x: x.sum(keepdims=True), [jnp.zeros(1000)], MODE_OFF)
    found = engine.measure(Case({}, {"a": program}), "a", seconds=0.0)
    assert found.floor_bytes == 4004
    assert found.copy_ms is not None
    assert "copy" not in found.sides
    copy = engine._copy(4004)
    assert copy.floor_bytes == 4000  # Whole words; half of the bytes are read.


@pytest.mark.parametrize("items", [(1, 2, 3), {"a": 1, "b": 2, "c": 3}])
def test_a_quick_setting_takes_the_first_items(items):
    setting = Setting(quick=True, torch=None, memory=0)
    assert list(setting.some(items, 2)) == list(items)[:2]
    assert list(Setting(quick=False, torch=None, memory=0).some(items)) == list(items)

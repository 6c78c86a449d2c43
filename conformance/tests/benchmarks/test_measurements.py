"""Sides are timed in turns, with a copy and a peer, and reports and tables are made of the times.

Tests: conformance.benchmarks.engine, conformance.benchmarks.measurements,
conformance.benchmarks.torch_peer.
"""

import json

import jax.numpy as jnp
import pytest

from conformance import __main__ as command
from conformance.benchmarks import engine, measurements, torch_peer
from conformance.benchmarks.engine import MODE_OFF, Case, Setting
from conformance.benchmarks.measurements import (
    Family,
    Measurement,
    MeasurementsError,
    Report,
    Times,
    threads,
)
from conformance.benchmarks.torch_peer import RefusedError


def measurement(n, slow):
    return Measurement(
        case={"size": f"{n:,}"},
        sides={"plain": Times.of([1.0, 2.0, 3.0]), "ours": Times.of([slow])},
        refused={"PyTorch": "no deterministic implementation"},
        temporary_bytes=32,
        floor_bytes=64,
        copy_ms=0.5,
        n=n,
    )


REPORT = Report(
    made="2026-01-02T03:04:05+00:00",
    environment={
        **dict.fromkeys(("python", "jax", "jaxlib", "torch"), "1.2"),
        "platform": "cpu",
        "device": "a CPU",
        "threads": "2",
        "load": "0.1",
    },
    command="python -m conformance bench --family f",
    families={
        "f": Family("Title", "plain", "ours", ("a remark",), (measurement(8, 4.0),)),
        "g": Family("Curve", "plain", "ours", (), (measurement(8, 4.0), measurement(80, 9.0))),
    },
    without={"h": "it needs flax"},
)


def test_a_report_is_read_as_it_was_written(tmp_path):
    REPORT.write(tmp_path / "r.json")
    assert Report.read(tmp_path / "r.json") == REPORT


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no JSON", "is not a report of the benchmarks"),
        ("[]", "is not a report of the benchmarks"),
        (json.dumps({"format": 0}), "has the format 0"),
        (json.dumps({"format": 1, "families": {}}), "is not a report of the benchmarks"),
    ],
)
def test_another_file_is_refused(text, message, tmp_path):
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(MeasurementsError, match=message):
        Report.read(path)


def test_a_table_shows_times_ratios_spread_rate_and_what_was_refused():
    table = measurements.table(REPORT, REPORT.families["f"])
    assert "a CPU, 2 threads, Python 1.2, jax 1.2" in table
    assert "`python -m conformance bench --family f`, 2026-01-02" in table
    # 64 bytes in 4 ms; a copy of them takes 0.5 ms.
    assert "| 8 | 2 (1.0) | 4 (2.0) | 0% | 0.0 | 8.0 | 32 |" in table
    assert "- a remark\n- Refused: no deterministic implementation\n" in table


def test_the_command_prints_tables_or_refuses_a_file(tmp_path, capsys):
    path = tmp_path / "r.json"
    assert command.main(["tables", str(path)]) == 2
    assert "python -m conformance tables:" in capsys.readouterr().err
    REPORT.write(path)
    assert command.main(["tables", str(path)]) == 0
    assert "# Title" in capsys.readouterr().out


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


@pytest.fixture
def torch():
    """PyTorch, whose mode is on and only warns, with another number of threads than JAX."""
    torch = pytest.importorskip("torch", reason="`nox -s tests-3.11` has PyTorch")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_num_threads(threads() + 1)
    return torch


def test_the_state_is_restored(torch):
    def state():
        return torch.get_deterministic_debug_mode(), torch.get_num_threads()

    with torch_peer.torch_peer() as peer:
        assert peer.torch is torch
        assert state() == (0, threads())
    assert state() == (1, threads() + 1)
    with pytest.raises(KeyError), torch_peer.torch_peer():
        raise KeyError
    assert state() == (1, threads() + 1)


def test_there_is_no_peer_without_pytorch(monkeypatch):
    monkeypatch.setattr(torch_peer.importlib.util, "find_spec", lambda _: None)
    with torch_peer.torch_peer() as peer:
        assert peer is None


@pytest.mark.parametrize(
    ("on_cpu", "modes"),
    [
        (True, {"PyTorch, deterministic": True}),
        (False, {"PyTorch": False, "PyTorch, deterministic": True}),
    ],
)
def test_each_side_has_its_mode_and_waits_for_the_device(on_cpu, modes, torch, monkeypatch):
    monkeypatch.setattr(torch_peer, "on_cpu", lambda: on_cpu)
    events = []
    device = torch.cpu if on_cpu else torch.cuda
    monkeypatch.setattr(device, "synchronize", lambda: events.append("waited"))
    with torch_peer.torch_peer() as peer:
        sides = peer.sides(lambda: events.append(torch.are_deterministic_algorithms_enabled()))
        for side in reversed(sides.values()):
            side()
    assert list(sides) == list(modes)
    assert events == [event for mode in reversed(modes.values()) for event in (mode, "waited")]


@pytest.mark.usefixtures("torch")
def test_an_op_without_a_deterministic_implementation_is_a_refusal():
    def fail(message):
        raise RuntimeError(message)

    with torch_peer.torch_peer() as peer:
        (side,) = peer.sides(lambda: fail("no deterministic implementation")).values()
        with pytest.raises(RefusedError, match="no deterministic implementation"):
            side()
        (side,) = peer.sides(lambda: fail("out of memory")).values()
        with pytest.raises(RuntimeError, match="out of memory"):
            side()

"""Sides are timed in turns."""

from conformance.benchmarks import timing


def test_each_side_runs_once_a_round_and_the_median_is_reported(monkeypatch):
    runs = []
    clock = iter([0, 1, 0, 5, 0, 2, 0, 6, 0, 9, 0, 7])
    monkeypatch.setattr(timing.time, "perf_counter", lambda: next(clock))
    sides = {"a": lambda: runs.append("a"), "b": lambda: runs.append("b")}
    assert timing.median_ms(sides, rounds=3, warmups=1) == {"a": 2e3, "b": 6e3}
    assert "".join(runs) == "ab" * 4

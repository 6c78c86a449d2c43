"""The other work on the device: it runs in a scope, and the report names work that failed."""

import time

import jax
import pytest

from conformance import implementation
from conformance.hardware import background_work
from conformance.hardware.background_work import BackgroundWork, WorkKind


class Counter:
    """Work that counts its steps."""

    def __init__(self, fails_at=None):
        self.steps, self.fails_at = 0, fails_at

    def begin(self):
        return self.step

    def step(self):
        self.steps += 1
        time.sleep(0.001)
        if self.steps == self.fails_at:
            raise MemoryError("no room")


def test_work_runs_in_a_scope_and_rests_outside():
    counter = Counter()
    with BackgroundWork([WorkKind("counting", counter.begin)]) as work:
        time.sleep(0.02)
        assert counter.steps == 0
        for _ in range(2):
            before = counter.steps
            with work.scope():
                assert counter.steps > before
                time.sleep(0.02)
                assert counter.steps > before + 2
            time.sleep(0.02)
            before = counter.steps
            time.sleep(0.02)
            assert counter.steps == before
        assert str(work) == "counting"


def test_work_that_fails_is_given_up_and_named():
    kinds = [
        WorkKind("counting", Counter().begin),
        WorkKind("failing", Counter(fails_at=1).begin),
    ]
    with BackgroundWork(kinds) as work:
        for _ in range(2):
            with work.scope():
                pass
        assert str(work) == "counting; without failing (MemoryError: no room)"
    failing = WorkKind("failing", Counter(fails_at=1).begin)
    with BackgroundWork([failing]) as work, work.scope():
        assert str(work).startswith("nothing; without failing")


def test_work_that_does_not_begin_is_an_error(monkeypatch):
    monkeypatch.setattr(background_work, "START_TIMEOUT", 0.1)
    late = WorkKind("late", lambda: time.sleep(0.5) or Counter().step)
    with BackgroundWork([late]) as work:
        scope = work.scope()
        with pytest.raises(TimeoutError, match="no other work began"), scope:
            pass


def test_arrays_of_changing_sizes_stay_within_the_limit(monkeypatch):
    monkeypatch.setattr(background_work, "ARRAY_SIZES", (10, 300, 2000))
    monkeypatch.setattr(background_work, "MEMORY_LIMIT", 20_000)
    step = background_work.begin_array_work()
    totals = set()
    for _ in range(40):
        step()
        # The sum keeps no reference to the arrays.
        totals.add(sum(a.nbytes for a in jax.live_arrays() if a.shape in {(10,), (300,), (2000,)}))
    assert len(totals) > 5
    assert max(totals) <= 20_000


def test_the_kinds_of_work_depend_on_the_device(monkeypatch):
    jax_ops = implementation.load("impl")
    monkeypatch.setattr(type(jax_ops), "devices", lambda _: ("cuda",))

    def first_words():
        return [kind.name.partition(" ")[0] for kind in background_work.work_kinds(jax_ops)]

    assert first_words() == ["allocations", "fills"]
    monkeypatch.setattr(type(jax_ops), "can_lower", False)
    assert first_words() == ["fills"]
    monkeypatch.setattr(type(jax_ops), "devices", lambda _: ("cpu",))
    assert first_words() == []

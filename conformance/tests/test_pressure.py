"""Work beside what is tried: it is there while it is asked for, and what is lost is named."""

import ctypes
import time

import jax
import pytest

from conformance.adapters import loading
from conformance.rounds import pressure, streams
from conformance.rounds.child import Part
from conformance.rounds.pressure import Pressure, Work


class Counted:
    """A kind of work that counts its steps."""

    def __init__(self, fails_at=None):
        self.steps, self.fails_at = 0, fails_at

    def begin(self):
        return self.step

    def step(self):
        self.steps += 1
        time.sleep(0.001)
        if self.steps == self.fails_at:
            raise MemoryError("no room")


def test_it_works_while_a_scope_is_open_and_rests_otherwise():
    counted = Counted()
    with Pressure([Work("counting", counted.begin)]) as beside:
        time.sleep(0.02)
        assert counted.steps == 0
        for _ in range(2):
            before = counted.steps
            with beside.scope():
                assert counted.steps > before
                time.sleep(0.02)
                assert counted.steps > before + 2
            time.sleep(0.02)
            before = counted.steps
            time.sleep(0.02)
            assert counted.steps == before
        assert str(beside) == "counting"


def test_work_that_fails_is_given_up_and_named():
    kinds = [Work("counting", Counted().begin), Work("failing", Counted(fails_at=1).begin)]
    with Pressure(kinds) as beside:
        for _ in range(2):
            with beside.scope():
                pass
        assert str(beside) == "counting; without failing (MemoryError: no room)"
    alone = Work("failing", Counted(fails_at=1).begin)
    with Pressure([alone]) as beside, beside.scope():
        assert str(beside).startswith("nothing; without failing")


def test_work_that_does_not_begin_is_an_error(monkeypatch):
    monkeypatch.setattr(pressure, "PATIENCE", 0.1)
    late = Work("late", lambda: time.sleep(0.5) or Counted().step)
    with Pressure([late]) as beside:
        scope = beside.scope()
        with pytest.raises(TimeoutError, match="no other work began"), scope:
            pass


def test_arrays_come_and_go_within_a_limit(monkeypatch):
    monkeypatch.setattr(pressure, "SIZES", (10, 300, 2000))
    monkeypatch.setattr(pressure, "LIMIT", 20_000)
    step = pressure.churn()
    seen = set()
    for _ in range(40):
        step()
        # Not kept here, or it would keep the arrays.
        seen.add(sum(a.nbytes for a in jax.live_arrays() if a.shape in {(10,), (300,), (2000,)}))
    assert len(seen) > 5
    assert max(seen) <= 20_000


def test_what_there_is_beside_is_on_the_device_that_is_tried(monkeypatch):
    there = loading.load("impl")
    monkeypatch.setattr(type(there), "devices", lambda _: ("cuda",))
    assert [kind.name.partition(" ")[0] for kind in pressure.kinds(there)] == [
        "allocations",
        "fills",
    ]
    monkeypatch.setattr(type(there), "can_lower", False)
    assert [kind.name.partition(" ")[0] for kind in pressure.kinds(there)] == ["fills"]
    monkeypatch.setattr(type(there), "devices", lambda _: ("cpu",))
    assert pressure.kinds(there) == []


def test_a_part_of_a_run_says_where_it_is_and_what_is_beside():
    assert (Part().where, Part().beside) == ("", "")
    with Part().pressure():
        pass
    with Pressure([Work("counting", Counted().begin)]) as beside:
        part = Part(3, beside)
        with part.pressure():
            assert (part.where, part.beside) == (" in fresh process 3", "counting")


class Library:
    """In place of the driver: it notes what it is asked for."""

    def __init__(self, refused=None):
        self.asked, self.refused, self.made = [], refused, 0

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)

        def function(*arguments):
            assert len(arguments) == len(function.argtypes)
            for argument, kind in zip(arguments, function.argtypes, strict=True):
                kind.from_param(argument)  # as ctypes converts it
            self.asked.append((name, arguments))
            if name in {"cuStreamCreate", "cuMemAlloc_v2", "cuDevicePrimaryCtxRetain"}:
                self.made += 1
                arguments[0]._obj.value = self.made * 4096
            return 2 if name == self.refused else 0

        return function


def value(argument):
    return getattr(argument, "value", argument)


def test_other_streams_of_the_driver_are_kept_busy_within_their_memory():
    library = Library()
    step = streams.busy(0, library)()
    library.asked.clear()
    step()
    names = [name for name, _ in library.asked]
    assert names[:2] == ["cuMemsetD32Async", "cuMemcpyDtoDAsync_v2"]
    assert names[-2:] == ["cuStreamSynchronize"] * 2
    fills = [arguments for name, arguments in library.asked if name == "cuMemsetD32Async"]
    copies = [arguments for name, arguments in library.asked if name == "cuMemcpyDtoDAsync_v2"]
    assert len({value(arguments[3]) for arguments in fills}) == 2
    assert len({arguments[2] for arguments in fills}) > 10
    assert all(0 < arguments[2] * 4 <= streams.BYTES for arguments in fills)
    assert [c[2] for c in copies] == [f[2] * 4 for f in fills]
    assert all(value(c[1]) != value(c[0]) for c in copies)


def test_what_the_driver_refuses_is_named():
    library = Library(refused="cuMemAlloc_v2")
    with Pressure([Work("fills", streams.busy(0, library))]) as beside, beside.scope():
        assert str(beside) == (
            "nothing; without fills (DriverError: cuMemAlloc_v2 gave the status 2)"
        )


def test_where_there_is_no_driver_that_is_said(monkeypatch):
    monkeypatch.setattr(streams, "_LIBRARY", "libno_such_driver.so")
    with Pressure([Work("fills", streams.busy(0))]) as beside, beside.scope():
        assert "without fills (OSError" in str(beside)


def test_a_handle_goes_to_the_driver_as_an_address():
    stream = ctypes.c_void_p(2**40)
    assert streams._SIGNATURES["cuStreamSynchronize"][0].from_param(stream) is stream

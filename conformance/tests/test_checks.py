"""How this implementation is tried, and each check of the suite, shown what it has to find."""

import dataclasses
import inspect

import jax
import jax.numpy as jnp
import pytest

import impl
import spec
from conformance import implementation, trial
from conformance.cells import cells
from conformance.hardware.round_context import RoundContext
from conformance.suite import test_rows, test_schedules
from impl._mode import emulation
from impl._mode.decide import Action, Alert, Decision
from impl._primitives.alert import alert


def cell(op, device, profile, sample="floating"):
    (found,) = [
        one
        for one in cells()
        if (one.op, one.direction, one.device, one.profile, one.sample.name)
        == (op, "forward", device, profile, sample)
    ]
    return found


SUMS = cell("index_add", "cpu", "complete")
RACES = cell("index_add", "cuda", "complete")
REFUSED = cell("cumsum", "cuda", "torch-2.12")
UNLISTED = cell("cumsum", "cpu", "torch-2.12")
FILLED = cell("empty_like", "cpu", "torch-2.12")


def off_by_one(op):
    return lambda *arguments, **options: op(*arguments, **options) + 1


def from_the_last_to_the_first(op):
    return lambda x, dim, index, source: op(x, dim, index[::-1], source[::-1])


def by_a_scatter(_):
    return lambda x, _, index, source: x.at[index].add(source)


def silent(_):
    return jnp.cumsum


def another_caller(_):
    def refuse(x, _):
        mode = impl._mode.modes.current()
        said = Alert("raise", "another_kernel", "R0059", mode.profile)
        return alert(x, Decision((("cuda", Action(alert=said)),))) if mode.enabled else x

    return refuse


def another_with_the_mode(op):
    def double(*arguments):
        on = impl.are_deterministic_algorithms_enabled()
        return op(*arguments) * (2 if on else 1)

    return double


def zeros(_):
    return jnp.zeros_like


def whatever_the_mode(op):
    def off(*arguments):
        with impl.deterministic(False):
            return op(*arguments)

    return off


def always_in_order(op):
    def on(*arguments):
        with impl.deterministic(profile="complete"):
            return op(*arguments)

    return on


CASES = [
    ("test_off", SUMS, off_by_one),
    ("test_bits", SUMS, off_by_one),
    ("test_bits", SUMS, from_the_last_to_the_first),
    ("test_bits", RACES, from_the_last_to_the_first),
    ("test_no_race", RACES, by_a_scatter),
    ("test_raise", REFUSED, silent),
    ("test_raise", REFUSED, another_caller),
    ("test_warn_only", REFUSED, silent),
    ("test_warn_only", REFUSED, off_by_one),
    ("test_unlisted", UNLISTED, another_with_the_mode),
    ("test_fill", FILLED, zeros),
    ("test_schedules", RACES, whatever_the_mode),
    ("test_varies", RACES, always_in_order),
]


def tried(check, of):
    """Tries a cell by a test of the suite."""
    function = getattr(test_rows, check, None) or getattr(test_schedules, check)
    given = {
        "implementation": implementation.load("impl"),
        "cell": of,
        "calls": [of],
        "round_context": RoundContext(),
        "repeats": 2,
        "record": lambda _, check, **more: {"check": check, **more},
    }
    function(**{name: given[name] for name in inspect.signature(function).parameters})


@pytest.mark.parametrize(
    ("check", "of", "breakage"), CASES, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_broken_op_fails_and_a_right_one_does_not(check, of, breakage, monkeypatch):
    if implementation.load("impl").devices()[0] != "cpu":
        pytest.skip("the CPU stands in for a GPU only where there is none")
    tried(check, of)
    # What was made of the right one is not to be taken for the other.
    monkeypatch.setattr(trial, "_made", {})
    monkeypatch.setattr(impl, of.op, breakage(getattr(impl, of.op)))
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        tried(check, of)


def test_a_row_that_races_and_never_varies_is_found():
    # Each sum is rounded once, to so few bits that the order hardly shows.
    narrow = cell("index_add", "cuda", "complete", "narrow")
    with pytest.raises(AssertionError, match="the same bits in all"):
        tried("test_varies", narrow)


def test_a_race_that_no_row_states_is_found():
    row = dataclasses.replace(RACES.row, mode_off=None)
    tried("test_race_is_stated", RACES)
    with pytest.raises(AssertionError, match="R0001 needs mode_off"):
        tried("test_race_is_stated", dataclasses.replace(RACES, row=row))


@pytest.mark.parametrize("way", trial.STAND_INS["cuda"])
def test_a_stand_in_runs_what_the_device_would(way):
    with trial.running("cuda", way):
        here = emulation.current()
    assert here is not None
    assert here.platform == "cuda"
    wanted = trial.STAND_INS["cuda"][way]
    assert {name: getattr(here, name) for name in wanted} == wanted
    assert emulation.current() is None


def test_this_implementation_is_held_to_all_that_the_spec_says():
    tried = implementation.load("impl")
    assert tried.own
    assert tried.keeps_orders
    assert tried.can_lower
    assert tried.keeps_promises
    assert min(map(tried.repeats, spec.DEVICES)) >= 2
    if jax.default_backend() == "cpu":
        assert set(tried.ways("cuda")) == set(trial.STAND_INS["cuda"])

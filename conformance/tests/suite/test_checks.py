"""Each check of the suite passes a right op and finds a broken one."""

import contextlib
import dataclasses
import inspect
from types import SimpleNamespace

import jax.numpy as jnp
import pytest

import impl
from conformance.adapters import _jax_programs, base
from conformance.suite import test_rows
from conformance.tests.suite.test_releases import cell
from impl._jax import lowering
from impl._mode.alert import alert
from impl._mode.decide import Action, Alert, Decision

SUMS = cell("index_add", "floating", "complete", "cpu")
WRITES = cell("index_copy", "floating", "complete", "cpu")
RACES = cell("index_add", "floating", "complete")
REFUSED = cell("cumsum", "floating", "torch-2.12")
UNLISTED = cell("cumsum", "floating", "torch-2.12", "cpu")
SILENT = cell("scatter", "add_floating", "torch-2.12")
WITHOUT_ROW = cell("gather", "1d", "torch-2.12", "cpu")
FILLED = cell("empty_like", "floating", "torch-2.12", "cpu")


def off_by_one(op):
    return lambda *arguments, **options: op(*arguments, **options) + 1


def from_the_last_to_the_first(op):
    return lambda x, dim, index, source: op(x, dim, index[::-1], source[::-1])


def by_a_scatter(_):
    # The mode orders JAX's own scatters, but not in functions that are lowered natively.
    add = lowering.native(lambda x, index, source: x.at[index].add(source))
    return lambda x, _, index, source: add(x, index, source)


def silent(_):
    return jnp.cumsum


def another_caller(_):
    def refuse(x, _):
        mode = impl._mode.modes.current()
        other = Alert("raise", "another_kernel", "R0059", mode.profile)
        return alert(x, Decision((("cuda", Action(alert=other)),))) if mode.enabled else x

    return refuse


def another_with_the_mode(op):
    def double(*arguments):
        on = impl.are_deterministic_algorithms_enabled()
        return op(*arguments) * (2 if on else 1)

    return double


#: Scopes are decorators.
mode_off = impl.deterministic(False)
always_in_order = impl.deterministic(profile="complete")


def as_the_profile_lists(op):
    def call(*arguments, **options):
        own = impl.get_deterministic_profile() == "complete"
        with impl.deterministic(impl.are_deterministic_algorithms_enabled() and own):
            return op(*arguments, **options)

    return call


CASES = [
    ("test_off", SUMS, off_by_one),
    ("test_bits", SUMS, off_by_one),
    ("test_bits", WRITES, from_the_last_to_the_first),
    ("test_bits_under_portable", SUMS, off_by_one),
    ("test_bits", RACES, off_by_one),
    ("test_no_race", RACES, by_a_scatter),
    ("test_raise", REFUSED, silent),
    ("test_raise", REFUSED, another_caller),
    ("test_warn_only", REFUSED, silent),
    ("test_warn_only", REFUSED, off_by_one),
    ("test_unlisted", UNLISTED, as_the_profile_lists),
    ("test_unlisted", WITHOUT_ROW, another_with_the_mode),
    ("test_no_silent_race", RACES, mode_off),
    ("test_no_silent_race", SILENT, as_the_profile_lists),
    ("test_fill", FILLED, lambda _: jnp.zeros_like),
    ("test_schedules", RACES, mode_off),
    ("test_varies", RACES, always_in_order),
]


def check_cell(check, of):
    """Tests a cell by a test of the suite."""
    function = getattr(test_rows, check)
    fixtures = {
        "implementation": base.load("impl"),
        "pytestconfig": SimpleNamespace(getoption=lambda _: None),
        "cell": of,
        "portable_cell": of,
        "calls": [of],
        "under_profiles": [of],
        "under_load": lambda: contextlib.nullcontext(""),
        "repeats": 2,
        "record": lambda _, check, **fields: {"check": check, **fields},
    }
    function(**{name: fixtures[name] for name in inspect.signature(function).parameters})


@pytest.mark.parametrize(
    ("check", "of", "breakage"), CASES, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_broken_op_fails_and_a_right_one_does_not(check, of, breakage, monkeypatch):
    if base.load("impl").devices()[0] != "cpu":
        pytest.skip("the CPU stands in for a GPU only where there is none")
    check_cell(check, of)
    # The programs of the right op must not serve the broken one.
    monkeypatch.setattr(_jax_programs, "_results", {})
    monkeypatch.setattr(impl, of.op, breakage(getattr(impl, of.op)))
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_cell(check, of)


def test_stand_ins_run_again_what_the_mode_changes_alone():
    scan = cell("cumprod", "floating", "complete")
    asked = [
        test_rows._is_unchanged(base.load("impl"), c) for c in (scan, RACES, SUMS, WITHOUT_ROW)
    ]
    assert asked == [True, False, False, False]


def test_a_row_that_races_and_never_varies_is_found():
    # Each sum is rounded once, to so few bits that the order hardly shows.
    narrow = cell("index_add", "narrow", "complete")
    with pytest.raises(AssertionError, match="the same bits in all"):
        check_cell("test_varies", narrow)


def test_a_race_that_no_row_states_is_found():
    row = dataclasses.replace(RACES.row, mode_off=None)
    answer = dataclasses.replace(RACES.answer, row=row)
    check_cell("test_race_is_stated", RACES)
    with pytest.raises(AssertionError, match="R0001 needs mode_off"):
        check_cell("test_race_is_stated", dataclasses.replace(RACES, answer=answer))


def test_one_value_may_be_written_several_times():
    check_cell("test_no_silent_race", cell("scatter", "write_number", "torch-2.12"))

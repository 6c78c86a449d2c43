"""The rounds of loops of optimised programs."""

import pytest

from conformance.lab.compiled import hlo_loops, hlo_program
from conformance.lab.compiled.hlo_loops import Rounds
from conformance.tests.lab.compiled.programs import LOOP


def rounds(text):
    program = hlo_program.parse(text)
    return hlo_loops.rounds(program, "main", program.instruction("main", "loop"))


def test_a_stated_number_counts():
    stated = '"known_trip_count":{"n":"5"}'
    text = LOOP.replace("body=%body,", f"body=%body, backend_config={{{stated}}},")
    assert rounds(text) == Rounds(5, is_exact=True)


@pytest.mark.parametrize(
    ("old", "new", "count"),
    [
        ("", "", 20),
        ("direction=LT", "direction=LE", 21),
        ("%zero = s32[] constant(0)", "%zero = s32[] constant(3)", 17),
        ("%one = s32[] constant(1)", "%one = s32[] constant(7)", 3),
        ("compare(%p, %limit), direction=LT", "compare(%limit, %p), direction=GT", 20),
    ],
)
def test_a_counter_below_a_constant_bounds_a_loop(old, new, count):
    assert rounds(LOOP.replace(old, new)) == Rounds(count, is_exact=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("and(%less, %far)", "or(%less, %far)"),
        ("direction=LT", "direction=NE"),
        ("%one = s32[] constant(1)", "%one = s32[] constant(0)"),
        ("add(%p, %one)", "multiply(%p, %one)"),
        ("%start = s32[] copy(%zero)", "%start = s32[] convert(%e)"),
    ],
)
def test_another_loop_is_unbounded(old, new):
    assert rounds(LOOP.replace(old, new)) == Rounds(None, is_exact=False)


def test_a_limit_that_no_round_changes_bounds_a_loop():
    text = LOOP.replace("(s32[], f32[8]{0}, f32[])", "(s32[], f32[8]{0}, s32[])")
    text = text.replace("%limit = s32[] constant(20)", "%limit = s32[] copy(%q)")
    text = text.replace("%e = f32[] parameter(1)", "%e = s32[] constant(9)")
    assert rounds(text) == Rounds(9, is_exact=False)

"""Each answer of the site against the decisions of ``impl``, cell by cell."""

import collections
import itertools
from collections.abc import Iterator
from typing import get_args

import jax
import pytest

import answers
import impl
import spec
from impl._mode.decide import Action, decide
from impl._portable import classes
from impl._reading import compiled
from impl._reading.source import Lines
from impl.programs._auditing.judge import Judge

SPEC = spec.load()
CELLS = list(answers.every())
#: The words for a path whose bits repeat.
PATHS = ("deterministic", "ordered under complete", "same bits anyway")


def actions(cell: answers.Cell) -> Iterator[Action]:
    """Yields the actions of ``impl`` in the calls of a cell, on each platform of its device."""
    mode = impl.deterministic(
        cell.guarantee is not None, profile=cell.profile, guarantee=cell.guarantee
    )
    with mode:
        for facts in cell.calls:
            decision = decide(cell.op, cell.direction, **facts)
            yield from map(decision.on, SPEC.devices[cell.device].platforms)


def is_free(row: spec.Row, facts: spec.Facts) -> bool:
    """Returns whether a call gives the same bits in every order."""
    free = SPEC.orders[row.order].order_free_when if row.order else ()
    return any(set(when) <= set(facts) and spec.holds(when, facts) for when in free)


def word(action: Action, cell: answers.Cell) -> set[str]:
    """Returns the words that are right for an action with the mode on."""
    if action.alert is not None:
        return {"raises"}
    if action.fill:
        return {"fills"}
    row = SPEC.row(action.row) if action.row else None
    if row is None and cell.calls[0].get("fill_uninitialized_memory") is False:
        return {"may vary"}
    if cell.guarantee == "portable":
        known = row is not None and row.guarantee == "portable"
        return {"exact everywhere"} if known else {"JAX's rules"}
    races = SPEC.devices[cell.device].races and row is not None and row.mode_off is not None
    free = row is not None and all(is_free(row, facts) for facts in cell.calls)
    if row is None or free or cell.profile is None:
        return {"same bits anyway"}
    decider = SPEC.decider(cell.device, cell.profile)
    listed = row.behaviour[cell.profile] is not None and row.covers(decider)
    if not races:
        of_torch = listed and SPEC.profiles[cell.profile].release
        return {"deterministic"} if of_torch else {"same bits anyway"}
    return {"deterministic"} if listed else {"ordered under complete"}


@pytest.mark.parametrize("op", answers.ops())
def test_each_cell_of_an_op_is_what_the_library_decides(op: str) -> None:
    for cell in answers.of_op(op):
        found = list(actions(cell))
        assert found, cell
        if cell.guarantee is answers.OFF:
            assert set(found) == {Action()}, cell
            continue
        assert {action.row for action in found} == {cell.row}, cell
        assert {cell.word} == set().union(*(word(action, cell) for action in found)), cell


@pytest.mark.parametrize("op", answers.ops())
def test_what_may_vary_with_the_mode_off_is_ordered_or_filled_under_complete(op: str) -> None:
    for cell in answers.of_op(op):
        if cell.guarantee is not answers.OFF:
            continue
        with impl.deterministic(True, profile=SPEC.own_profile, guarantee="run_to_run"):
            for facts in cell.calls:
                platform = SPEC.devices[cell.device].platforms[0]
                action = decide(cell.op, cell.direction, **facts).on(platform)
                varies = action.fill or (action.row is None and "fill" in str(facts))
                row = SPEC.row(action.row) if action.row else None
                if row is not None and row.mode_off and SPEC.devices[cell.device].races:
                    varies = varies or not is_free(row, facts)
                assert (cell.word == "may vary") == varies, cell


def test_the_sentence_of_a_refusal_names_the_caller_of_the_alert() -> None:
    cells = [cell for cell in CELLS if cell.kind == "op" and cell.word == "raises"]
    assert cells
    for cell in cells:
        alerts = {action.alert.caller for action in actions(cell) if action.alert}
        assert [caller for caller in alerts if f"`{caller}`" not in cell.sentence] == []


def instruction(cell: answers.Cell, facts: spec.Facts) -> compiled.Instruction:
    """Returns an instruction of a compiled program with some facts."""
    return compiled.Instruction(cell.primitives[0], facts, Lines(None, None), "")


def test_each_cell_of_a_primitive_without_the_mode_is_the_verdict_of_the_audit() -> None:
    words = {None: "same bits anyway", "varies": "may vary", "unknown": "unknown"}
    cells = [c for c in CELLS if c.kind == "primitive" and c.guarantee is answers.OFF]
    assert cells
    for cell in cells:
        judge = Judge(cell.device, impl._mode.modes.Mode(), True)
        for facts in cell.calls:
            finding = judge.of_instruction(instruction(cell, facts))
            assert cell.word == words[finding.verdict if finding else None], (cell, facts)
            assert finding is None or finding.row == cell.row


def path(cell: answers.Cell, facts: spec.Facts) -> str:
    """Returns the word for what the lowering rule of ``impl`` does with an equation."""
    answer = spec.resolve_primitive(cell.primitives[0], cell.device, facts)
    try:
        rules, mode = impl._run_to_run.rules, impl._mode.modes.current()
        taken = rules._path(answer, mode, None, unique=False)
    except RuntimeError:
        return "raises"
    return "same bits anyway" if taken.row is None else "deterministic"


def test_each_cell_of_a_primitive_with_the_mode_is_what_its_rule_does() -> None:
    replaced = {p.name for p in impl._core.ordered_primitives.PRIMITIVES}
    cells = [c for c in CELLS if c.kind == "primitive" and c.guarantee == "run_to_run"]
    ruled = [cell for cell in cells if replaced & set(cell.primitives)]
    assert ruled
    with impl.deterministic(True):
        for cell in ruled:
            assert {path(cell, facts) for facts in cell.calls} == {cell.word}, cell
    # No rule changes the other primitives: the audit answers as it does without the mode.
    off = {
        (c.row, c.device): c.word
        for c in CELLS
        if c.kind == "primitive" and c.guarantee is answers.OFF
    }
    others = [cell for cell in cells if cell not in ruled]
    assert others
    assert [cell for cell in others if cell.word != off[cell.row, cell.device]] == []


def test_each_cell_of_a_primitive_under_portable_is_the_class_of_its_rule() -> None:
    for primitive in answers.primitives():
        cells = [c for c in answers.of_primitive(primitive) if c.guarantee == "portable"]
        assert {cell.device for cell in cells} == set(spec.DEVICES)
        pairs = [(each.device, name) for each in cells for name in each.primitives]
        for device, name in pairs:
            others = [c for c in cells if c.device == device and name in c.primitives]
            kinds = ("float32", "complex64")
            found = {classes.class_of(name, [jax.ShapeDtypeStruct((), kind)]) for kind in kinds}
            right = {
                "refused" if each and each.answer == "refused" else "exact everywhere"
                for each in found
            }
            assert {other.word for other in others} <= right


def test_every_row_about_a_function_or_a_primitive_decides_a_cell() -> None:
    rows = {row.id for row in (*SPEC.select(kind="op", active=True), *SPEC.primitives)}
    assert rows - {cell.row for cell in CELLS} == set()


def test_a_cell_stands_once() -> None:
    names = ("op", "direction", "device", "condition", "profile", "guarantee", "primitives")
    keys = collections.Counter(tuple(getattr(cell, name) for name in names) for cell in CELLS)
    assert [key for key, number in keys.items() if number > 1] == []


def test_no_cell_is_about_a_direction_without_rows_or_a_device_without_a_platform() -> None:
    for cell in CELLS:
        assert cell.device in spec.DEVICES
    for op, direction in itertools.product(answers.ops(), get_args(spec.Direction)):
        rows = [row for row in SPEC.select(op=op, active=True) if row.decides(direction)]
        assert bool(rows) or not any(c.direction == direction for c in answers.of_op(op))


def test_every_word_has_a_meaning_and_is_in_use() -> None:
    assert set(answers.WORDS) == set(get_args(answers.Word)) == {cell.word for cell in CELLS}
    assert all(cell.sentence.endswith(".") for cell in CELLS)

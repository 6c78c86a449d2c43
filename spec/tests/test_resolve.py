"""The row that decides a call under a profile, and the effect of the mode on the call."""

import collections
import dataclasses
from typing import Any

import pytest

import spec
from spec import english
from spec.resolve import answers_of, cases

RULES = spec.load()
TRANSCRIBED = [profile.name for profile in RULES.profiles.values() if profile.release]
FLOATING: dict[str, Any] = {"dtype": "floating"}
FILLED: dict[str, Any] = {"fill_uninitialized_memory": True}
UNFILLED: dict[str, Any] = {"fill_uninitialized_memory": False}


@pytest.mark.parametrize(
    ("op", "direction", "device", "facts", "profile", "effect", "row"),
    [
        ("cumsum", "forward", "cuda", FLOATING, "torch-2.12", "raises", "R0059"),
        ("cumsum", "forward", "cuda", FLOATING, "torch-2.15", "ordered", "R0059"),
        ("cumsum", "forward", "cuda", FLOATING, "complete", "ordered", "R0060"),
        ("cumsum", "backward", "cuda", FLOATING, "torch-1.10", "same", "R0060"),
        ("cumsum", "forward", "cpu", FLOATING, "torch-2.12", "same", "R0060"),
        ("take", "backward", "any", {}, "torch-2.12", "ordered_unlisted", "R0183"),
        ("take", "backward", "cuda", {}, "torch-2.12", "ordered_unlisted", "R0183"),
        ("empty", "forward", "cuda", FILLED, "torch-1.10", "fills", "R0070"),
        ("empty", "forward", "cpu", UNFILLED, "complete", "unknown", None),
        ("gather", "forward", "cuda", {}, "torch-2.12", "same", None),
        ("bincount", "backward", "cpu", {}, "complete", "same", None),
        ("bincount", "backward", "any", {}, "complete", "unknown", None),
        ("cumsum", "forward", "tpu", FLOATING, "torch-2.12", "same", "R0060"),
        ("index_add", "forward", "tpu", {}, "torch-2.12", "ordered_unlisted", "R0001"),
        ("index_add", "forward", "tpu", {}, "complete", "ordered", "R0001"),
        ("bincount", "backward", "tpu", {}, "complete", "same", None),
        ("no_such_op", "forward", "cuda", {}, "torch-2.12", "unknown", None),
    ],
)
def test_effect(op, direction, device, facts, profile, effect, row):
    answer = spec.resolve(op, direction, device, facts, profile)
    assert (answer.effect, answer.row and answer.row.id) == (effect, row)
    if answer.effect in ("raises", "unknown"):
        assert answer.guarantee is answer.order is None


def test_what_is_ordered_has_the_guarantee_and_the_order_of_its_row():
    answer = spec.resolve("sort", "forward", "cuda", {}, "torch-1.10")
    assert not answer.listed
    assert (answer.guarantee, answer.order) == ("portable", "stable_sort")


@pytest.mark.parametrize("profile", TRANSCRIBED)
def test_a_profile_changes_only_what_it_lists(profile):
    seen: collections.Counter[str] = collections.Counter()
    for op in sorted({row.op for row in RULES.select(kind="op", active=True)}):
        for device in spec.DEVICES:
            for case in cases(op, "backward", device, profile):
                for facts in case.calls:
                    ours = spec.resolve(op, "backward", device, facts, "complete")
                    seen[case.answer.effect] += 1
                    if not case.answer.listed:
                        assert case.answer.row == ours.row
                        assert case.answer.behaviour == ours.behaviour
                    assert case.answer.guarantee != "not_guaranteed"
    assert {"raises", "ordered_unlisted", "same"} <= set(seen)


def test_a_device_that_no_row_names_has_the_ordered_paths_of_another_one():
    assert RULES.decider("tpu", "torch-2.12") == "tpu"
    assert RULES.decider("tpu", "complete") == "cuda"
    for op in sorted({row.op for row in RULES.select(kind="op", active=True)}):
        for case in cases(op, "forward", "tpu", "complete"):
            for facts in case.calls:
                assert case.answer == spec.resolve(op, "forward", "cuda", facts, "complete")


def test_our_own_profile_leaves_nothing_that_varies():
    for row in RULES.select(kind="op", active=True):
        effects = {answer.effect for answer in answers_of(row, "complete")}
        assert effects <= {"ordered", "fills", "same"}, row.id


def test_the_answers_of_a_row_that_another_row_decides():
    (answer,) = answers_of(RULES.row("R0059"), "complete")
    assert answer.row is not None
    assert answer.row.id == "R0060"


def test_a_spec_without_a_profile_of_its_own_has_no_fallback():
    profiles = {name: RULES.profiles[name] for name in TRANSCRIBED}
    rules = dataclasses.replace(RULES, profiles=profiles)
    assert rules.own_profile is None
    answer = spec.resolve("cumsum", "forward", "cuda", FLOATING, "torch-1.10", rules)
    assert answer.row is None


def test_every_effect_has_words():
    assert set(english.EFFECTS) == set(spec.EFFECTS)


@pytest.mark.parametrize(
    ("op", "direction", "names", "message"),
    [
        ("cumsm", "forward", (), "'cumsm'; close to it: cumsum, cummin, cummax"),
        ("pad", "backward", (), "'pad'; close to it: nn.functional.pad"),
        ("xyzzy", "forward", (), "'xyzzy'; python -m spec export lists the ops"),
        ("bincount", "backward", (), r"bincount \(backward\); the rows are about \['forward'\]"),
        ("put", "forward", ("acumulate",), r"\['acumulate'\] of put; .*'accumulate', 'dtype'"),
    ],
)
def test_a_question_that_no_row_can_answer_is_refused(op, direction, names, message):
    with pytest.raises(spec.SpecError, match=message):
        spec.check_question(op, direction, names)


def test_a_question_may_state_what_rows_errata_and_orders_ask_for():
    spec.check_question("put", "forward", ("accumulate", "dtype", "input_ndim", "unique_indices"))
    spec.check_question("nn.functional.nll_loss", "forward", ("reduction",))

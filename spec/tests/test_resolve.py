"""The row that decides a call or a question, its sentence, the calls, and the defaults of a row."""

import collections
import dataclasses
import itertools
import tomllib
from typing import Any

import pytest

import spec
from spec import english
from spec.calls import distinct_calls, named_values
from spec.defaults import completed
from spec.english import behaviour_of_code, condition, phrase
from spec.loader import ROOT, read_table, row_tables
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


def test_an_answer_has_the_guarantee_and_the_order_of_the_row_that_decides():
    answer = spec.resolve("sort", "forward", "cuda", {}, "torch-1.10")
    assert not answer.listed
    assert (answer.guarantee, answer.order) == ("portable", "stable_sort")
    (answer,) = answers_of(RULES.row("R0059"), "complete")
    assert answer.row is not None
    assert answer.row.id == "R0060"
    profiles = {name: RULES.profiles[name] for name in TRANSCRIBED}
    without_own = dataclasses.replace(RULES, profiles=profiles)
    assert without_own.own_profile is None
    answer = spec.resolve("cumsum", "forward", "cuda", FLOATING, "torch-1.10", without_own)
    assert answer.row is None


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
    # A question may state what rows, errata and orders ask for.
    spec.check_question("put", "forward", ("accumulate", "dtype", "input_ndim", "unique_indices"))
    spec.check_question("nn.functional.nll_loss", "forward", ("reduction",))


@pytest.mark.parametrize(
    ("when", "device", "direction", "english"),
    [
        ({}, "any", "forward", "on every device"),
        ({}, "cuda", "forward", "when called on a CUDA array"),
        ({}, "cpu", "backward", "when differentiating a CPU array"),
        ({}, "mps", "backward", "when differentiating an MPS array"),
        ({}, "any", "backward", "when differentiating it"),
        ({"weights": True}, "any", "forward", "on every device when `weights` is given"),
        (
            {"mode": "area", "weights": True},
            "cuda",
            "forward",
            "when called on a CUDA array and `mode` is `'area'` and `weights` is given",
        ),
    ],
)
def test_condition(when, device, direction, english):
    assert condition(when, RULES.devices.get(device), direction, RULES.facts) == english


@pytest.mark.parametrize(
    ("name", "test", "english"),
    [
        ("reduce", "prod", "`reduce` is `'prod'`"),
        ("reduce", ("sum", "mean"), "`reduce` is `'sum'` or `'mean'`"),
        ("reduce", ("sum", "mean", "prod"), "`reduce` is `'sum'`, `'mean'` or `'prod'`"),
        ("reduce", {"not": ("sum", "mean")}, "`reduce` is not `'sum'` or `'mean'`"),
        ("dtype", ("floating", "complex"), "the dtype is floating or complex"),
        ("dtype", {"not": ("bool",)}, "the dtype is not bool"),
        ("spatial_ndim", 3, "`input` has 3 spatial dimensions"),
        ("spatial_ndim", 1, "`input` has 1 spatial dimension"),
        ("input_ndim", {"max": 1}, "`input` has at most 1 dimension"),
    ],
)
def test_phrase(name, test, english):
    assert phrase(RULES.facts[name], test) == english


def test_every_row_and_erratum_reads_without_a_gap():
    for row in RULES.rows:
        errata = [erratum.when for erratum in row.errata]
        phrases = [
            phrase(RULES.facts[name], test) for when in errata for name, test in when.items()
        ]
        assert not [text for text in [row.condition, *phrases] if "{" in text or not text]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            "R0137",
            "since 1.7 or before, up to 2.9: raises, when the left operand is dense; otherwise",
        ),
        ("R0183", "since 2.6 or before: raises as `put_` on a CUDA device."),
        ("R0070", "since 2.13 or before: not affected by the mode, when the dtype is a quantized"),
        ("R0059", "since 2.6: deterministic."),
    ],
)
def test_an_erratum_states_the_releases_and_the_calls(row, sentence):
    (erratum,) = RULES.row(row).errata
    text = behaviour_of_code(erratum, RULES.facts, RULES.devices)
    assert text.startswith(f"PyTorch's code {sentence}")


PROFILES = read_table(ROOT, "profiles.toml")
DEVICES = read_table(ROOT, "devices.toml")
OWN = {"document": "profiles", "releases": ["complete"], "phrase": "Every op is deterministic"}


def complete(text):
    return completed(tomllib.loads(text), PROFILES, DEVICES)


def test_a_row_of_our_own_profile_alone_cites_its_statement():
    own = 'op = "a"\nbehaviour = { complete = "deterministic" }\n'
    assert complete(own)["source"] == [OWN]
    notes = {"document": "notes", "releases": ["2.12"], "phrase": "A phrase"}
    cited = '[[source]]\ndocument = "notes"\nreleases = ["2.12"]\nphrase = "A phrase"'
    assert complete(own + cited)["source"] == [OWN, notes]
    assert PROFILES["complete"]["statement"].startswith(f"{OWN['phrase']}.")
    of_torch = '{ "torch-2.12" = "raise", complete = "deterministic" }'
    for behaviour in (of_torch, '{ no_profile = "raise" }', "1"):
        assert "source" not in complete(f'op = "a"\nbehaviour = {behaviour}')


def test_the_name_in_pytorch_and_the_scope_follow_from_the_op_and_the_device():
    assert complete('op = "sparse.mm"')["torch"] == "torch.sparse.mm"
    assert complete('op = "put"\ntorch = "torch.Tensor.put_"')["torch"] == "torch.Tensor.put_"
    row = complete('device = "mps"')
    assert row["state"] == "out_of_scope"
    assert row["reason"] == spec.load().devices["mps"].reason
    assert complete('device = "cuda"') == {"device": "cuda"}
    assert complete('device = "any"') == {"device": "any"}


@pytest.mark.parametrize("text", ["op = 1", "device = []", "source = 1", "behaviour = [1]"])
def test_a_malformed_row_stays_as_it_is(text):
    assert complete(text) == tomllib.loads(text)


def test_no_row_repeats_a_default():
    for _, row in row_tables(ROOT):
        for key in ("torch", "state", "reason"):
            less = {name: value for name, value in row.items() if name != key}
            assert key not in row or completed(less, PROFILES, DEVICES).get(key) != row[key]
        assert OWN not in row.get("source", [])


def test_every_combination_of_values_on_both_sides_of_a_test_is_a_call():
    def calls(op):
        rows = [row for row in RULES.rows if row.op == op and row.direction == "forward"]
        return list(distinct_calls(rows, RULES.facts))

    assert [call["input_ndim"] for call in calls("scatter_add")] == [0, 1, 2, 3]
    of_bmm = [(call["sparse"], call["cublas_workspace_config"]) for call in calls("bmm")]
    assert of_bmm == [*itertools.product((False, True), ("", ":16:8", ":4096:8"))]
    assert named_values({"min": 2, "not": (3, 4)}) == [2, 3, 4]

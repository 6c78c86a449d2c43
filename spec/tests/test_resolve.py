"""The row that decides a call, an equation or a question; its sentence; the defaults of a row.

The answers under the guarantee portable, and the engines.
"""

import collections
import dataclasses
import itertools
import tomllib
from typing import Any

import pytest

import spec
from spec import english
from spec.conditions import distinct_calls, named_values
from spec.engines import engine_of, engines, of_several
from spec.english import behaviour_of_code, condition, phrase
from spec.loader import ROOT, completed, read_table, row_tables
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


def test_every_effect_row_and_erratum_reads_without_a_gap():
    assert set(english.EFFECTS) == set(spec.EFFECTS)
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


RACES = {
    "ordered_path_fits": True,
    "dtype": "floating",
    "unique_indices": False,
    "one_update": False,
    "iota_indices": False,
}
ASSIGNS = {**RACES, "same_value": False, "applies_function": False}


@pytest.mark.parametrize(
    ("primitive", "device", "facts", "effect", "order"),
    [
        ("scatter-add", "cuda", RACES, "ordered", "source"),
        ("scatter-add", "cpu", RACES, "same", None),
        ("scatter-add", "cpu", {**RACES, "ordered_path_fits": False}, "same", None),
        ("scatter-add", "any", RACES, "ordered", "source"),
        ("scatter-sub", "cuda", {**RACES, "unique_indices": True}, "same", None),
        ("scatter-add", "cuda", {**RACES, "dtype": "integer"}, "same", None),
        ("scatter-mul", "cuda", {**RACES, "dtype": "complex"}, "raises", None),
        ("scatter-mul", "cuda", {**RACES, "dtype": "complex", "one_update": True}, "same", None),
        ("scatter", "cuda", ASSIGNS, "ordered", "last_write"),
        ("scatter", "cuda", {**ASSIGNS, "same_value": True}, "same", None),
        ("reduce_sum", "cuda", {}, "same", None),
        ("dot_general", "cuda", {"timed_kernels": True}, "unknown", None),
        ("dot_general", "cpu", {"timed_kernels": True}, "same", None),
        ("svd", "cuda", {}, "unknown", None),
        ("somebody_elses", "cuda", {}, "unknown", None),
    ],
)
def test_the_effect_on_an_equation(primitive, device, facts, effect, order):
    answer = spec.resolve_primitive(primitive, device, facts)
    assert (answer.effect, answer.order) == (effect, order)
    if answer.row is not None:
        assert spec.resolve(answer.row.op, "forward", device, facts, "torch-1.10") == answer
    if effect in ("ordered", "raises") or (effect == "unknown" and answer.row):
        assert answer.remedy


def test_a_row_that_names_the_device_is_the_path_there():
    facts = {**RACES, "unique_indices": True}
    on_cpu = spec.resolve_primitive("scatter-add", "cpu", facts)
    anywhere = spec.resolve_primitive("scatter-add", "any", facts)
    assert (on_cpu.row.device, on_cpu.guarantee) == ("cpu", "run_to_run")
    assert (anywhere.row.device, anywhere.guarantee) == ("any", "portable")


@pytest.mark.parametrize(
    ("primitive", "dtypes", "answer", "name"),
    [
        ("reshape", {"float32"}, "exact", "moves"),
        ("reshape", {"complex64"}, "exact", "moves"),
        ("add", {"float32"}, "rule", "operations"),
        ("add", {"int32", "bool"}, None, None),
        ("add", {"complex64"}, "rule", "complex_numbers"),
        ("add", {"complex128"}, "refused", ""),
        ("tanh", {"float64"}, "rule", "functions"),
        ("tanh", {"bfloat16"}, "rule", "functions"),
        ("pow", {"float32"}, "rule", "powers"),
        ("convert_element_type", {"int32", "float8_e4m3fn"}, "refused", ""),
        ("fft", {"float32", "complex64"}, "rule", "transforms"),
        ("eig", {"float32"}, "refused", "decompositions"),
        ("rng_bit_generator", {"uint32"}, "refused", "bits_of_a_device"),
        ("somebody_elses", {"float32"}, "refused", ""),
        ("somebody_elses", {"int32"}, None, None),
    ],
)
def test_the_class_of_an_equation(primitive, dtypes, answer, name):
    found = spec.portability(primitive, dtypes)
    if found is None:
        assert answer is None
        return
    assert (found.answer, found.name) == (answer, name)
    refuses = answer == "refused" or bool(found.limits)
    assert bool(found.reason) == bool(found.remedy) == refuses


def test_a_refusal_names_the_dtype_and_the_limit():
    assert "at most 65536" in RULES.portable["transforms"].reason
    assert "complex128" in spec.portability("add", {"complex128", "float32"}).reason
    assert "float32" not in spec.portability("add", {"complex128", "float32"}).reason
    assert "imaginary" in spec.portability("sin", {"complex64"}).remedy


def test_a_hint_is_about_a_library_and_its_primitives():
    (hint,) = RULES.hints
    (primitive,) = hint.primitives
    assert RULES.hint(primitive, hint.library) == hint.remedy
    assert RULES.hint(primitive, "another") is RULES.hint("sin", hint.library) is None
    assert RULES.hint(primitive, None) is None


def test_a_row_about_a_primitive_has_its_classes():
    def names(id):
        return [found.name for found in spec.portable_classes(RULES.row(id))]

    assert names("R0400") == names("R0515") == ["sums"]
    assert names("R0498") == ["sums", "asynchronous_sums"]
    assert names("R0486") == ["rotations"]


def test_the_answer_of_a_row_follows_from_its_guarantee():
    answers = {
        id: spec.portable_answer(RULES.row(id)) for id in ("R0158", "R0138", "R0070", "R0024")
    }
    assert answers == {"R0158": "exact", "R0138": "rule", "R0070": "exact", "R0024": None}


def test_each_platform_and_capability_has_one_engine():
    for field in ("platforms", "capabilities", "kinds"):
        named = [each for engine in engines().values() for each in getattr(engine, field)]
        assert len(named) == len(set(named))


@pytest.mark.parametrize(
    ("platform", "known", "name"),
    [
        ("cpu", {}, "float64"),
        ("cuda", {}, "float64"),
        ("cuda", {"capability": "9.0"}, "float64"),
        ("cuda", {"capability": "8.9"}, "int8"),
        ("cuda", {"kind": "NVIDIA L40S"}, "int8"),
        ("rocm", {"capability": "8.9"}, "float64"),
        ("tpu", {}, "integers"),
        ("another", {}, "float64"),
    ],
)
def test_the_engine_of_a_device(platform, known, name):
    assert engine_of(platform, **known) == name


def test_several_devices_have_the_engine_that_all_can_run():
    assert of_several(frozenset({"float64"})) == "float64"
    assert of_several(frozenset({"float64", "native"})) == "float64"
    assert of_several(frozenset({"integers", "float64", "int8"})) == "integers"

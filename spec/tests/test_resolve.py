"""The row that decides a call, an equation or a question, and the calls that rows tell apart."""

import ast
import collections
import dataclasses
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import spec
from spec import english
from spec.calls import distinct_calls, named_values
from spec.defaults import completed
from spec.loader import ROOT, read_table, row_tables
from spec.resolve import answers_of, cases
from spec.tests import reader
from spec.tests.reader import deciding

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


RESIZED = {"mode": "bilinear", "antialias": True}


def by_id(data):
    return {row["id"]: row for row in data["rows"]}


def releases(row, document):
    """Returns the releases of a document that a row cites."""
    return [r for s in row["source"] if s["document"] == document for r in s["releases"]]


def behaviour_on_cuda(data):
    """Answers what index_add does on a GPU under torch-2.12, and its guarantee."""
    row = deciding(data, "index_add", "forward", "cuda", {}, "torch-2.12")
    return row["id"], row["behaviour"]["torch-2.12"], row["guarantee"]


def raising_ops(data):
    """Answers: which ops raise on a GPU under torch-2.15, and by which name?"""
    return {
        (row["op"], row["caller"].get("torch-2.15"))
        for row in data["rows"]
        if row["behaviour"]["torch-2.15"] == "raise" and row["device"] in ("any", "cuda")
    }


def order_of_a_sort(data):
    """Answers: by which rule does sort order elements?"""
    row = deciding(data, "sort", "forward", "cpu", {}, "complete")
    order = data["orders"][row["order"]]
    return order["title"], order["statement"], order["guarantees"]


def documents_that_list_it(data):
    """Answers: which document lists index_add, in which releases, and at which addresses?"""
    row = deciding(data, "index_add", "forward", "cuda", {}, "torch-1.10")
    url = data["documents"]["list"]["url"]
    listed = releases(row, "list")
    return listed, [url.replace("{release}", release) for release in listed]


def errors_of_the_documents(data):
    """Answers: where do PyTorch's documents differ from its code, and since when?"""
    return {row["op"]: erratum["since"] for row in data["rows"] for erratum in row["errata"]}


def portable_ops(data):
    """Answers: which ops have the same bits on a CPU and on a GPU?"""
    active = [row for row in data["rows"] if row["state"] == "active" and row["kind"] == "op"]
    weaker = {row["op"] for row in active if row["guarantee"] != "portable"}
    return {row["op"] for row in active} - weaker


def row_that_goes_first(data):
    """Answers: two rows match the gradient of a resized image. Which one decides?"""
    rows = by_id(data)
    decided = deciding(data, "nn.functional.interpolate", "backward", "cuda", RESIZED, "complete")[
        "id"
    ]
    return decided, [id for id in ("R0106", "R0111") if decided in rows[id]["yields_to"]]


def filled_memory(data):
    """Answers: which function fills fresh memory, and which setting turns that off?"""
    row = deciding(data, "empty", "forward", "cpu", {"fill_uninitialized_memory": True}, "complete")
    off = deciding(
        data, "empty", "forward", "cpu", {"fill_uninitialized_memory": False}, "complete"
    )
    facts = [data["facts"][name]["about"] for name in row["when"]]
    return row["behaviour"]["complete"], off and off["behaviour"]["complete"], facts


def licence_and_version(data):
    """Answers: may I use the data, of which version are they, and what describes them?"""
    meta = data["meta"]
    return meta["licence"], len(meta["version"].split(".")), meta["schema"]["id"]


def default_and_its_release(data):
    """Answers: which profile holds if I choose none, and which release does it transcribe?"""
    (default,) = [name for name, profile in data["profiles"].items() if profile["default"]]
    return default, data["profiles"][default]["release"]


@pytest.fixture(scope="module")
def data():
    from spec import export, load  # noqa: PLC0415  # to write the document; no answer needs them

    return json.loads(export.as_json(load()))


def test_the_reader_imports_nothing():
    tree = ast.parse(Path(reader.__file__).read_text(encoding="utf-8"))
    assert not [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def test_what_an_op_does_on_a_device_under_a_profile(data):
    assert behaviour_on_cuda(data) == ("R0001", "deterministic", "run_to_run")


def test_which_ops_raise_under_a_profile(data):
    raising = raising_ops(data)
    assert {("bincount", "_bincount_cuda"), ("put", "put_")} <= raising
    assert "index_add" not in {op for op, _ in raising}


def test_the_order_of_an_op_and_its_sentence(data):
    title, statement, guarantees = order_of_a_sort(data)
    assert title == "Stable sort"
    assert statement.startswith("Elements are sorted by value.")
    assert "portable" in guarantees


def test_the_document_that_lists_an_op_and_its_releases(data):
    listed, addresses = documents_that_list_it(data)
    assert listed == ["1.10", "2.12", "2.15"]
    assert addresses[0].startswith("https://docs.pytorch.org/docs/1.10/")


def test_the_errata(data):
    errata = errors_of_the_documents(data)
    assert errata["cumsum"] == "2.6"
    assert "gather" not in errata


def test_the_portable_ops(data):
    portable = portable_ops(data)
    assert {"index_copy", "sort"} <= portable
    assert not {"index_add", "cumsum", "mm", "nn.functional.conv2d"} & portable


def test_the_precedence_of_two_rows_that_match(data):
    assert row_that_goes_first(data) == ("R0109", ["R0106", "R0111"])


def test_the_fill_and_its_setting(data):
    behaviour, off, facts = filled_memory(data)
    assert (behaviour, off) == ("fill", None)
    assert facts == ["The setting `utils.deterministic.fill_uninitialized_memory`."]


def test_the_licence_the_version_and_the_schema(data):
    assert licence_and_version(data) == ("Apache-2.0", 3, "urn:samebits:export-schema:2.0.0")


def test_the_default_profile_and_its_release(data):
    assert default_and_its_release(data) == ("torch-2.12", "2.12")


PROFILES = read_table(ROOT, "profiles.toml")
DEVICES = read_table(ROOT, "devices.toml")
OWN = {"document": "profiles", "releases": ["complete"], "phrase": "Every op is deterministic"}


def complete(text):
    return completed(tomllib.loads(text), PROFILES, DEVICES)


def test_the_name_in_pytorch_is_that_of_the_op():
    assert complete('op = "sparse.mm"')["torch"] == "torch.sparse.mm"
    assert complete('op = "put"\ntorch = "torch.Tensor.put_"')["torch"] == "torch.Tensor.put_"


def test_a_row_of_our_own_profile_alone_cites_its_statement():
    own = 'op = "a"\nbehaviour = { complete = "deterministic" }\n'
    assert complete(own)["source"] == [OWN]
    notes = {"document": "notes", "releases": ["2.12"], "phrase": "A phrase"}
    cited = '[[source]]\ndocument = "notes"\nreleases = ["2.12"]\nphrase = "A phrase"'
    assert complete(own + cited)["source"] == [OWN, notes]
    assert PROFILES["complete"]["statement"].startswith(f"{OWN['phrase']}.")


@pytest.mark.parametrize(
    "behaviour",
    ['{ "torch-2.12" = "raise", complete = "deterministic" }', '{ no_profile = "raise" }', "1"],
)
def test_any_other_row_has_to_name_its_source(behaviour):
    assert "source" not in complete(f'op = "a"\nbehaviour = {behaviour}')
    assert "source" not in complete('op = "a"')


def test_a_row_of_a_device_without_platforms_is_out_of_scope():
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


def test_values_lie_on_both_sides_of_every_test():
    rows = [row for row in spec.load().rows if row.op == "scatter_add"]
    calls = distinct_calls(rows, spec.load().facts)
    assert [call["input_ndim"] for call in calls] == [0, 1, 2, 3]


def test_every_combination_of_facts_is_a_call():
    rows = [row for row in spec.load().rows if row.op == "bmm" and row.direction == "forward"]
    calls = list(distinct_calls(rows, spec.load().facts))
    assert {call["sparse"] for call in calls} == {False, True}
    settings = {call["cublas_workspace_config"] for call in calls}
    assert settings == {"", ":16:8", ":4096:8"}
    assert len(calls) == 6


def test_the_values_of_a_test():
    assert named_values(True) == [True]
    assert named_values(("sum", "mean")) == ["sum", "mean"]
    assert named_values({"min": 2, "not": (3, 4)}) == [2, 3, 4]

"""Rows about the primitives of JAX: reading, resolving, checking and exporting them."""

import json

import pytest

import spec
from spec.export import as_json
from spec.tests._edits import edit, reports_of_rows

RULES = spec.load()
RACES = {
    "ordered_path_fits": True,
    "dtype": "floating",
    "unique_indices": False,
    "one_update": False,
    "iota_indices": False,
}
ASSIGNS = {**RACES, "same_value": False, "applies_function": False}
ROW = """
[[row]]
id = "R9999"
kind = "primitive"
op = "lax.sort"
primitives = ["{primitive}"]
device = "{device}"
evidence = "A sentence."
{more}
[[row.source]]
document = "compiled"
releases = ["0.11"]
phrase = "A phrase"
"""


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


def test_rows_of_primitives_are_apart_from_those_of_ops():
    assert not [row.id for row in RULES.rows if row.kind == "primitive"]
    for row in RULES.primitives:
        assert RULES.row(row.id) is row
        assert len(set(row.behaviour.values())) == 1
    assert RULES.op_of_primitive["scatter-add"] == "lax.scatter_add"


def test_the_export_has_them_in_a_list_of_their_own():
    exported = json.loads(as_json(RULES))["primitives"]
    assert [row["id"] for row in exported] == [row.id for row in RULES.primitives]
    assert all(row["evidence"] and "torch" not in row for row in exported)


@pytest.fixture
def with_primitives(root):
    (root / "rows" / "jax").mkdir()
    return root


@pytest.mark.parametrize(
    ("primitive", "device", "more", "message"),
    [
        ("sort", "any", "", "'remedy' is a required property"),
        ("sort", "any", 'behaviour = "deterministic"', "'guarantee' is a required property"),
        ("sort", "any", 'remedy = "No full stop"', "remedy does not end with a full stop"),
        ("sort", "cpu", 'remedy = "Sort twice."', "no row says what lax.sort"),
        ("sort", "any", 'behaviour = "fill"\nremedy = "Sort."', "'fill' is not one of"),
        ("Sort", "any", 'remedy = "Sort twice."', "does not match"),
    ],
)
def test_the_check_names_what_is_wrong(with_primitives, primitive, device, more, message):
    text = ROW.format(primitive=primitive, device=device, more=more)
    (with_primitives / "rows" / "jax" / "sorting.toml").write_text(text, encoding="utf-8")
    edit(with_primitives / "ids.toml", "[retired]", 'R9999 = "lax.sort"\n[retired]')
    problem, *_ = reports_of_rows(with_primitives)
    assert problem.startswith("jax/sorting.toml: R9999")
    assert message in problem


def test_two_rows_must_not_contradict(with_primitives):
    first = ROW.format(primitive="sort", device="any", more='remedy = "Sort twice."')
    second = ROW.format(
        primitive="sort",
        device="any",
        more='behaviour = "deterministic"\nguarantee = "portable"\nwhen = { sparse = true }',
    ).replace("R9999", "R9998")
    third = (
        second.replace("R9998", "R9997")
        .replace("sparse", "weights")
        .replace('"portable"', '"run_to_run"')
    )
    text = first + second + third
    (with_primitives / "rows" / "jax" / "sorting.toml").write_text(text, encoding="utf-8")
    ids = "".join(f'R999{n} = "lax.sort"\n' for n in (7, 8, 9))
    edit(with_primitives / "ids.toml", "[retired]", f"{ids}[retired]")
    (problem,) = reports_of_rows(with_primitives)
    assert "decides lax.sort with" in problem

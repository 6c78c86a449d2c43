"""The classes of JAX's primitives under the guarantee ``portable``."""

import json

import pytest

import spec
from spec.export import as_json
from spec.tests._edits import edit, reports

RULES = spec.load()


@pytest.mark.parametrize(
    ("primitive", "dtypes", "answer", "name"),
    [
        ("reshape", {"float32"}, "exact", "moves"),
        ("reshape", {"complex64"}, "exact", "moves"),
        ("add", {"float32"}, "rule", "operations"),
        ("add", {"int32", "bool"}, None, None),
        ("add", {"complex64"}, "rule", "complex_numbers"),
        ("add", {"complex128"}, "refused", ""),
        ("tanh", {"float64"}, "refused", ""),
        ("tanh", {"bfloat16"}, "rule", "functions"),
        ("pow", {"float32"}, "rule", "functions_of_two"),
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


def test_a_refusal_of_a_dtype_names_it():
    assert "complex128" in spec.portability("add", {"complex128", "float32"}).reason
    assert "float32" not in spec.portability("add", {"complex128", "float32"}).reason
    assert "imaginary" in spec.portability("sin", {"complex64"}).remedy


def test_limits_are_in_the_reason(root):
    assert "at most 65536" in RULES.portable["transforms"].reason
    edit(root / "portable.toml", "limits = { length = 65536, prime = 127 }\n", "")
    assert any("portable.toml" in report and "transforms" in report for report in reports(root))


def test_a_primitive_in_two_classes_is_a_problem(root):
    edit(root / "portable.toml", '"approx_top_k"', '"approx_top_k", "add"')
    assert any("'add' is in 'operations' already" in report for report in reports(root))


def test_a_platform_refuses_dtypes_with_a_reason_and_a_remedy(root):
    assert RULES.refused_platforms["tpu"].answer == "refused"
    assert "float64" in RULES.refused_platforms["tpu"].dtypes
    edit(root / "portable.toml", 'dtypes = ["float64", "complex128"]', "")
    assert any("portable.toml" in report and "tpu" in report for report in reports(root))


def test_a_hint_is_about_a_library_and_its_primitives():
    (hint,) = RULES.hints
    (primitive,) = hint.primitives
    assert RULES.hint(primitive, hint.library) == hint.remedy
    assert RULES.hint(primitive, "another") is RULES.hint("sin", hint.library) is None
    assert RULES.hint(primitive, None) is None


@pytest.mark.parametrize(
    ("primitives", "problem"),
    [
        ('["pure_callback", "nobodys"]', "'nobodys' is in no class"),
        ('["pure_callback"]', "'pure_callback' has a hint already"),
    ],
)
def test_a_hint_on_a_wrong_primitive_is_a_problem(root, primitives, problem):
    path = root / "hints.toml"
    text = path.read_text()
    entry = text[text.index("[[hint]]") :].replace('["pure_callback"]', primitives)
    path.write_text(f"{text}\n{entry}" if "already" in problem else text.replace(text, entry))
    assert any(problem in report for report in reports(root))


def test_a_refusal_without_a_remedy_is_a_problem(root):
    edit(root / "portable.toml", 'remedy = "Use `jax.lax.top_k`."\n', "")
    assert any("portable.toml" in r and "remedy" in r for r in reports(root))


@pytest.mark.parametrize(
    ("row", "answer"),
    [
        ("R0158", "exact"),
        ("R0138", "rule"),
        ("R0070", "exact"),
        ("R0024", None),
    ],
)
def test_the_answer_of_a_row_follows_from_its_guarantee(row, answer):
    assert spec.portable_answer(RULES.row(row)) == answer


def test_a_row_about_a_primitive_has_its_classes():
    def names(id):
        return [found.name for found in spec.portable_classes(RULES.row(id))]

    assert names("R0400") == names("R0515") == ["sums"]
    assert names("R0498") == ["sums", "asynchronous_sums"]
    assert names("R0486") == ["rotations"]


def test_the_export_has_the_classes():
    exported = json.loads(as_json(RULES))
    classes = exported["portable"]["classes"]
    for name, found in RULES.portable.items():
        assert classes[name]["answer"] == found.answer
        assert classes[name]["primitives"] == list(found.primitives)
    assert classes["products"]["dtypes"] == ["bfloat16", "float16", "float32"]
    assert exported["portable"]["unlisted"]["answer"] == "refused"
    rows = {row["id"]: row["portable"] for row in (*exported["rows"], *exported["primitives"])}
    assert (rows["R0158"], rows["R0138"]) == ("exact", "rule")
    assert rows["R0412"] == ["sequences"]

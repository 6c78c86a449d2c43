"""The rows of JAX's primitives, their answers under the guarantee portable, and the engines."""

import pytest

import spec
from spec.engines import engine_of, engines, of_several

RULES = spec.load()
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

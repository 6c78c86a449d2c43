"""The classes of JAX's primitives under the guarantee ``portable``."""

import pytest

import spec
from spec.tests._edits import edit, reports

RULES = spec.load()


@pytest.mark.parametrize(
    ("primitive", "dtypes", "answer", "name"),
    [
        ("reshape", {"float32"}, "exact", "moves"),
        ("reshape", {"complex64"}, "exact", "moves"),
        ("add", {"float32"}, "rule", "operations"),
        ("add", {"int32", "bool"}, None, None),
        ("add", {"complex64"}, "refused", ""),
        ("tanh", {"float64"}, "refused", ""),
        ("tanh", {"bfloat16"}, "rule", "functions"),
        ("convert_element_type", {"int32", "float8_e4m3fn"}, "refused", ""),
        ("cholesky", {"float32"}, "refused", "decompositions"),
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
    assert bool(found.reason) == bool(found.remedy) == (answer == "refused")


def test_a_refusal_of_a_dtype_names_it():
    assert "complex64" in spec.portability("add", {"complex64", "float32"}).reason
    assert "float32" not in spec.portability("add", {"complex64", "float32"}).reason


def test_a_primitive_in_two_classes_is_a_problem(root):
    edit(root / "portable.toml", '"approx_top_k"', '"approx_top_k", "add"')
    assert any("'add' is in 'operations' already" in report for report in reports(root))


def test_a_refusal_without_a_remedy_is_a_problem(root):
    edit(root / "portable.toml", 'remedy = "Use `jax.lax.top_k`."\n', "")
    assert any("portable.toml" in r and "remedy" in r for r in reports(root))

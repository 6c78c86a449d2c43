"""The table of engines."""

import pytest

from spec.engines import engine_of, engines, of_several


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

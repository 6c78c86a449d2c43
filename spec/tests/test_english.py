"""Sentences of rows."""

import pytest

import spec
from spec.english import behaviour_of_code, condition, phrase

FACTS = spec.load().facts
DEVICES = spec.load().devices


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
    assert condition(when, DEVICES.get(device), direction, FACTS) == english


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
    assert phrase(FACTS[name], test) == english


def test_every_row_and_erratum_reads_without_a_gap():
    for row in spec.load().rows:
        errata = [erratum.when for erratum in row.errata]
        phrases = [phrase(FACTS[name], test) for when in errata for name, test in when.items()]
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
    (erratum,) = spec.load().row(row).errata
    text = behaviour_of_code(erratum, FACTS, DEVICES)
    assert text.startswith(f"PyTorch's code {sentence}")

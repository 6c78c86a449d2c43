"""Sentences of rows, and rows that belong together."""

import re

import pytest

import spec
from spec.english import behaviour_of_code, condition, phrase
from spec.tests._edits import add, edit, reports, reports_of_rows

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


ADDITIONS = {
    "the same calls": (
        ("index_add", "index_add", "torch.index_add", "cuda"),
        "R9999: R0001 speaks of the same calls",
    ),
    "the same words": (
        ("new", "new", "torch.index_add", "cuda"),
        "R9999: R0001 reads the same under complete",
    ),
    "a tie": (
        ("put", "put", "torch.put", "cuda", 'when = { dtype = "floating" }'),
        r"R9999: R\d+ decides .*'accumulate': True.* on cuda under complete",
    ),
    "a device left out": (
        ("new", "new", "torch.new", "cuda"),
        r"R9999: no row says what new \(forward\) with {} on cpu does under complete",
    ),
}


@pytest.mark.parametrize("name", ADDITIONS)
def test_a_row_that_does_not_fit_is_reported(root, name):
    row, expected = ADDITIONS[name]
    add(root, *row)
    assert re.search(expected, "\n".join(reports(root)))


def test_a_row_may_leave_calls_outside_its_condition_alone(root):
    add(root, "new", "new", "torch.new", "any", "when = { input_ndim = { min = 2 } }")
    assert reports_of_rows(root) == []


def test_a_refusal_under_our_own_profile_is_reported(root):
    edit(
        root / "rows/kthvalue.toml",
        """\
guarantee = "portable"
order = "lowest_index"
behaviour = { "torch-1.10" = "raise", complete = "deterministic" }""",
        'behaviour = { complete = "raise", "torch-1.10" = "raise" }',
    )
    assert re.search("it raises under complete", "\n".join(reports(root)))


def test_two_values_of_one_option_are_reported(root):
    edit(root / "rows/backends.toml", "{ xla_gpu_autotune_level = 0 }", "{ xla_a = 0 }")
    edit(
        root / "rows/backends.toml",
        "{ xla_gpu_exclude_nondeterministic_ops = true }",
        "{ xla_a = 1 }",
    )
    assert re.search("R0202: R0201 sets xla_a to another value", "\n".join(reports(root)))

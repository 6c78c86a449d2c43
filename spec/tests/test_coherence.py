"""Rows of one op against one another."""

import re

import pytest

from spec.tests._edits import add, edit, reports, reports_of_rows

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

"""The estimate of the number of cells that an expression selects."""

import pytest

from conformance.suite.selection import estimate, is_small

NAMES = ["r0001-add-cpu", "r0001-add-cuda", "r0002-sort-cpu", "unlisted-sort-cuda"]


@pytest.mark.parametrize(
    ("expression", "count"),
    [
        ("R0001", 2),
        ("R0001 and cpu", 1),
        ("R0001 or R0002", 3),
        ("not R0001", 2),
        ("sort and not (unlisted or R0001)", 1),
        # The name of a test may belong to any cell.
        ("test_bits", 4),
        ("not test_off", 4),
        ("test_bits and R0001", 2),
        ("test_bits[R0001-add-cpu]", 1),
        ("R0001 and", None),
        ("", None),
    ],
)
def test_an_estimate_counts_cells_that_may_be_selected(expression, count):
    assert estimate(expression, NAMES) == count


@pytest.mark.parametrize(
    ("arguments", "small"),
    [
        (["-k", "R0001"], True),
        (["-x", "-kR0001 and cpu"], True),
        (["-k", "not unlisted and not test_off"], False),
        (["-k", "index_add or scatter"], False),
        (["-k"], False),
        (["-x"], False),
        ([], False),
    ],
)
def test_the_tests_of_a_row_are_few(arguments, small):
    assert is_small(arguments, "complete") is small

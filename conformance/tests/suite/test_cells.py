"""Cells have names that tell them apart, and some of them are alike for a test."""

import pytest

from conformance.adapters import loading
from conformance.suite import test_rows
from conformance.suite.cells import cells


def test_names_of_cells_are_unique():
    names = [str(cell) for cell in cells()]
    assert len(names) == len(set(names))


def on_a_cpu():
    if loading.load("impl").devices()[0] != "cpu":
        pytest.skip("the CPU stands in for a GPU only where there is none")


def test_every_path_of_a_stand_in_is_tried_once():
    on_a_cpu()
    cuda = [cell for cell in cells() if cell.device == "cuda"]
    keys = {test_rows.path(loading.load("impl"), cell) for cell in cuda}
    assert len(keys) < len({cell.call() for cell in cuda}) < len(cuda)
    # An op has a path for each direction, row and reduction.
    reductions = [cell for cell in cuda if cell.op == "index_reduce" and cell.row is not None]
    paths = {test_rows.path(loading.load("impl"), cell) for cell in reductions}
    names = ("reduce", "dtype")
    stated = {(c.direction, c.row.id, *map(c.sample.facts.get, names)) for c in reductions}
    assert len(paths) == len(stated)
    native = [cell for cell in cells() if cell.device == "cpu" and cell.profile == "complete"]
    assert len({test_rows.path(loading.load("impl"), cell) for cell in native}) == len(native)


def test_an_alert_is_that_of_a_row_and_a_caller():
    refused = [cell for cell in cells() if cell.behaviour == "raise"]
    first = {test_rows.alert_of(loading.load("impl"), cell): cell for cell in refused}
    assert len(first) < len(refused)
    for cell in refused:
        like = first[test_rows.alert_of(loading.load("impl"), cell)]
        assert (cell.call(), cell.row, cell.caller) == (like.call(), like.row, like.caller)

"""The cells of the suite."""

from conformance.cells import cells


def test_names_of_cells_are_unique():
    names = [str(cell) for cell in cells()]
    assert len(names) == len(set(names))

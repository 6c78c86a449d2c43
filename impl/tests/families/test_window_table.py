"""Tables of windows: positions, factors, and the inverse."""

import numpy as np
import pytest

from impl._families.window_table import WindowTable


def test_positions_outside_the_array_are_not_taps():
    table = WindowTable.of(4, [[-1, 0, 2], [3, 4, 1]])
    np.testing.assert_array_equal(table.index, [[0, 2], [3, 1]])
    assert (table.outputs, table.inputs) == (2, 4)
    assert table.counts.tolist() == [2, 2]
    shorter = WindowTable.of(4, [[7, 0, 2], [3, 4, -2]])
    np.testing.assert_array_equal(shorter.index, [[0, 2], [3, -1]])
    assert shorter.counts.tolist() == [2, 1]


def test_factors_stay_with_their_taps():
    table = WindowTable.of(4, [[-1, 0, 2]], [[9.0, 0.5, 0.25]])
    np.testing.assert_array_equal(table.weight, [[0.5, 0.25]])


def test_intervals():
    table = WindowTable.intervals(5, [-1, 1, 3], [2, 4, 6], step=2)
    np.testing.assert_array_equal(table.index, [[1, -1], [1, 3], [3, -1]])
    assert table.step == 2
    assert table.overlapping


@pytest.mark.parametrize(
    ("index", "only_reads", "identity", "step", "overlapping"),
    [
        ([[0], [1], [2]], True, True, 0, False),
        ([[2], [1], [0]], True, False, 0, False),
        ([[0], [-1], [0]], True, False, 0, True),
        ([[0, 1], [1, 2]], False, False, 1, True),
        ([[1, 0], [2, 1]], False, False, 0, True),
    ],
)
def test_properties(index, only_reads, identity, step, overlapping):
    table = WindowTable.of(3, index)
    assert (table.only_reads, table.identity) == (only_reads, identity)
    assert (table.step, table.overlapping) == (step, overlapping)


def test_the_inverse_lists_the_windows_that_read_a_position():
    rng = np.random.default_rng(0)
    index, weight = rng.integers(-1, 6, (5, 3)), rng.random((5, 3))
    inverse = WindowTable.of(6, index, weight).inverse
    assert (inverse.inputs, inverse.outputs) == (5, 6)
    for position in range(6):
        window, tap = np.nonzero(index == position)
        count = len(window)
        assert inverse.index[position, :count].tolist() == window.tolist()
        assert (inverse.index[position, count:] == -1).all()
        np.testing.assert_array_equal(inverse.weight[position, :count], weight[window, tap])


def test_tables_of_one_content_are_equal_and_hash_alike():
    first, second = (WindowTable.of(3, [[0, 1]], [[1, 2]]) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != WindowTable.of(3, [[0, 1]])

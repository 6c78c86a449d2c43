"""The oracles, on values that show a change of the order."""

import numpy as np
import pytest

import spec
from spec import oracles


def rough(*shape):
    """Numbers of many magnitudes, whose sum depends on the order of additions."""
    rng = np.random.default_rng(shape)
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 5, shape)).astype(np.float32)


def left_to_right(values, start):
    total = np.float32(start)
    for value in values:
        total = total + value
    return total


def test_every_order_has_an_oracle():
    assert [name for name in spec.load().orders if not callable(getattr(oracles, name))] == []


def test_panels_of_one_destination_are_added_left_to_right():
    source = rough(2500)
    index = np.zeros(2500, np.int64)
    panels = [left_to_right(source[i : i + 1024], -0.0) for i in (0, 1024, 2048)]
    expected = np.float32(3) + left_to_right(panels, -0.0)
    assert oracles.panel(np.array([3], np.float32), index, source) == expected
    assert expected != np.float32(3) + left_to_right(source, -0.0)


def test_the_order_of_the_source_starts_from_the_initial_value():
    source, index = rough(2500), np.zeros(2500, np.int64)
    initial = np.array([3], np.float32)
    assert oracles.source(initial, index, source) == left_to_right(source, 3)
    assert left_to_right(source, 3) != oracles.source(initial, index, source[::-1])


def test_the_initial_value_is_a_term_of_an_exact_sum():
    initial = np.array([2**24, -0.0], np.float32)
    # Of two terms that are halfway, the sum is rounded once.
    out = oracles.exact_scatter(initial, np.array([0, 0, 5]), np.ones(3, np.float32))
    assert out.tolist() == [2**24 + 2, 0]
    assert not np.signbit(out[1])
    parts = oracles.exact_scatter(
        (initial * 1j).astype(np.complex64), np.zeros(2, int), np.full(2, 1j, np.complex64)
    )
    assert parts[0] == (2**24 + 2) * 1j


def test_a_panel_is_as_long_as_there_are_destinations():
    source, index = rough(3000), np.full(3000, 1)
    panels = [left_to_right(source[i : i + 2048], -0.0) for i in (0, 2048)]
    out = oracles.panel(np.zeros(1500, np.float32), index, source)
    assert out[1] == np.float32(0) + left_to_right(panels, -0.0)


def test_a_destination_without_contributions_keeps_its_bits():
    initial = np.array([-0.0, 0.0], np.float32)
    out = oracles.panel(initial, np.array([-1, 2, 5]), np.ones(3, np.float32))
    assert out.tobytes() == initial.tobytes()


def test_a_scan_combines_levels_of_blocks():
    values = rough(600)

    def total(start, end):
        return left_to_right(values[start + 1 : end], values[start])

    blocks = [total(start, start + 16) for start in range(0, 592, 16)]
    row = [left_to_right(blocks[start + 1 : start + 16], blocks[start]) for start in (0, 16)]
    got = oracles.blocked_scan(values)
    assert got[15] == blocks[0]
    assert got[37] == (blocks[0] + blocks[1]) + total(32, 38)
    assert got[255] == left_to_right(blocks[1:15], blocks[0]) + blocks[15]
    assert got[260] == row[0] + total(256, 261)
    assert got[599] == ((row[0] + row[1]) + left_to_right(blocks[33:37], blocks[32])) + total(
        592, 600
    )
    assert got.tobytes() != np.cumsum(values).tobytes()


def test_a_map_follows_another():
    earlier, later = np.array([2.0, 3.0]), np.array([5.0, 7.0])
    assert oracles.affine(earlier, later).tolist() == [10.0, 5 * 3 + 7.0]


def test_a_window_adds_its_terms_in_ascending_order():
    values = rough(6)
    index = np.array([[0, 2, 5], [-1, 1, -1], [-1, -1, -1]])
    weight = rough(3, 3)
    out = oracles.window(values, index, weight)
    assert out[0] == (values[0] * weight[0, 0] + values[2] * weight[0, 1]) + (
        values[5] * weight[0, 2]
    )
    assert out[1] == values[1] * weight[1, 1]
    assert out[2] == 0


@pytest.mark.parametrize(("image", "run"), [(False, 4), (True, 1)])
def test_runs_of_taps_are_added_in_order(image, run):
    terms = rough(9)[:, None] * np.ones((1, 8), np.float32)
    sums = [terms[i : i + run].sum(axis=(0, 1)) for i in range(0, 9, run)]
    assert oracles.taps(terms, image=image) == left_to_right(sums, 0.0)


def test_steps_are_added_from_the_last_one():
    terms = rough(5)
    assert oracles.steps(terms) == left_to_right(terms[::-1], 0.0)


def test_the_second_half_is_added_to_the_first():
    a, b, c, d, e = rough(5)
    assert oracles.halves(np.array([a, b, c, d, e])) == ((a + d) + c) + (b + e)
    assert oracles.halves(rough(1)) == rough(1)[0]
    assert np.signbit(oracles.halves(rough(0)))


def test_of_equal_elements_the_lowest_index_is_taken():
    values = np.array([[np.nan], [0.0], [-0.0], [1.0], [np.nan]])
    assert [int(oracles.lowest_index(values, k)[0]) for k in range(1, 6)] == [1, 1, 3, 0, 0]


def test_a_sort_keeps_equal_elements_in_order():
    values = np.array([1.0, np.nan, -0.0, 1.0, 0.0, np.nan])
    assert oracles.stable_sort(values).tolist() == [2, 4, 0, 3, 1, 5]
    assert oracles.stable_sort(values, descending=True).tolist() == [1, 5, 0, 3, 2, 4]


def test_of_values_that_occur_equally_often_the_least_is_taken():
    values = np.array([3.0, 1.0, np.nan, 3.0, 1.0, np.nan, np.nan])
    assert oracles.most_frequent(values) == 1


def test_the_last_write_stays():
    out = oracles.last_write(np.zeros(3), np.array([0, 2, 0, 9]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert out.tolist() == [3, 0, 2]


def test_an_exact_sum_rounds_terms_to_the_grid_of_the_largest():
    bits = spec.load().orders["exact"].parameters["bits"]
    grid = np.float32(2.0 ** (3 - bits))
    # Half a unit of the grid counts as a whole one, and less than half counts as nothing.
    terms = [4, grid, grid / 2, -grid / 4, -4]
    assert oracles.exact(np.array(terms, np.float32)) == 2 * grid
    assert oracles.exact(np.array(terms[::-1], np.float32)) == 2 * grid
    # A float64 keeps what the first grid leaves.
    assert oracles.exact(np.array(terms)) == 1.25 * grid


def test_an_exact_sum_is_rounded_once():
    terms = np.array([2.0**24, 1, 2.0**-5], np.float32)
    assert oracles.exact(terms) == 2.0**24 + 2
    assert left_to_right(terms, 0) == 2.0**24


@pytest.mark.parametrize(
    ("terms", "total"),
    [
        ([], 0.0),
        ([-0.0, -0.0], 0.0),
        ([np.inf, 1], np.inf),
        ([np.inf, -np.inf], np.nan),
        ([-np.inf, np.nan], np.nan),
        ([3e38, 3e38], np.inf),
        ([3e38, 3e38, -3e38], np.float32(3e38)),
        ([1e-38, -1.2e-38], -1.2e-38),
        ([1.5e-38, -1.2e-38], 0.0),
    ],
)
def test_an_exact_sum_of_special_values(terms, total):
    out = oracles.exact(np.array(terms, np.float32))
    np.testing.assert_array_equal(out, np.float32(total))
    assert np.signbit(out) == (total < 0)


def test_a_running_sum_has_one_grid():
    bits = spec.load().orders["exact"].parameters["bits"]
    small = np.float32(2.0 ** (1 - 2 * bits))
    out = oracles.exact_running(np.array([small / 4, small, 1], np.float32))
    assert out.tolist() == [0, small, 1]


def test_running_products_are_made_in_rounds():
    x = rough(6).astype(np.float64)
    pairs = [x[0], *(x[i - 1] * x[i] for i in range(1, 6))]
    fours = [*pairs[:2], *(pairs[i - 2] * pairs[i] for i in range(2, 6))]
    assert oracles.doubling(x)[5] == fours[1] * fours[5]
    assert oracles.doubling(np.array([1e200, 1e200, 1e-300])).tolist() == [1e200, np.inf, 1e100]


def test_a_transform_is_numpys():
    real, imaginary = np.random.default_rng(0).normal(size=(2, 3, 60))
    for inverse, function in ((False, np.fft.fft), (True, lambda z: np.fft.ifft(z) * 60)):
        parts = oracles.transform(real, imaginary, inverse=inverse)
        assert np.allclose(parts[0] + 1j * parts[1], function(real + 1j * imaginary), rtol=1e-13)


def test_the_last_sum_of_a_transform_is_over_the_greatest_prime_factor():
    a, b, c, d, e, f = 0.1, 0.7, 1e-17, 0.3, -0.1, 0.2
    found, _ = oracles.transform(np.array([a, b, c, d, e, f]), np.zeros(6))
    assert found[0] == ((a + d) + (b + e)) + (c + f)

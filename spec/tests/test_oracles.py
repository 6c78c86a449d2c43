"""The oracles, on values that show a change of the order."""

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import spec
from spec import oracles


def rough(*shape):
    """Numbers of many magnitudes, whose sum depends on the order of additions."""
    rng = np.random.default_rng(shape)
    return (rng.standard_normal(shape) * 10.0 ** rng.integers(-4, 5, shape)).astype(np.float32)


def test_every_order_has_an_oracle():
    assert [name for name in spec.load().orders if not callable(getattr(oracles, name))] == []


def test_products_by_index_are_made_in_rounds():
    a, b, c, d, e, start = rough(6, 30)[:, 0]
    index = np.array([1, 1, 7, 1, 1, -1, 1])
    source = np.array([a, b, 9, c, d, 9, e], np.float32)
    out = oracles.source(np.array([5, start], np.float32), index, source, np.multiply)
    assert out.tolist() == [5, start * (((a * b) * (c * d)) * e)]
    assert out[1] != start * (a * b * c * d * e)
    assert out[1] != start * a * b * c * d * e


def test_the_initial_value_of_a_scatter_is_a_term():
    initial = np.array([2**24, -0.0], np.float32)
    # Of two terms that are halfway, the sum is rounded once.
    out = oracles.nearest_scatter(initial, np.array([0, 0, 5]), np.ones(3, np.float32))
    assert out.tolist() == [2**24 + 2, 0]
    assert not np.signbit(out[1])
    parts = oracles.nearest_scatter(
        (initial * 1j).astype(np.complex64), np.zeros(2, int), np.full(2, 1j, np.complex64)
    )
    assert parts[0] == (2**24 + 2) * 1j


def test_a_destination_without_contributions_keeps_its_bits():
    initial = np.array([-0.0, 0.0], np.float32)
    for write in (oracles.last_write, lambda *each: oracles.source(*each, np.multiply)):
        out = write(initial, np.array([-1, 2, 5]), np.full(3, 3, np.float32))
        assert out.tobytes() == initial.tobytes()


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


#: Values around the borders of each dtype, and others.
BORDERS = {
    "float16": [0.0, -0.0, 65504.0, -65504.0, 2.0**-24, -(2.0**-24), 1.5, -0.75, 2049.0 / 2048],
    "bfloat16": [0.0, -0.0, 3e38, -3e38, 2.0**-126, -1.5 * 2.0**-126, 1.5, -0.75, 257.0 / 256],
    "float32": [0.0, -0.0, 3e38, -3e38, 2.0**-126, -1.5 * 2.0**-126, 1.5, 2.0**-36, 1 + 2.0**-23],
    "float64": [0.0, -0.0, 1.7e308, 2.0**-1022, -1.5 * 2.0**-1022, 1.5, 2.0**-90, 1 + 2.0**-52],
}
DTYPES = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in BORDERS}


def fraction(value):
    return Fraction(float(value))


def is_nearest(result, exact):
    """Whether no float of the dtype is nearer to a number, and an even one is taken of two."""
    below, above = (np.nextafter(result, result.dtype.type(side)) for side in (-np.inf, np.inf))
    error = abs(fraction(result) - exact)
    others = [abs(fraction(other) - exact) for other in (below, above) if np.isfinite(other)]
    last_bit = int(result.view(f"u{result.dtype.itemsize}")) & 1
    return all(error < other or (error == other and not last_bit) for other in others)


@pytest.mark.parametrize("binades", [3, 24, 60])
@pytest.mark.parametrize("name", BORDERS)
def test_no_float_is_nearer_than_the_nearest(name, binades):
    dtype = DTYPES[name]
    rng = np.random.default_rng(binades)
    spread = min(binades, 6) if name == "float16" else binades
    draw = rng.standard_normal((12, 40)) * 2.0 ** rng.integers(-spread, spread + 1, (12, 40))
    terms = draw.astype(dtype)
    terms[6:, :20] = -terms[:6, :20]  # They cancel, but for one term.
    terms[0, :10] = dtype.type(2.0**-spread)
    sums = oracles.nearest(terms)
    assert sums.dtype == dtype
    for column in range(40):
        assert is_nearest(sums[column], sum(map(fraction, terms[:, column])))
    products = oracles.nearest_product(terms.T[:6], terms[:, :6], dtype)
    for i, j in np.ndindex(6, 6):
        pairs = zip(terms[:, i], terms[:, j], strict=True)
        assert is_nearest(products[i, j], sum(fraction(a) * fraction(b) for a, b in pairs))
    running = oracles.nearest_running(terms)
    for end in range(12):
        assert running[end].tobytes() == oracles.nearest(terms[: end + 1]).tobytes()


@pytest.mark.parametrize("name", BORDERS)
def test_sums_of_two_are_those_of_ieee(name):
    values = np.array([*BORDERS[name], np.inf, -np.inf, np.nan], DTYPES[name])
    a, b = (each.ravel() for each in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        want = (a + b).astype(np.float64)
    lowest = {"float16": 0.0, "float64": 2.0**-1022}.get(name, 2.0**-126)
    want = np.where((np.abs(want) < lowest) | (want == 0), 0.0, want)
    got = oracles.nearest(np.stack([a, b])).astype(np.float64)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[numbers], np.signbit(want)[numbers])


def test_a_sum_is_rounded_once():
    # 2**24 + 1 lies between two floats. The term that breaks the tie is 36 binades smaller.
    tie = [2.0**24, 1]
    for more, total in ((0, 2**24), (2.0**-36, 2**24 + 2), (-(2.0**-36), 2**24)):
        terms = np.array([*tie, more], np.float32)
        assert oracles.nearest(terms) == total
        assert oracles.nearest(terms[::-1]) == total
    # Rounded to a float64 first, the sum would lie between two float32.
    terms = np.array([1, 2.0**-24, 2.0**-60], np.float32)
    assert oracles.nearest(terms) == 1 + 2.0**-23
    assert np.float32(math.fsum(terms.tolist())) == 1
    assert oracles.nearest(terms, np.float64) == 1 + 2.0**-24
    assert oracles.nearest(terms, np.float16) == 1


@pytest.mark.parametrize(
    ("terms", "total"),
    [
        ([], 0.0),
        ([-0.0, -0.0], 0.0),
        ([2.5, -2.5], 0.0),
        ([np.inf, 1], np.inf),
        ([np.inf, -np.inf], np.nan),
        ([-np.inf, np.nan], np.nan),
        ([3e38, 3e38], np.inf),
        ([3e38, 3e38, -3e38], np.float32(3e38)),
        ([1e-38, -1.2e-38], -1.2e-38),
        ([1.5e-38, -1.2e-38], 0.0),
        ([1.2e-38, -1.5e-38], 0.0),
    ],
)
def test_special_values_of_a_sum(terms, total):
    out = oracles.nearest(np.array(terms, np.float32))
    np.testing.assert_array_equal(out, np.float32(total))
    product = oracles.nearest_product(
        np.array([terms], np.float32), np.ones((len(terms), 1)), np.float32
    )
    np.testing.assert_array_equal(product, np.float32(total))
    if not np.isnan(total):
        assert np.signbit([out, product[0, 0]]).tolist() == [np.signbit(total)] * 2


def test_the_borders_of_rounding():
    half = Fraction(1, 2)
    for name, bits, least, greatest in (
        ("float16", 11, -14, 15),
        ("bfloat16", 8, -126, 127),
        ("float32", 24, -126, 127),
        ("float64", 53, -1022, 1023),
    ):
        most = (2 - Fraction(2) ** (1 - bits)) * Fraction(2) ** greatest
        step = Fraction(2) ** (greatest - bits + 1)
        assert oracles.rounded_once(most + step * half, DTYPES[name]) == math.inf
        below = oracles.rounded_once(-most - step * Fraction(511, 1024), DTYPES[name])
        assert below == -most
        tiny = Fraction(2) ** least
        assert oracles.rounded_once(tiny, DTYPES[name]) == tiny
        # A float16 has subnormals. A float32 is flushed after 24 bits have rounded it.
        kept = {"float16": tiny * half, "float32": tiny}.get(name, 0)
        beneath = half if name == "float16" else 1 - Fraction(2) ** -25
        assert oracles.rounded_once(tiny * beneath, DTYPES[name]) == kept
        lower = oracles.rounded_once(-tiny * (1 - Fraction(2) ** -24), DTYPES[name])
        assert (lower == 0) == (name != "float16")
        assert math.copysign(1, lower) == (-1 if lower else 1)
    subnormals = [oracles.rounded_once(Fraction(n, 4) / 2**24, "float16") for n in (2, 3, 5, 6)]
    assert [2**24 * subnormal for subnormal in subnormals] == [0, 1, 1, 2]


def test_the_parts_of_complex_products_are_rounded_once():
    # (1 + 2**-12)**2 - 1 has 24 bits less than its terms.
    a = np.array([[1 + 2.0**-12 + 1j, 3 - 2j]], np.complex64)
    b = np.array([[1 + 2.0**-12 + 1j], [2.0**-30 * 1j]], np.complex64)
    out = oracles.nearest_product(a, b, np.complex64)
    assert out.real == 2.0**-11 + 2.0**-24 + 2 * 2.0**-30
    assert out.imag == 2 * (1 + 2.0**-12) + 3 * 2.0**-30 - np.float32(0)
    sums = oracles.nearest(np.array([2.0**24 + 1j, 1 + 1e9j, 2.0**-36 - 1e9j], np.complex64))
    assert sums == 2**24 + 2 + 1j
    scaled = oracles.nearest_product(a.real, b, np.complex64)
    assert scaled.real == oracles.nearest_product(a.real, b.real, np.float32)


def test_special_values_of_a_product():
    a = np.array([[np.inf, 1], [np.inf, 0], [np.nan, 0], [1e-40, -3e38], [3e38, 3e38]], np.float32)
    b = np.array([[1, 0, -1, 2], [1, 1, np.inf, -2]], np.float32)
    want = [
        [np.inf, np.nan, np.nan, np.inf],
        [np.inf, np.nan, np.nan, np.inf],
        [np.nan] * 4,
        [-3e38, -3e38, -np.inf, np.inf],
        [np.inf, 3e38, np.inf, 0],
    ]
    out = oracles.nearest_product(a, b, np.float32)
    np.testing.assert_array_equal(out, np.array(want, np.float32))
    assert not np.signbit(out[4, 3])


def test_a_convolution_is_a_sum_of_products():
    rng = np.random.default_rng(7)
    images = rng.standard_normal((2, 2, 3, 5)).astype(np.float32)
    kernel = rng.standard_normal((2, 4, 3, 2)).astype(np.float32)
    window = np.array([[-1, 0], [0, 1], [3, 4], [4, -1], [-1, -1]])
    kernel[0, 1, 2, 0] = np.inf
    out = oracles.nearest_convolution(images, kernel, window, np.float32)
    assert out.shape == (2, 2, 4, 5)
    assert np.isnan(out[:, 0, 1]).all()
    for n, g, o, r in np.ndindex(2, 2, 4, 5):
        pairs = [
            (images[n, g, c, at], kernel[g, o, c, t])
            for c in range(3)
            for t, at in enumerate(window[r])
            if at >= 0
        ]
        if (g, o) != (0, 1):
            assert is_nearest(out[n, g, o, r], sum(fraction(a) * fraction(b) for a, b in pairs))


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

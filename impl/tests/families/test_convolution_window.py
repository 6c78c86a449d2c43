"""The geometry of a convolution."""

import spec
from impl._families.convolution_window import ConvolutionWindow

WINDOW = ConvolutionWindow(
    image=(5, 4),
    result=(3, 2),
    kernel=(2, 3),
    stride=(2, 1),
    dilation=(1, 2),
    before=(1, 0),
    groups=1,
)


def test_taps_are_in_row_major_order():
    assert WINDOW.taps == ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2))
    assert WINDOW.positions == 6


def test_the_padded_sizes_hold_all_that_windows_read():
    # The last window of each dimension ends at 2 * 2 + 1 and at 1 + 2 * 2.
    assert WINDOW.padded_sizes == (6, 6)


def test_a_product_covers_enough_taps_for_its_terms():
    terms = spec.load().orders["taps"].parameters["terms"]
    assert WINDOW.taps_per_product(terms) == 1
    assert WINDOW.taps_per_product(terms // 2) == 2
    assert WINDOW.taps_per_product(1) == min(len(WINDOW.taps), terms)
    assert WINDOW.taps_per_product(0) == min(len(WINDOW.taps), terms)

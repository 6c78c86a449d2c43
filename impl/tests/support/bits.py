"""Comparison of arrays bit for bit."""

import numpy as np


def bits(value):
    """Returns dtype, shape and bytes, which differ for zeros of two signs and for two NaNs."""
    value = np.asarray(value)
    return value.dtype, value.shape, value.tobytes()


def assert_same_bits(got, want, label=""):
    """Raises if a bit differs; the message has ``label`` and the first element that differs."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, label
    assert got.shape == want.shape, label
    if got.tobytes() == want.tobytes():
        return
    words = f"u{got.dtype.itemsize}" if got.dtype.kind != "c" else f"u{got.dtype.itemsize // 2}"
    got_words, want_words = (np.atleast_1d(array).view(words) for array in (got, want))
    differences = np.argwhere(got_words != want_words)
    first = tuple(differences[0])
    raise AssertionError(
        f"{label}: {len(differences)} words differ, first at {first}: {got_words[first]:#x} for "
        f"{want_words[first]:#x}; got\n{got}\nwanted\n{want}"
    )


def assert_all_same_bits(got, want, label=""):
    """Compares two sequences of arrays."""
    for position, (one, other) in enumerate(zip(got, want, strict=True)):
        assert_same_bits(one, other, f"{label} [{position}]")

"""Numbers of float64 at borders, at random exponents, and near ties."""

import numpy as np

_BORDERS = [0.0, 1.0, 0.5, 1.5, 2.5, 3.0, np.inf, np.nan, 2.0**-1022, np.finfo(np.float64).max]
_NEAR = [1 + 2.0**-52, 1 - 2.0**-53, 0.5 - 2.0**-54, 2.0**52, 2.0**53 + 2, 2.0**63, 2.0**31 - 1]
_OF_FLOAT32 = [2.0**-126, 2.0**-126 * (1 - 2.0**-25), 2.0**128, 2.0**1023, 1e-300, 0.1]
SPECIAL = np.array([*_BORDERS, *_NEAR, *_OF_FLOAT32])
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])


def words(numbers):
    """Returns the bits of float64."""
    return np.ascontiguousarray(numbers, np.float64).view(np.uint64)


def numbers(bits):
    """Returns the float64 of bits."""
    return np.asarray(bits).view(np.float64)


def flushed(values):
    """Returns numbers with zeros for subnormal ones."""
    return np.where(np.abs(values) < 2.0**-1022, np.copysign(0, values), values)


def drawn(rng, size=4096):
    """Yields arrays of numbers."""
    yield flushed(numbers(rng.integers(0, 2**64, size, dtype=np.uint64)))
    yield rng.standard_normal(size)
    yield np.ldexp(rng.integers(-8, 9, size).astype(float), rng.integers(-60, 60, size))
    yield np.ldexp(1 + rng.integers(-4, 5, size) * 2.0 ** -rng.integers(1, 53, size), 1)


def pairs(rng):
    """Yields pairs of arrays."""
    one, other = (each.ravel() for each in np.meshgrid(SPECIAL, SPECIAL))
    yield one, other
    for left in drawn(rng):
        for right in drawn(rng):
            yield left, right
        with np.errstate(all="ignore"):
            yield left, -left * (1 + rng.integers(-3, 4, left.size) * 2.0**-52)


def same(got, expected):
    """Returns where words have the bits of expected numbers; all NaNs are alike."""
    expected = flushed(expected)
    return (np.asarray(got) == words(expected)) | (np.isnan(numbers(got)) & np.isnan(expected))

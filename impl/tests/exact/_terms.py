"""Terms whose exact sum is hard to round: ties, cancellation, and the borders of a dtype."""

import ml_dtypes
import numpy as np

from impl.tests.exact._sums import DTYPES, rough


def hard_terms(rng, count, dtype="float32"):
    """Returns the terms of many sums, by name.

    Args:
        rng: A generator of NumPy.
        count: The number of terms of each sum, at least 8.
        dtype: A name of ``DTYPES``.

    Returns:
        Arrays of the shape [count]. Terms that a float16 does not hold are 0 or infinite.
    """
    info = ml_dtypes.finfo(DTYPES[dtype])
    greatest, tiny, bits = float(info.max), float(info.tiny), info.nmant + 1
    is_narrow = dtype == "float16"
    # The middle between 1 and the float above it, and a far smaller number, which breaks a tie.
    half, less = 2.0**-bits, 2.0**-24 if is_narrow else 2.0 ** -(bits + 36)
    huge = 2.0 ** (15 if is_narrow else 60)
    above = 1 + 2 * half
    border = 2.0 ** (info.maxexp - 1 - bits)  # From here on, a sum with ``greatest`` overflows.
    pairs = rough(rng, ((count - 1) // 2,), dtype, 5 if is_narrow else 24).astype(np.float64)
    cancelling = [*pairs, *-pairs]
    sums = {
        "cancels": cancelling,
        "cancels but for a small term": [*cancelling, less],
        "cancels but for two terms": [*cancelling[1:], less],
        "tie": [1, half],
        "odd tie": [above, half],
        "negative tie": [-above, -half],
        "tie broken above": [1, half, less],
        "tie broken below": [above, half, -less],
        "tie with huge terms": [huge, 1, half, -huge],
        "broken tie with huge terms": [huge, above, half, -less, -huge],
        "one huge term": [huge * 2.0 ** (0 if is_narrow else 40), *rng.standard_normal(count - 1)],
        "zeros": np.zeros(count),
        "negative zeros": np.full(count, -0.0),
        "NaN": [np.nan, np.inf, 1],
        "infinity": [np.inf, -greatest, np.inf],
        "negative infinity": [-np.inf, greatest],
        "infinities of both signs": [np.inf, 1, -np.inf],
        "subnormal": np.full(count, tiny / 2),
        "subnormal and the least normal": [tiny, tiny / 4, tiny / 2],
        "subnormal sum": [1.5 * tiny, -tiny],
        "negative subnormal sum": [tiny, -1.75 * tiny],
        "least normal sum": [3 * tiny, -2 * tiny],
        "greatest": [greatest, border / 2],
        "overflow at the tie": [greatest, border],
        "no overflow below the tie": [greatest, border, -border * 2.0**-20],
        "negative overflow": [-greatest, -greatest],
        "overflow on the way": [greatest, greatest, -greatest, -1],
    }
    for binades in (3, 24, 60):
        sums[f"{binades} binades"] = rough(
            rng, (count,), dtype, min(binades, 6 if is_narrow else 60)
        )
    return {name: _shuffled(rng, values, count, dtype) for name, values in sums.items()}


def hard_matrix(rng, count, dtype="float32"):
    """Returns the terms of ``hard_terms`` as columns, shape [count, sums]."""
    return np.stack(list(hard_terms(rng, count, dtype).values()), 1)


def serial_terms():
    """Returns float32 whose sums a float64 gets wrong, if it adds them one after another."""
    # Each small term is half of the last place of a float64 near 32, so each is rounded away.
    errors = [*[1] * 32, 2.0**-19 - 2.0**-43, *[2.0**-48] * 40]
    # Near 9, the last place of a float64 is 2**-49, and here a bit of 2**-50 breaks a tie.
    bits = [*[1.5] * 5, 1.5 + 2.0**-21, 2.0**-27 + 2.0**-50, -(2.0**-27)]
    return {
        "errors of one sign": np.array(errors, np.float32),
        "a sum of 54 bits": np.array(bits, np.float32),
    }


def outweighed_terms(half):
    """Returns columns of terms whose sum is 1 + 3 * half, a tie, less a far smaller term.

    Wherever a sum of parts cuts the terms, a column has one term above the cut, and terms below the
    cut that outweigh it.

    Args:
        half: Half of the last place of the result near 1, whose nearest one is 1 + 2 * half.
    """
    units = 2.0 ** -np.arange(60, 120)
    parts = [0.75 * units, *[-0.25 * units] * 3]
    rest = [1 + 2 * half, half, 2.0**-60, -(2.0**-60), -(2.0**-126)]
    return np.stack([*(np.full(60, each) for each in rest), *parts])


def _shuffled(rng, values, count, dtype):
    """Returns values in random positions, among zeros of both signs."""
    out = np.where(rng.random(count) < 0.5, -0.0, 0.0)
    if np.all(np.asarray(values) == 0):
        out = np.asarray(values, np.float64)
    out[rng.permutation(count)[: len(values)]] = values
    with np.errstate(over="ignore"):
        return out.astype(DTYPES[dtype])

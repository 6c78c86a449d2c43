"""Helpers of the tests of exact sums: terms that are hard to round, and comparison with oracles."""

from fractions import Fraction

import jax
import ml_dtypes
import numpy as np

from impl._exact import arithmetic
from impl._exact.unrounded.states import unpacked
from spec import oracles

DTYPES = {
    "float32": np.dtype(np.float32),
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float64": np.dtype(np.float64),
}
#: The dtypes of at most 32 bits.
NARROW = [name for name in DTYPES if name != "float64"]


def results_for(dtype):
    """Returns the names of the dtypes that the native engine rounds sums of a dtype to."""
    return ["float64"] if dtype == "float64" else NARROW


def rough(rng, shape, dtype="float32", spread=20):
    """Returns numbers over a range of binades, whose plain sums depend on the order."""
    exponents = rng.integers(-spread, spread + 1, shape)
    with np.errstate(over="ignore"):
        return (rng.standard_normal(shape) * 2.0**exponents).astype(DTYPES[dtype])


def run(function, *args):
    """Returns the result of a function under jit, called as functions of impl._exact are."""
    with arithmetic.wide():
        return jax.tree.map(np.asarray, jax.jit(function)(*args))


def assert_same(got, want, label=""):
    """Raises if a bit differs, except in the payload of a NaN."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, label
    assert got.shape == want.shape, label
    words = f"u{got.dtype.itemsize}"
    got, want = np.atleast_1d(got), np.atleast_1d(want)
    same = got.view(words) == want.view(words)
    both_nan = np.isnan(got.astype(np.float64)) & np.isnan(want.astype(np.float64))
    differs = ~(same | both_nan)
    where = np.argwhere(differs)
    assert len(where) == 0, f"{label}: at {where[0]}: {got[differs][:3]} for {want[differs][:3]}"


def assert_bounds_and_digits(operation, want, *arrays, most=np.inf):
    """Requires that the bounds of an operation hold its exact sums, and that its digits are them.

    Args:
        operation: An operation of the native engine.
        want: The exact sums, rounded to float64.
        *arrays: The operands.
        most: The greatest bounds.
    """
    several, want, order = (1, 8), want.ravel(), np.arange(want.size)
    is_wide = operation.dtype == np.float64

    def program(*arrays):
        bounds = operation.state if is_wide else operation.bounds
        digits = [operation.digits(each, *arrays) for each in (order, turned)]
        return [bounds(*arrays, parts=parts) for parts in several], *digits

    turned = np.append(order[::-1], -1)
    results, digits, backwards = run(program, *arrays)
    # The digits have 32 bits each.
    unit = Fraction(2) ** (-2176 if is_wide else -352)
    exact, other = (
        [unit * sum(int(digit) << (32 * i) for i, digit in enumerate(row)) for row in each]
        for each in (digits, backwards)
    )
    assert other == [*exact[::-1], 0]
    assert [oracles.rounded_once(each, np.float64) for each in exact] == want.tolist()
    for parts, result in zip(several, results, strict=True):
        high, low, bound = (
            run(unpacked, result) if is_wide else (result[0], 0 * result[0], result[1])
        )
        assert high.shape == bound.shape == (-(-want.size // parts) * parts,)
        assert not high[want.size :].any()
        assert not bound[want.size :].any()
        bound = bound[: want.size] * (1 if is_wide else 2.0**-40)
        for *near, error, each in zip(high, low, bound, exact, strict=False):
            assert abs(sum(map(Fraction, map(float, near))) - each) <= Fraction(float(error))
        assert is_wide or (bound >= (parts - 1) * 2.0**-53 * np.abs(want)).all()
        assert (bound <= most).all()


def with_specials(rng, x):
    """Returns terms with infinities and NaNs, zeros of both signs and subnormal numbers."""
    x = x.copy()
    tiny = 2.0**-130 if x.dtype != np.float16 else 2.0**-20
    for value, share in [(np.inf, 4), (-np.inf, 4), (np.nan, 3), (-0.0, 30), (tiny, 30)]:
        x.reshape(-1)[rng.integers(0, x.size, share)] = value
    return x


def with_minus_zeros(x):
    """Returns the sums along the first axis; a sum is -0 if all its terms are."""
    value = oracles.nearest(x)
    terms = x.astype(np.float64)
    tiny = 0 if x.dtype == np.float16 else float(ml_dtypes.finfo(x.dtype).smallest_normal)
    are_minus = np.signbit(terms) & ((terms == 0) | (np.abs(terms) < tiny))
    return np.where(are_minus.all(0), np.array(-0.0, x.dtype), value)


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
    # Two parts of a float64 have 100 bits.
    half, less = 2.0**-bits, 2.0 ** -{"float16": 24, "float64": 126}.get(dtype, bits + 36)
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

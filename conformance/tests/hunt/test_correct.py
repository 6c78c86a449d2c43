"""Functions of mpmath are rounded once, also near the middle of two floats.

Tests: conformance.hunt.correct.
"""

import ml_dtypes
import numpy as np
import pytest
from scipy import special

from conformance.hunt import correct
from conformance.hunt.tokens import TOKENS


def test_a_value_beside_the_middle_goes_to_the_nearer_float():
    x = np.array([3 * 2.0**-23, 0.0, np.nan, np.inf], np.float32)
    values, holds = correct.rounded_once("logistic", x)
    # 1/2 + x/4 is the middle, and would go to 0.5 + 2**-23, whose last bit is 0.
    assert values[:2].tolist() == [0.5 + 2.0**-24, 0.5]
    assert holds.tolist() == [True, True, False, False]


@pytest.mark.parametrize("name", sorted(correct.FUNCTIONS))
@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_the_values_are_the_nearest_to_float64(name, dtype):
    x = np.array([0.1, 0.25, 0.75, 1.5, 3.0, -0.3, -2.0], dtype)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        numpy = {"cbrt": np.cbrt(wide), "rsqrt": 1 / np.sqrt(wide), "acosh": np.arccosh(wide)}
        numpy |= {"asinh": np.arcsinh(wide), "atanh": np.arctanh(wide)}
        numpy |= {"logistic": 1 / (1 + np.exp(-wide)), "erf": special.erf(wide)}
        numpy |= {"erfc": special.erfc(wide), "erf_inv": special.erfinv(wide)}
        numpy |= {"asin": np.arcsin(wide), "acos": np.arccos(wide), "atan": np.arctan(wide)}
        want = numpy[name] if name in numpy else getattr(np, name)(wide)
    values, holds = correct.rounded_once(name, x)
    least = 2 * float(ml_dtypes.finfo(dtype).smallest_normal)
    assert holds.tolist() == (np.isfinite(want) & (abs(want) > least)).tolist()
    assert np.array_equal(values[holds], want[holds].astype(dtype).astype(np.float64))


def test_what_the_guarantee_rounds_in_steps_or_flushes_is_left_to_float64():
    assert not correct.rounded_once("exp", np.array([1.0]))[1].any()
    assert not correct.rounded_once("exp", np.array([-87.5], np.float32))[1].any()
    assert not correct.rounded_once("log", np.array([-1.0, 0.0], np.float32))[1].any()


def test_every_function_is_a_token_that_is_near():
    assert {TOKENS[name].check for name in correct.FUNCTIONS} == {"near"}

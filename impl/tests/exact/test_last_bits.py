"""The last bit of terms, and products that float64 adds without error."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from impl._exact.nearest import interval, last_bits, repair
from impl._exact.products import convolution, dot_general
from impl.tests.exact._sums import assert_same, run


@pytest.mark.parametrize(
    ("terms", "power"),
    [
        ([1.0], 0),
        ([0.75, 1024, 0, -(2.0**-10)], -10),
        ([3 * 2.0**-20, 5.0], -20),
        ([1 + 2.0**-23], -23),
        ([2.0**-126, np.nan], -126),
        ([np.inf, 6.0], 1),
    ],
)
def test_all_terms_are_multiples_of_their_last_bit(terms, power):
    found = int(run(last_bits._of_all, np.array(terms, np.float32))) - 126
    # Bits of one term and the exponent of another one may give a smaller power.
    assert power - 23 <= found <= power
    values = np.array([each for each in terms if np.isfinite(each)]) / 2.0**found
    assert (values == np.round(values)).all()


def test_terms_of_one_bit_have_the_least_one_as_their_last_bit():
    terms = 2.0 ** np.arange(-30, 30, dtype=np.float32)
    assert int(run(last_bits._of_all, terms)) - 126 == -30


@pytest.mark.parametrize(("most", "exact"), [(2.0**40, True), (2.0**43, False)])
def test_a_bound_is_0_where_float64_has_all_bits(most, exact):
    chain = interval.of_chain(10)

    def error(most):
        last = (np.int32(126 - 5), np.int32(126 - 6))
        return last_bits._unless_exact(most * jnp.float64(chain), chain, *last)

    got = run(error, np.array([most]))
    assert (float(got[0]) == 0) == exact


WEIGHTS = np.kron(np.eye(32), [0.25, 0.75]) + np.kron(np.eye(32, k=1), [0.75, 0.25])


@pytest.mark.parametrize("name", ["product", "convolution"])
def test_ties_of_short_weights_are_in_no_doubt(rng, name, monkeypatch):
    def unrepaired(coded, dtype, *_):
        return lax.bitcast_convert_type(coded, dtype)

    monkeypatch.setattr(repair, "repaired_sums", unrepaired)
    rows = rng.standard_normal((256, 32)).astype(np.float32)
    if name == "product":
        weights = WEIGHTS.astype(np.float32)
        numbers = (((1,), (0,)), ((), ()))
        got = run(
            lambda a, b: dot_general.dot_general(a, b, dimension_numbers=numbers), rows, weights
        )
        want = rows.astype(np.float64) @ WEIGHTS
    else:
        weights = np.array([[[0.25, 0.75, 0.5]]], np.float32)
        numbers = lax.conv_dimension_numbers((256, 1, 32), (1, 1, 3), ("NCW", "OIW", "NCW"))
        options = {"window_strides": (1,), "padding": ((0, 0),), "dimension_numbers": numbers}
        got = run(
            lambda a, b: convolution.conv_general_dilated(a, b, **options), rows[:, None], weights
        )
        wide = rows.astype(np.float64)
        want = (0.25 * wide[:, :-2] + 0.75 * wide[:, 1:-1] + 0.5 * wide[:, 2:])[:, None]
    narrow = want.astype(np.float32)
    neighbours = np.nextafter(narrow, np.where(narrow > want, -np.inf, np.inf).astype(np.float32))
    is_tie = abs(want - narrow) == abs(want - neighbours.astype(np.float64))
    assert is_tie.sum() > 100
    assert_same(got, narrow)

"""Elementary functions of floats of 16 to 64 bits, at known values; and pairs.

Tests: impl._exact.elementary._pairs, impl._exact.elementary._words,
impl._exact.elementary.doubles._function, impl._exact.elementary.doubles._pairs,
impl._exact.elementary.doubles._pieces,
impl._exact.elementary.doubles.exponentials, impl._exact.elementary.doubles.logarithms,
impl._exact.elementary.doubles.powers, impl._exact.elementary.doubles.trigonometric,
impl._exact.elementary.doubles.special_functions, impl._exact.elementary.special_functions,
impl._exact.elementary.exponentials, impl._exact.elementary.trigonometric,
impl._exact.elementary.powers, impl._exact.elementary.roots_and_quotients.
"""

from unittest import mock

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from scipy import special

from impl._exact import arithmetic
from impl._exact.elementary import FUNCTIONS, _pairs, _words, exponentials
from impl.tests.exact import elementary_samples as samples
from impl.tests.exact._sums import run

INF, NAN = np.inf, np.nan
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
#: The functions whose value in float64 depends on contraction; the rounded value does not.
UNSEALED = ("exp", "log", "log1p", "log2", "logistic")


def call(name, *operands, **parameters):
    with arithmetic.wide():
        return np.asarray(jax.jit(lambda *a: FUNCTIONS[name](*a, **parameters))(*operands))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits(name):
    """The samples have special values, and pairs of all of them, and the known exceptions."""
    known = samples.digests()
    for operands, parameters in samples.samples(name):
        expected = known[samples.key(name, operands, parameters)]
        if name in UNSEALED or operands[0].dtype == samples.DOUBLE:
            digests = {"rounded": samples.digest(call(name, *operands, **parameters))}
        else:
            double, single = samples.with_double(name, operands, parameters)
            digests = {"rounded": samples.digest(single), "float64": samples.digest(double)}
        assert digests == expected, (name, parameters)


@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - set(UNSEALED)))
def test_sealed(name):
    count = 2 if name in samples.OF_TWO else 1
    parameters = {"y": 7} if name == "integer_pow" else {}
    with arithmetic.wide():
        operands = [np.ones(2, np.float32)] * count
        jaxpr = jax.make_jaxpr(lambda *a: FUNCTIONS[name](*a, **parameters))(*operands).jaxpr
    assert not unsealed(jaxpr)


def test_unsealed_is_found():
    def contracted(x):
        return lax.add(lax.mul(x, x), x)

    assert unsealed(jax.make_jaxpr(contracted)(np.ones(2)).jaxpr)


def unsealed(jaxpr):
    """Returns the products that a sum uses although they are not exact."""
    maker = {id(variable): eqn for eqn in jaxpr.eqns for variable in eqn.outvars}
    sums = [eqn for eqn in jaxpr.eqns if eqn.primitive.name in ("add", "sub")]
    products = [
        maker[id(operand)]
        for eqn in sums
        for operand in eqn.invars
        if id(operand) in maker and maker[id(operand)].primitive.name == "mul"
    ]
    is_float = [eqn for eqn in products if np.issubdtype(eqn.outvars[0].aval.dtype, np.floating)]
    return [eqn for eqn in is_float if not any(is_short(o, maker) for o in eqn.invars)]


def is_short(operand, maker):
    """Returns whether the products with an operand are exact by construction."""
    eqn = maker.get(id(operand))
    if eqn is None:
        return False
    if eqn.primitive.name == "broadcast_in_dim":
        data = _words.data
        short = (1.0, data.LN2_HIGH, data.LN2_LOW, *data.LN2_EIGHTH[:2])
        significands = np.abs(np.frexp(short)[0])
        return abs(np.frexp(float(eqn.invars[0].val))[0]) in significands
    if eqn.primitive.name == "bitcast_convert_type":
        # The result of a seal comes from a minimum. Any other operand was built from bits: it is a
        # power of two, or has few bits.
        source = maker.get(id(eqn.invars[0]))
        return source is not None and source.primitive.name != "min"
    return False


def test_bounds_of_exp():
    def neighbours(bound, dtype):
        bound = dtype(bound)
        return np.exp(np.longdouble([np.nextafter(bound, dtype(-INF)), bound]))

    below, least = neighbours(exponentials._LOW, np.float32)
    assert below < 2.0**-126 <= least
    assert np.exp(exponentials._HIGH) > 2.0**128


@pytest.mark.once
@pytest.mark.parametrize("name", _words.EXCEPTIONS)
def test_exceptions_are_needed(name):
    # The digests have the right values of these arguments too.
    x, expected = np.float32(_words.EXCEPTIONS[name]).T.copy()
    with mock.patch.object(_words, "EXCEPTIONS", {}):
        without = call(name, x)
    assert np.all(without != expected)
    assert np.array_equal(np.nextafter(without, expected), expected)


def test_logistic_is_closer_to_a_half_than_its_tangent():
    k = np.arange(-255, 256)
    x = (k * 2.0**-23).astype(np.float32)
    # From 1/2 on, floats are multiples of 2**-24: of odd k, the value is below the middle of two.
    expected = 0.5 + np.where(k > 0, k - k % 2, k) * 2.0**-25
    assert_same(call("logistic", x), expected.astype(np.float32))


def test_ties_of_powers_are_even():
    # The squares of these numbers have 25 bits, the last of which is 1.
    odd = np.arange(4097, 5792, 2, dtype=np.float32)
    expected = (odd.astype(np.float64) ** 2).astype(np.float32)
    assert_same(call("pow", odd, np.full_like(odd, 2)), expected)
    seven = np.array([7, 9.5], BFLOAT16)
    assert_same(call("pow", seven, np.array([3, 2], BFLOAT16)), np.array([344, 90], BFLOAT16))


def test_powers_of_integers():
    base = np.float32([-2, -2, 0, -0.0, 3, np.nan])
    exponent = np.int32([3, -2, -1, -3, 40, 0])
    expected = np.float32([-8, 0.25, INF, -INF, 12157665459056928801, 1])
    assert_same(call("pow", base, exponent), expected)
    assert_same(call("integer_pow", base, y=0), np.ones_like(base))
    assert_same(call("integer_pow", base, y=1), base)
    assert_same(call("integer_pow", base, y=-1), np.float32([-0.5, -0.5, INF, -INF, 1 / 3, NAN]))


def assert_same(result, expected):
    assert result.dtype == expected.dtype
    assert samples.digest(result) == samples.digest(expected), (result, expected)


def test_division_by_a_scalar_is_no_multiplication():
    (a,), _ = samples.samples("sqrt")[0]
    program = jax.jit(lambda a, b: FUNCTIONS["div"](a, lax.broadcast(b, a.shape)))
    for b in np.float32([3, 7, 0.1]):
        with arithmetic.wide(), np.errstate(all="ignore"):
            result, expected = np.asarray(program(a, b)), a / b
        expected = np.where(np.abs(expected) < 2.0**-126, np.copysign(0, a), expected)
        assert_same(result, np.where(np.abs(a) < 2.0**-126, np.copysign(0, a), expected))


def test_a_quotient_by_a_reciprocal_is_rounded_as_the_exact_one():
    (a, b), _ = samples.samples("div")[0]
    divide = lax.div

    def off(x, y):
        return arithmetic.seal(lax.mul(divide(x, y), lax.full_like(x, 1 + 2.0**-51)))

    with mock.patch.object(lax, "div", off):
        result = call("div", a, b)
    assert samples.digest(result) == samples.digests()["div float32"]["rounded"]


def test_double():
    x = np.float64([0.1, 2, 3, 700, 1e300])
    assert_same(call("div", x, x[::-1].copy()), x / x[::-1])
    assert_same(call("sqrt", x), np.sqrt(x))


@pytest.mark.usefixtures("portable")
@pytest.mark.once
def test_draws_and_densities(rng):
    key, x = jax.random.key(0), rng.gamma(2.0, size=100).astype(np.float32)
    counts = jax.jit(lambda: jax.random.poisson(key, 35.0, (200,)))()
    assert 33 < counts.mean() < 37
    slope = jax.jit(jax.grad(lambda a: jax.scipy.stats.gamma.logpdf(x, a).sum()))(2.0)
    assert np.isclose(slope, np.log(x).sum() - 100 * special.psi(2.0), rtol=1e-5)


def test_rounding_to_odd_keeps_the_side_of_the_middle():
    middle = 1 + 2.0**-24
    high = np.array([middle, middle, middle, -middle, -middle, 2.0**-24, np.inf])
    low = np.array([2.0**-80, -(2.0**-80), 0, 2.0**-80, -(2.0**-80), 0, np.nan])
    result = run(lambda *x: arithmetic.narrow(_pairs.rounded_to_odd(x), np.float32), high, low)
    above = 1 + 2.0**-23
    assert result.tolist() == [above, 1, 1, -1, -above, 2.0**-24, np.inf]


def test_short():
    value = np.array([1 + 2.0**-25 + 2.0**-52, -(1 + 2.0**-26), 1 - 2.0**-26])
    assert run(lambda x: _pairs.short(x, 26), value).tolist() == [
        1 + 2.0**-25,
        -1 - 2.0**-25,
        1 - 2.0**-26,
    ]

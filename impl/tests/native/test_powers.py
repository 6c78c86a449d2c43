"""Powers of the engine ``native``, against the powers that XLA computes."""

import pathlib
import re

import jax
import numpy as np
import pytest
from jax import lax

import impl
from impl._exact import arithmetic, elementary
from impl._exact.elementary import _coefficients as data
from impl._exact.elementary import _pair_functions
from impl._native import library, powers, scope
from impl.tests.exact._sums import DTYPES, run

pytestmark = pytest.mark.skipif(not library.is_available(), reason="needs the library in C++")

NARROW = [name for name in DTYPES if name != "float64"]
#: Numbers whose powers are special, ties of two floats, zero, infinite or subnormal.
SPECIAL = (
    *(0.0, 1.0, np.inf, np.nan, 1e-45, 1e-39, 1.1754944e-38, 6e-8, 6.1e-5, 6.5504e4, 3.4028235e38),
    *(0.5, 1.5, 2.5, 0.25, 1 / 3, 1 / 64, 2.0, 3.0, 4.0, 5.0, 7.0, 9.0, 15.0, 16.0, 24.0, 127.0),
    *(4095.0, 4097.0, 5793.0, 46341.0, 16777215.0, 1 + 2.0**-7, 1 + 2.0**-23, 1 - 2.0**-24),
    *(126.0, 128.0, 149.0, 150.0, 151.0, 16777216.0, 33554432.0, 1e30, 1e-30, 2.0**-126, 2.0**-133),
)


def of_xla(x, y):
    """Returns the powers by the equations of the engine float64."""
    return run(elementary.FUNCTIONS["pow"], x, y)


def of_call(x, y):
    """Returns the powers by the call, which has to be there."""
    function = scope.with_calls(elementary.FUNCTIONS["pow"])
    with arithmetic.wide():
        jaxpr = jax.make_jaxpr(function)(x, y)
    is_called = scope.has_calls(jaxpr)
    assert is_called
    return run(function, x, y)


def assert_bits(got, want):
    """Raises if any bit differs, also of a NaN."""
    assert got.dtype == want.dtype
    assert got.shape == want.shape
    words = np.dtype(f"u{got.dtype.itemsize}")
    differs = got.reshape(-1).view(words) != want.reshape(-1).view(words)
    where = np.flatnonzero(differs)
    assert len(where) == 0, f"at {where[:3]}: {got.reshape(-1)[differs][:3]}"


def any_floats(rng, count, dtype):
    """Returns floats of all signs and exponents, NaNs and infinities among them."""
    words = f"u{DTYPES[dtype].itemsize}"
    return (
        rng.integers(0, 256, count * DTYPES[dtype].itemsize, np.uint8)
        .view(words)
        .view(DTYPES[dtype])
    )


@pytest.mark.parametrize("dtype", NARROW)
def test_powers_of_any_floats(rng, dtype):
    x, y = any_floats(rng, 30_000, dtype), any_floats(rng, 30_000, dtype)
    assert_bits(of_call(x, y), of_xla(x, y))


@pytest.mark.parametrize("dtype", NARROW)
def test_powers_that_are_neither_zero_nor_infinite(rng, dtype):
    x = rng.uniform(1, 2, 30_000) * 2.0 ** rng.integers(-14, 15, 30_000)
    near = 1 + rng.uniform(-1, 1, x.size) * 2.0 ** -rng.integers(1, 20, x.size)
    x = np.where(rng.random(x.size) < 0.5, near, x).astype(DTYPES[dtype])
    with np.errstate(all="ignore"):
        y = rng.uniform(-110, 95, x.size) / np.log(x.astype(np.float64))
        y = y.astype(DTYPES[dtype])
    want = of_xla(x, y)
    assert len(np.unique(want)) > (10_000 if dtype == "float32" else 1000)
    assert_bits(of_call(x, y), want)


@pytest.mark.parametrize("dtype", NARROW)
def test_special_values_and_ties(dtype):
    with np.errstate(over="ignore"):
        values = np.array([*SPECIAL, *(-value for value in SPECIAL)]).astype(DTYPES[dtype])
    x, y = (each.reshape(-1) for each in np.meshgrid(values, values))
    assert_bits(of_call(x, y), of_xla(x, y))


@pytest.mark.parametrize("dtype", NARROW)
def test_exact_powers_of_few_bits(dtype):
    base, exponent = np.meshgrid(np.arange(1, 8200.0), (2, 3, 0.5, 1.5, 0.25, -1, -0.5, 1 / 64))
    with np.errstate(over="ignore"):
        x, y = base.astype(DTYPES[dtype]), exponent.astype(DTYPES[dtype])
        squares = (base * base).astype(DTYPES[dtype])
    assert_bits(of_call(x, y), of_xla(x, y))
    assert_bits(of_call(squares, y), of_xla(squares, y))


@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("integer", ["int8", "int32", "uint32", "int64"])
def test_integer_exponents(rng, dtype, integer):
    info = np.iinfo(integer)
    few = [0, 1, 2, 3, 7, 127, *(() if info.min == 0 else (-1, -2, -3, -128))]
    some = rng.integers(info.min, info.max, 20, integer, endpoint=True)
    ints = np.array([*few, *some, info.min, info.max, info.max - 1], integer)
    with np.errstate(over="ignore"):
        values = np.array([*SPECIAL, *(-value for value in SPECIAL)]).astype(DTYPES[dtype])
    x, y = (each.reshape(-1) for each in np.meshgrid(values, ints))
    assert_bits(of_call(x, y), of_xla(x, y))


@pytest.mark.parametrize("shape", [(), (1,), (7,), (3, 5), (2, 3, 11), (0,), (4, 0, 2)])
def test_scalars_and_short_and_empty_arrays(rng, shape):
    x = rng.uniform(0.5, 3, shape).astype(np.float32)
    y = rng.uniform(-9, 9, shape).astype(np.float32)
    want = of_xla(x, y)
    if want.size:
        assert_bits(of_call(x, y), want)
    else:
        with scope.within():
            assert_bits(run(powers.pow, x, y), want)


@pytest.mark.parametrize("size", [9_999, 10_000, 123_457])
def test_threads_share_an_array(rng, size):
    x = np.exp(rng.uniform(-3, 3, size)).astype(np.float32)
    y = rng.uniform(-9, 9, size).astype(np.float32)
    assert_bits(of_call(x, y), of_xla(x, y))


def test_a_program_has_the_call_and_vmap_has_the_same_bits(rng):
    x = rng.uniform(0.5, 3, (5, 6)).astype(np.float32)
    count = np.arange(5, dtype=np.int32)

    def function(x, count):
        return jax.vmap(lambda x, n: lax.pow(x, lax.full_like(x, n, np.int32)) * 0.9**n)(x, count)

    with impl.deterministic(guarantee="portable"):
        compiled = jax.jit(function).lower(x, count).compile()
    with impl.deterministic(guarantee="portable"), impl.testing.engine("float64"):
        want = jax.jit(function)(x, count)
    assert "samebits_pow" in compiled.as_text()
    assert_bits(np.asarray(compiled(x, count)), np.asarray(want))


def test_the_call_has_no_other_dtypes():
    with scope.within(), jax.enable_x64(True):
        for dtypes in (("float64", "float64"), ("float32", "float16"), ("float32", "uint64")):
            x, y = (np.ones(3, dtype) for dtype in dtypes)
            assert powers.pow(jax.numpy.asarray(x), jax.numpy.asarray(y)) is None


def test_the_constants_in_c_plus_plus_are_the_ones_in_python():
    folder = pathlib.Path(library.__file__).parent
    text = (folder / "src/coefficients.h").read_text("utf-8")
    constants = re.findall(r"constexpr \w+ (\w+)(?:\[\])? = (.*?);", text, re.DOTALL)
    numbers = {
        name: [float(each) for each in re.findall(r"-?\d+\.\d+(?:e-?\d+)?", value)]
        for name, value in constants
    }
    factors = [(factor, bound, *log) for factor, bound, log in _pair_functions._FACTORS]
    assert numbers == {
        "kLog2E": [_pair_functions._LOG2_E],
        "kLn2High": [data.LN2_HIGH],
        "kLn2Low": [data.LN2_LOW],
        "kLn2Rest": [data.LN2_REST],
        "kPair2_3": [*data.PAIR_2_3],
        "kPairLog": [*data.PAIR_LOG],
        "kPairExp": [*data.PAIR_EXP],
        "kFactors": [number for factor in factors for number in factor],
        "kRoots": [number for root in _pair_functions._ROOTS[1:] for number in root],
    }

"""Elementary functions of the engine ``native``, against known digests and what XLA computes.

Tests: impl._native.functions.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import impl
from impl._exact import elementary
from impl._native import functions, library, scope
from impl.tests.exact import elementary_samples as samples
from impl.tests.exact._sums import DTYPES, NARROW, run

pytestmark = pytest.mark.skipif(not library.is_available(), reason="needs the library in C++")

#: Numbers whose powers are special, ties of two floats, zero, infinite or subnormal.
SPECIAL = (
    *(0.0, 1.0, np.inf, np.nan, 1e-45, 1e-39, 1.1754944e-38, 6e-8, 6.1e-5, 6.5504e4, 3.4028235e38),
    *(0.5, 1.5, 2.5, 0.25, 1 / 3, 1 / 64, 2.0, 3.0, 4.0, 5.0, 7.0, 9.0, 15.0, 16.0, 24.0, 127.0),
    *(4095.0, 4097.0, 5793.0, 46341.0, 16777215.0, 1 + 2.0**-7, 1 + 2.0**-23, 1 - 2.0**-24),
    *(126.0, 128.0, 149.0, 150.0, 151.0, 16777216.0, 33554432.0, 1e30, 1e-30, 2.0**-126, 2.0**-133),
)


def of_xla(name, *operands):
    """Returns the results of the equations that XLA compiles."""
    return run(elementary.FUNCTIONS[name], *operands)


def of_call(name, *operands):
    """Returns the results of the call, also of arrays that XLA computes."""
    own = functions.key(name, [operand.dtype for operand in operands])
    return run(functions.Function(len(operands), operands[0].ndim, own).nearest, *operands)


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


@pytest.mark.parametrize("name", sorted({own.split()[0] for own in functions.programs()}))
def test_each_function_has_the_known_bits(name):
    known = samples.digests()
    for operands, parameters in samples.samples(name):
        if functions.key(name, [each.dtype for each in operands]) in functions.programs():
            digest = samples.digest(of_call(name, *operands))
            assert digest == known[samples.key(name, operands, parameters)]["rounded"]


@pytest.mark.parametrize("name", ["pow", "erf", "sin"])
@pytest.mark.parametrize("dtype", NARROW)
def test_any_floats(rng, name, dtype):
    operands = [any_floats(rng, 30_000, dtype) for _ in range(1 + (name in samples.OF_TWO))]
    want = of_xla(name, *operands)
    assert samples.digest(of_call(name, *operands)) == samples.digest(want)


def special(dtype):
    with np.errstate(over="ignore"):
        return np.array([*SPECIAL, *(-value for value in SPECIAL)]).astype(DTYPES[dtype])


@pytest.mark.parametrize("dtype", NARROW)
def test_special_values_ties_and_exact_powers(dtype):
    base, exponent = np.meshgrid(np.arange(1, 8200.0), (2, 3, 0.5, 1.5, 0.25, -1, -0.5, 1 / 64))
    pairs = [np.meshgrid(*[special(dtype)] * 2), (base, exponent), (base * base, exponent)]
    with np.errstate(over="ignore"):
        x, y = (
            np.concatenate([each.ravel() for each in some]).astype(DTYPES[dtype])
            for some in zip(*pairs, strict=True)
        )
    assert_bits(of_call("pow", x, y), of_xla("pow", x, y))


@pytest.mark.parametrize(
    ("dtype", "integer"),
    [("float32", "int8"), ("float16", "int32"), ("float32", "uint32"), ("bfloat16", "int64")],
)
def test_integer_exponents(rng, dtype, integer):
    info = np.iinfo(integer)
    few = [0, 1, 2, 3, 7, 127, *(() if info.min == 0 else (-1, -2, -3, -128))]
    some = rng.integers(info.min, info.max, 20, integer, endpoint=True)
    ints = np.array([*few, *some, info.min, info.max, info.max - 1], integer)
    x, y = (each.reshape(-1)[:600] for each in np.meshgrid(special(dtype), ints))
    with scope.within():
        got = run(lambda *operands: functions.call("pow", *operands), x, y)
    assert_bits(got, of_xla("pow", x, y))


def test_a_program_has_the_call_and_vmap_has_the_same_bits(rng):
    x = rng.uniform(0.5, 3, (5, 6)).astype(np.float32)
    count = np.arange(5, dtype=np.int32)

    def function(x, count):
        return jax.vmap(lambda x, n: lax.pow(x, lax.full_like(x, n, np.int32)) * 0.9**n)(x, count)

    with impl.deterministic(guarantee="portable"):
        compiled = jax.jit(function).lower(x, count).compile()
    with impl.deterministic(guarantee="portable"), impl.testing.engine("float64"):
        want = jax.jit(function)(x, count)
    assert "samebits_function" in compiled.as_text()
    assert_bits(np.asarray(compiled(x, count)), np.asarray(want))


def test_the_position_of_an_element_in_a_block_does_not_matter(rng):
    x = rng.standard_normal(1000).astype(np.float32)
    whole = of_call("tanh", x)
    for count in (1, 3, 31, 32, 33, 255, 256, 257, 999):
        assert_bits(of_call("tanh", x[-count:]), whole[-count:])
    assert_bits(of_call("tanh", x[0]), whole[0])


def test_xla_computes_short_functions_and_great_arrays():
    def is_called(name, count):
        with scope.within(), jax.enable_x64(True):
            x = jnp.ones(count, np.float32)
            return functions.call(name, x) is not None

    assert is_called("tanh", 1000)
    assert not is_called("tanh", 100_000)
    assert not is_called("sqrt", 10)


def test_the_call_has_no_other_dtypes():
    with scope.within(), jax.enable_x64(True):
        for dtypes in (("float64", "float64"), ("float32", "float16"), ("float32", "uint64")):
            assert functions.call("pow", *(jnp.ones(3, dtype) for dtype in dtypes)) is None


@pytest.mark.parametrize("step", [255, 7 << 8, 7 << 20, 2049 << 32])
def test_a_program_beyond_its_registers_is_refused(step):
    def function(x):
        result = jax.ShapeDtypeStruct(x.shape, x.dtype)
        steps, constants = np.array([step], np.int64), np.zeros(1)
        numbers = {"registers": np.int64(2), "result": np.int64(1)}
        return jax.ffi.ffi_call("samebits_function", result)(
            x, steps=steps, constants=constants, **numbers
        )

    with pytest.raises(jax.errors.JaxRuntimeError, match="no such function"):
        run(function, np.ones(3, np.float32))

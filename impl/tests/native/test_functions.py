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
from impl.tests.exact._sums import DTYPES, NARROW, assert_same, run

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


NONE = functions.Program()
#: Returns the negative of the first operand.
NEGATIVE = functions.Program((1 | 1 << 8 | 2048 << 20,), (0,), 2, (1,))


def of_program(program, *operands, quick=NONE):
    """Returns the results of the call of a program, with a quick one or none."""

    def function(x, *more):
        call = jax.ffi.ffi_call("samebits_function", jax.ShapeDtypeStruct(x.shape, x.dtype))
        return call(x, *more, **program.attributes(), **quick.attributes("quick_"))

    return run(function, *operands)


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


@pytest.mark.parametrize("own", sorted(own for own in functions.programs() if "quick" in own))
def test_the_quick_program_changes_no_bit(rng, own):
    own = own.removesuffix(" quick")
    dtypes = [DTYPES.get(each, np.dtype(each)) for each in own.split()[1:]]
    exponents = rng.uniform(-40, 12, (len(dtypes), 20_000))
    operands = [
        np.concatenate([special("float64"), rng.standard_normal(20_000) * np.exp2(each)])
        for each in exponents
    ]
    operands[1:] = [np.roll(each, 1) for each in operands[1:]]
    with np.errstate(invalid="ignore"):
        operands = [each.astype(dtype) for each, dtype in zip(operands, dtypes, strict=True)]
    quick = functions.programs()[f"{own} quick"]
    program = functions.programs()[own]
    want = of_program(program, *operands)
    for few in (200, None):
        got = of_program(program, *(each[:few] for each in operands), quick=quick)
        assert_same(got, want[:few])
    of_doubts = of_program(NEGATIVE, *operands, quick=quick)
    assert ((of_doubts == want) | np.isnan(want)).mean() > 0.8


@pytest.mark.parametrize("count", [1, 3, 257, 5000, 600_000])
def test_an_element_whose_two_ends_differ_is_computed_by_the_program(rng, count):
    x = rng.choice([1.5, -3.0, 2.0**60, -np.inf, np.nan], count)
    half = int(np.float64(0.5).view(np.int64))
    sums = (1 << 8 | 2048 << 32, 2 << 8 | 2049 << 32)
    quick = functions.Program(sums, (0, half), 3, (1, 2))
    want = np.where(np.abs(x) < 2.0**53, -x, x)
    assert_same(of_program(NEGATIVE, x, quick=quick), want)


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

    assert functions.has_call("tanh", [jax.ShapeDtypeStruct((1 << 30,), np.float64)])
    assert is_called("tanh", 1000)
    assert not is_called("tanh", 100_000)
    assert not is_called("sqrt", 10)


def test_the_call_has_no_other_dtypes():
    with scope.within(), jax.enable_x64(True):
        for dtypes in (("float64", "float32"), ("float32", "float16"), ("float32", "uint64")):
            assert functions.call("pow", *(jnp.ones(3, dtype) for dtype in dtypes)) is None


@pytest.mark.parametrize("step", [255, 7 << 8, 7 << 20, 2049 << 32])
@pytest.mark.parametrize("is_quick", [False, True])
def test_a_program_beyond_its_registers_is_refused(step, is_quick):
    program = functions.Program((step,), (0,), 2, (1,))
    # Ends that differ ask for the program.
    quick = functions.Program((1 | 1 << 8 | 2048 << 20,), (0,), 2, (0, 1))
    with pytest.raises(jax.errors.JaxRuntimeError, match="no such function"):
        of_program(program, np.ones(3), quick=quick if is_quick else NONE)
